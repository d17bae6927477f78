"""Convert messages to bytes, in the same way on the agent's side and in the gateway.

No third-party library is imported, except by the module that speaks Redis. Start with `codec`
(values to JSON and back) or `canonical_json` (digests of actions).
"""
