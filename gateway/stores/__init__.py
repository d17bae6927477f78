"""Redis and the archive's folder: the only part of the server that knows them.

Implements the interfaces of `domain.store` and `ports` with one Lua script per transition (`lua/`).
Enter at `requests` (the state of requests) or `keys` (the names of all keys).
"""
