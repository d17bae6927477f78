"""How models become bytes, the same on the agent's side and the gateway's.

Pure but for the module that speaks Redis; no third-party library is loaded at import. Enter at
`codec` (values to JSON and back) or `canonical_json` (what an approval names).
"""
