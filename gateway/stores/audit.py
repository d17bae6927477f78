"""Seal events in the background (`Sealer`), and export the audit log (`export`)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress

from redis.exceptions import RedisError

from gateway.domain.audit import (
    GENESIS,
    Seal,
    count_events,
    event_line,
    missing_line,
    seal_events,
    seal_line,
    store_line,
)
from gateway.domain.records import place_of
from gateway.errors import GatewayError
from gateway.ports import Feed
from gateway.stores.archive_folder import (
    NOTHING,
    ArchiveCursor,
    ArchiveProblem,
    Sealed,
    place_in,
)
from gateway.stores.record_codec import dumps, event_from
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.codec import JsonObject, build, plain

log = logging.getLogger("gateway.stores")

_PAGE = 1000
_SEALED_TOGETHER = 200  # so many that hashing delays nobody
_GATHER_SECONDS = 2.0
_LOOK_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_SEALS_AT_ONCE = 100


class Sealer:
    """Seals events at most every two seconds. Any replica may run it, because the chain accepts
    only one of two competing seals."""

    def __init__(self, store: RedisStore, feed: Feed) -> None:
        self._store = store
        self._feed = feed
        self._seal = Script("seal_events", store.at)

    async def run(self) -> None:
        """Seal events until cancelled. New events wake it."""
        while True:
            try:
                async with self._feed.watch(None) as wait:
                    while True:
                        await self.seal_all()
                        await wait(_LOOK_SECONDS)
                        await asyncio.sleep(_GATHER_SECONDS)
            except (GatewayError, RedisError, OSError) as error:
                log.warning("not sealed: %s", error, extra={"event": "seal_failed"})
                await asyncio.sleep(_PAUSE_SECONDS)

    async def seal_all(self) -> int:
        """Seal all current events. Return how many seals this call made.

        Events that arrive during the call are left for the next call; otherwise a busy stream would
        never end.
        """
        made, sealing = 0, _SEALED_TOGETHER
        while sealing == _SEALED_TOGETHER:
            sealing = await self._seal_batch()
            made += sealing > 0
        return made

    async def _seal_batch(self) -> int:
        """Seal the next events. Return how many were sealed, which is 0 also if another replica
        sealed them first."""
        store = self._store
        head, last = await store.redis.hmget(store.keys.meta, "head", "sealed")
        events = await store.history(last, _SEALED_TOGETHER)
        if not events:
            return 0
        seal = seal_events(events, head or GENESIS)
        counts = [part for counted in count_events(events).items() for part in counted]
        won = await self._seal.run(
            store.redis,
            [store.keys.seals, store.keys.meta, store.keys.counts],
            [seal.previous, seal.head, seal.last, dumps(plain(seal)), *counts],
        )
        return len(events) if won else 0


async def export(store: RedisStore, since: int = 0) -> AsyncIterator[str]:
    """Yield the audit log as lines with events and seals in order, first from the archive, then
    from Redis. It may leave out segments of the archive that ended before `since`, in ms, but not
    the last of them.

    For an unreadable part of the archive, it yields a line that `verify` reports.
    """
    meta = await store.redis.hmget(store.keys.meta, "head", "sealed", "archived")
    head, sealed, archived = meta
    reading = _SealedPart(store, sealed or NOTHING, ArchiveCursor.parse(archived), since)
    async for line in reading.lines():
        yield line
    if reading.archived:
        yield store_line(head or GENESIS)
    cursor = sealed
    while events := await store.history(cursor, _PAGE):
        for event in events:
            yield event_line(event)
        cursor = events[-1].id


class _SealedPart:
    """Reads the audit log up to the event `end`, sealed when the archive was at `mark`.

    More events may leave Redis during the read.
    """

    def __init__(self, store: RedisStore, end: str, mark: ArchiveCursor, since: int) -> None:
        self._since_ms = since
        self._store = store
        self._end = end
        self._mark = mark
        self._told = NOTHING
        self._done = 0
        self.archived = False

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines of this part of the audit log."""
        async for line in self._whole(await asyncio.to_thread(self._find_segments)):
            yield line
        async for line in self._whole(await find_strays(self._store, self._mark)):
            yield line
        self._told, self._done = self._mark.last, self._mark.number
        pages = True
        while pages:
            page = await self._page()
            mark = await self._store.audit.mark()
            if mark.number > self._done:  # some events may have left Redis before they were read
                async for line in self._since(mark):
                    yield line
                continue
            for one in page:
                for event in one.events:
                    yield event_line(event)
                if one.events:  # skip a seal over trimmed events
                    yield seal_line(one.seal)
                self._told = one.seal.last
            pages = bool(page)

    def _find_segments(self) -> Sequence[int]:
        numbers = self._mark.segments
        for number in reversed(numbers):
            with suppress(ArchiveProblem):  # an earlier one may be readable
                head = self._store.audit.need_archive().head_of(number)
                if place_of(head.last)[0] < self._since_ms:
                    return range(number, numbers.stop)
        return numbers

    async def _whole(self, numbers: Iterable[int]) -> AsyncIterator[str]:
        for number in numbers:
            for line in await self._segment(number):
                yield line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)

    async def _since(self, mark: ArchiveCursor) -> AsyncIterator[str]:
        """Yield events archived since the read began, if they were sealed before it."""
        for number in range(max(self._done + 1, mark.first), mark.number + 1):
            for line in await self._segment(number):
                place = self._end if isinstance(line, str) else place_in(line)
                if place_of(self._told) < place_of(place) <= place_of(self._end):
                    yield line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
        self._told, self._done = mark.last, mark.number

    async def _segment(self, number: int) -> Sequence[JsonObject | str]:
        """Return the lines of a segment, or one line that says why it is unreadable."""
        self.archived = True
        archive = self._store.audit.need_archive()
        try:
            lines = await asyncio.to_thread(archive.read, number)
            await asyncio.to_thread(archive.check_order, number)
        except ArchiveProblem as problem:
            return [missing_line(number, str(problem))]
        return lines

    async def _page(self) -> list[Sealed]:
        page: list[Sealed] = []
        async for _, one in sealed_after(self._store, self._told):
            if len(page) == _SEALS_AT_ONCE or place_of(one.seal.last) > place_of(self._end):
                break
            page.append(one)
        return page


