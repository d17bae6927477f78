"""What a sign-in that was begun must come back with, in Redis: for one browser and one purpose,
once, for five minutes."""

from __future__ import annotations

from base64 import b64decode, b64encode

from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import sha256_hex

ATTEMPT_SECONDS = 300


class RedisAttempts:
    """What waits to come back, of one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis = store.redis
        self._keys = store.keys

    async def remember(self, purpose: str, browser: str, kept: bytes) -> None:
        """Keep it; another one of the same browser and purpose goes."""
        text = b64encode(kept).decode()
        await self._redis.set(self._name(purpose, browser), text, ex=ATTEMPT_SECONDS)

    async def take(self, purpose: str, browser: str) -> bytes | None:
        """Return it, once; None where there is none, or its time is up."""
        kept = await self._redis.getdel(self._name(purpose, browser))
        return None if kept is None else b64decode(kept)

    def _name(self, purpose: str, browser: str) -> str:
        """What one browser must come back with (string, base64)."""
        return self._keys.of("challenge", sha256_hex(f"{purpose}\0{browser}".encode()))
