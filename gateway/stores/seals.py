"""Seals events behind the hot path, and reads the whole audit out."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator

from redis.exceptions import RedisError

from gateway.domain.audit import GENESIS, Seal, event_line, seal_events, seal_line
from gateway.domain.records import place_of
from gateway.errors import GatewayError
from gateway.ports import Feed
from gateway.stores.record_codec import dumps
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.codec import build, plain

log = logging.getLogger("gateway.seals")

_PAGE = 1000
_SEALED_TOGETHER = 200  # hashing so many keeps nobody waiting for long
_GATHER_SECONDS = 2.0
_LOOK_SECONDS = 60.0
_PAUSE_SECONDS = 1.0


class Sealer:
    """Seals what happened, at most every two seconds. Any replica may: the chain takes one."""

    def __init__(self, store: RedisStore, feed: Feed) -> None:
        self._store = store
        self._feed = feed
        self._seal = Script("seal", store.at)

    async def run(self) -> None:
        """Seal until cancelled; woken by events, silent while nothing happens."""
        while True:
            try:
                async with self._feed.watch(None) as watch:
                    while True:
                        await self.seal_all()
                        await watch.wait(_LOOK_SECONDS)
                        await asyncio.sleep(_GATHER_SECONDS)
            except (GatewayError, RedisError, OSError) as error:
                log.warning("not sealed: %s", error, extra={"event": "seal_failed"})
                await asyncio.sleep(_PAUSE_SECONDS)

    async def seal_all(self) -> int:
        """Seal every event that there is by now; return how many seals were made here.

        Those that come meanwhile are left for the next time: a busy stream would never let go.
        """
        made, sealing = 0, _SEALED_TOGETHER
        while sealing == _SEALED_TOGETHER:
            sealing = await self._seal_batch()
            made += sealing > 0
        return made

    async def _seal_batch(self) -> int:
        """Seal the next events; return how many, 0 also when another replica was faster."""
        store = self._store
        head, last = await store.redis.hmget(store.keys.meta, "head", "sealed")
        events = await store.history(last, _SEALED_TOGETHER)
        if not events:
            return 0
        seal = seal_events(events, head or GENESIS)
        won = await self._seal.run(
            store.redis,
            [store.keys.seals, store.keys.meta],
            [seal.previous, seal.head, seal.last, dumps(plain(seal))],
        )
        return len(events) if won else 0


async def export(store: RedisStore) -> AsyncIterator[str]:
    """Yield the audit as lines, events and seals in order, a page at a time."""
    seals = seals_of(store)
    seal = await anext(seals, None)
    cursor: str | None = None
    while events := await store.history(cursor, _PAGE):
        for event in events:
            # A seal over trimmed events has nothing left to stand behind.
            while seal is not None and place_of(seal.last) < place_of(event.id):
                seal = await anext(seals, None)
            yield event_line(event)
            if seal is not None and seal.last == event.id:
                yield seal_line(seal)
                seal = await anext(seals, None)
        cursor = events[-1].id


async def seals_of(store: RedisStore) -> AsyncIterator[Seal]:
    """Yield every seal, oldest first."""
    cursor = "-"
    while rows := await store.redis.xrange(store.keys.seals, cursor, "+", count=_PAGE):
        for row in rows:
            yield build(Seal, json.loads(row[1]["seal"]))
        cursor = f"({rows[-1][0]}"