async def find_strays(store: RedisStore, mark: ArchiveCursor) -> list[int]:
    """Return segments with events that Redis does not have and never moved out."""
    if store.archive is None:
        return []
    numbers = await asyncio.to_thread(store.archive.numbers)
    beyond = [number for number in numbers if number > mark.number]
    known = {seal.head async for _, seal in seals_of(store)} if beyond else set()
    now = await store.audit.mark()  # one may have left Redis normally meanwhile
    strays = []
    for number in (one for one in beyond if one > now.number):
        try:
            head = await asyncio.to_thread(store.archive.head_of, number)
        except ArchiveProblem:
            strays.append(number)  # the export has a line for it
        else:
            strays += [number] if head.head not in known else []
    return strays


async def sealed_after(store: RedisStore, last: str) -> AsyncIterator[tuple[str, Sealed]]:
    """Yield each seal after an event, with its events and its ID in the stream."""
    async for entry, seal in seals_of(store):
        if place_of(seal.last) <= place_of(last):
            continue
        rows = await store.redis.xrange(store.keys.events, f"({last}", seal.last)
        yield entry, Sealed(seal, tuple(event_from(*row) for row in rows))
        last = seal.last


async def seals_of(store: RedisStore) -> AsyncIterator[tuple[str, Seal]]:
    """Yield every seal in Redis with its ID, oldest first."""
    cursor = "-"
    while rows := await store.redis.xrange(store.keys.seals, cursor, "+", count=_PAGE):
        for entry, fields in rows:
            yield entry, build(Seal, json.loads(fields["seal"]))
        cursor = f"({rows[-1][0]}"
