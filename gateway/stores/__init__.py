"""Redis, and nothing but Redis: the only part of the server that knows it."""
