"""Delete old requests, then their events and seals, from Redis and the archive (`Retention`)."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from gateway.domain.records import place_of
from gateway.domain.time_and_tasks import Clock
from gateway.errors import GatewayError
from gateway.ports.outgoing import GRANT
from gateway.stores.archive_folder import NOTHING, Archive, ArchiveCursor, SegmentHead
from gateway.stores.archiver import Trimming, next_id
from gateway.stores.audit import seals_of
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.requests import RedisStore

log = logging.getLogger("gateway.stores")

_HOUR_SECONDS = 3600.0
_DAY_MS = 86_400_000
_BATCH = 500
_PASSING: tuple[type[Exception], ...] = (GatewayError, *REDIS_ERRORS)


class Edge(NamedTuple):
    """The point where the retained data begins: the archive cursor to set, and the last event and
    the last seal to drop from Redis."""

    mark: ArchiveCursor
    last: str
    entry: str


class Retention:
    """Drops events older than `days`, except events of pending requests and unsealed events."""

    def __init__(
        self, store: RedisStore, clock: Clock, *, days: float, trimming: Trimming | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._keep_ms = int(days * _DAY_MS)
        self._trimming = trimming or Trimming(store)

    async def run(self) -> None:
        """Drop old data once an hour until cancelled. All replicas may run it."""
        while True:
            try:
                await self.trim()
            except _PASSING as error:
                log.warning("retention failed: %s", error, extra={"event": "retention_failed"})
            await asyncio.sleep(_HOUR_SECONDS)

    async def trim(self) -> int:
        """Drop old data, including dead letters. Return how many requests were dropped."""
        async with self._trimming.turn() as ours:
            return await self._trim() if ours else 0

    async def _trim(self) -> int:
        store, mark = self._store, await self._store.audit.mark()
        edge = await self._edge(mark)
        forgotten = 0
        if edge is not None:
            forgotten = await self._forget_requests(edge.last)
            await self._forget_grants(_ms(edge.last))
            await store.redis.xtrim(store.keys.dead, minid=next_id(edge.last), approximate=False)
            # Drop the events last: if the gateway dies before that, the next run repeats
            # everything.
            if await self._trimming.trim(mark, edge.mark, edge.entry):
                mark = edge.mark
        if store.archive is not None:
            await asyncio.to_thread(store.archive.drop, mark.first)
        return forgotten

    async def _forget_requests(self, last: str) -> int:
        """Drop the requests that ended before an event. Return how many were dropped."""
        store, forgotten = self._store, 0
        while ids := await store.redis.zrange(
            store.keys.done, "-inf", f"({_ms(last)}", byscore=True, offset=0, num=_BATCH
        ):
            await store.redis.delete(
                *(key(one) for one in ids for key in (store.keys.record, store.keys.copies))
            )
            await store.redis.zrem(store.keys.deadlines, *ids)
            await store.redis.zrem(store.keys.done, *ids)
            forgotten += len(ids)
        return forgotten

    async def _forget_grants(self, before_ms: int) -> None:
        """Drop the grants that ended before this time, and the data of their posted cards."""
        redis, keys = self._store.redis, self._store.keys
        for ended in (keys.grants_ended, keys.grants_passed):
            while ids := await redis.zrange(
                ended, "-inf", f"({before_ms}", byscore=True, offset=0, num=_BATCH
            ):
                of = (keys.grant(one) for one in ids)
                await redis.delete(*of, *(keys.copies(GRANT + one) for one in ids))
                await redis.zrem(ended, *ids)

    async def _limit(self) -> int:
        """Return the time before which no data is needed, in ms since the epoch."""
        limit = self._clock.now_ms() - self._keep_ms
        oldest = await self._store.redis.zrange(self._store.keys.pending, 0, 0, withscores=True)
        return min(limit, int(oldest[0][1])) if oldest else limit

    async def _edge(self, mark: ArchiveCursor) -> Edge | None:
        """Return where the retained data begins. That is directly after a seal, so that the data
        can be verified."""
        limit, edge = await self._limit(), None
        async for entry, seal in seals_of(self._store):
            if _ms(seal.last) >= limit:
                break
            left = ArchiveCursor(mark.number + 1, mark.number, seal.last, seal.head)
            edge = Edge(left, seal.last, entry)
        if edge is None and mark.segments and self._store.archive is not None:
            old = await asyncio.to_thread(_old_segments, self._store.archive, mark, limit)
            if old is not None:
                edge = Edge(mark._replace(first=old.number + 1), old.last, NOTHING)
        return edge


def _old_segments(archive: Archive, mark: ArchiveCursor, limit: int) -> SegmentHead | None:
    """Return the last segment that ends before `limit`."""
    there, found = set(archive.numbers()), None
    for number in (one for one in mark.segments if one in there):
        head = archive.head_of(number)
        if _ms(head.last) >= limit:
            break
        found = head
    return found


def _ms(event_id: str) -> int:
    return place_of(event_id)[0]
