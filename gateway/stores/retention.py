"""Forgets what is old: events and the requests they name go together, seals stay."""

from __future__ import annotations

import asyncio
import logging

from gateway.domain.clock import Clock
from gateway.errors import GatewayError
from gateway.ports.outgoing import GRANT
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.requests import RedisStore
from gateway.stores.seals import seals_of

log = logging.getLogger("gateway.retention")

_HOUR_SECONDS = 3600.0
_DAY_MS = 86_400_000
_BATCH = 500
_PASSING: tuple[type[Exception], ...] = (GatewayError, *REDIS_ERRORS)


class Retention:
    """Drops events older than `days`, but none of a waiting request and none that is unsealed."""

    def __init__(self, store: RedisStore, clock: Clock, *, days: float) -> None:
        self._store = store
        self._clock = clock
        self._keep_ms = int(days * _DAY_MS)

    async def run(self) -> None:
        """Look once an hour, until cancelled. Replicas may all do so."""
        while True:
            try:
                await self.trim()
            except _PASSING as error:
                log.warning("retention failed: %s", error, extra={"event": "retention_failed"})
            await asyncio.sleep(_HOUR_SECONDS)

    async def trim(self) -> int:
        """Drop what is old, dead letters too; return how many requests were forgotten."""
        store = self._store
        limit = await self._limit()
        # Exactly on a seal's edge, so that what remains still verifies from its first event.
        edge = await self._edge(limit)
        if edge is None:
            return 0
        await store.redis.xtrim(store.keys.events, minid=_after(edge), approximate=False)
        before_ms = int(edge.partition("-")[0])
        forgotten = 0
        while ids := await store.redis.zrange(
            store.keys.done, "-inf", f"({before_ms}", byscore=True, offset=0, num=_BATCH
        ):
            await store.redis.delete(
                *(key(one) for one in ids for key in (store.keys.record, store.keys.copies))
            )
            await store.redis.zrem(store.keys.deadlines, *ids)
            await store.redis.zrem(store.keys.done, *ids)
            forgotten += len(ids)
        await self._forget_grants(before_ms)
        await store.redis.xtrim(store.keys.dead, minid=_after(edge), approximate=False)
        return forgotten

    async def _forget_grants(self, before_ms: int) -> None:
        """Drop the grants that ended before then, with where their cards stood."""
        redis, keys = self._store.redis, self._store.keys
        for ended in (keys.grants_ended, keys.grants_passed):
            while ids := await redis.zrange(
                ended, "-inf", f"({before_ms}", byscore=True, offset=0, num=_BATCH
            ):
                of = (keys.grant(one) for one in ids)
                await redis.delete(*of, *(keys.copies(GRANT + one) for one in ids))
                await redis.zrem(ended, *ids)

    async def _limit(self) -> int:
        """Return the time before which nothing is needed any more, in ms since the epoch."""
        limit = self._clock.now_ms() - self._keep_ms
        oldest = await self._store.redis.zrange(self._store.keys.pending, 0, 0, withscores=True)
        return min(limit, int(oldest[0][1])) if oldest else limit

    async def _edge(self, limit: int) -> str | None:
        """Return the last event of the last seal that lies wholly before `limit`."""
        edge: str | None = None
        async for seal in seals_of(self._store):
            if int(seal.last.partition("-")[0]) >= limit:
                break
            edge = seal.last
        return edge


def _after(event_id: str) -> str:
    milliseconds, _, sequence = event_id.partition("-")
    return f"{milliseconds}-{int(sequence) + 1}"
