"""How models become bytes, the same on the agent's side and the gateway's.

Pure but for the two modules that speak Redis; no third-party library is loaded at import. Enter at
`codec` (values to JSON and back) or `digest` (what an approval names).
"""
