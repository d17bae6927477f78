"""Read and write Redis and the archive folder. No other part of the server accesses them.

Implements the interfaces of `domain.store` and `ports`, with one Lua script per transition
(`lua/`). Start with `requests` (the state of requests) or `keys` (the names of all keys).
"""
