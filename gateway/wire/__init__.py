"""Convert messages to bytes and back. Agents and the gateway use the same code.

Only the module for Redis connections imports a third-party library. Start with `codec` (values to
JSON and back) or `canonical_json` (digests of actions).
"""
