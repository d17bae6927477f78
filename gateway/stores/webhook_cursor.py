"""Which event was sent last to the webhook, and which replica sends."""

from __future__ import annotations

import secrets

from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script


class RedisCursor:
    """A `gateway.delivery.webhooks.Cursor` over one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis = store.redis
        self._place = store.keys.of("webhooks", "cursor")
        self._claim = [store.keys.of("webhooks", "claim"), store.keys.meta]
        self._sender = secrets.token_hex(8)
        self._take = Script("claim", store.at)

    async def claim(self, seconds: float) -> bool:
        """Be the one replica that sends, for so many seconds; False while another one is."""
        taken = await self._take.run(self._redis, self._claim, [self._sender, int(seconds * 1000)])
        return bool(taken)

    async def load_cursor(self) -> str | None:
        """Return the id of the last event that was dealt with, None in the beginning."""
        found: str | None = await self._redis.get(self._place)
        return found

    async def save_cursor(self, event_id: str) -> None:
        """Remember that this event was dealt with."""
        await self._redis.set(self._place, event_id)
