"""Seals events behind the hot path, reads the audit out, and moves old events into the archive."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

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
    Archive,
    ArchiveCursor,
    ArchiveProblem,
    Sealed,
    place_in,
)
from gateway.stores.record_codec import dumps, event_from
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.codec import JsonObject, build, plain

log = logging.getLogger("gateway.seals")

_PAGE = 1000
_SEALED_TOGETHER = 200  # hashing so many keeps nobody waiting for long
_GATHER_SECONDS = 2.0
_LOOK_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_SEALS_AT_ONCE = 100


class Sealer:
    """Seals what happened, at most every two seconds. Any replica may: the chain takes one."""

    def __init__(self, store: RedisStore, feed: Feed) -> None:
        self._store = store
        self._feed = feed
        self._seal = Script("seal_events", store.at)

    async def run(self) -> None:
        """Seal until cancelled; woken by events, silent while nothing happens."""
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
        counts = [part for counted in count_events(events).items() for part in counted]
        won = await self._seal.run(
            store.redis,
            [store.keys.seals, store.keys.meta, store.keys.counts],
            [seal.previous, seal.head, seal.last, dumps(plain(seal)), *counts],
        )
        return len(events) if won else 0


async def export(store: RedisStore) -> AsyncIterator[str]:
    """Yield the audit as lines, events and seals in order: the archive, then what is in Redis.

    What cannot be read of the archive is a line too, which `verify` tells of.
    """
    meta = await store.redis.hmget(store.keys.meta, "head", "sealed", "archived")
    head, sealed, archived = meta
    reading = _SealedPart(store, sealed or NOTHING, ArchiveCursor.parse(archived))
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
    """Reads the audit up to the event `end`, whose seal was made when the archive stood at `mark`.

    More may leave Redis while it is read.
    """

    def __init__(self, store: RedisStore, end: str, mark: ArchiveCursor) -> None:
        self._store = store
        self._end = end
        self._mark = mark
        self._told = NOTHING
        self._done = 0
        self.archived = False

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines."""
        async for line in self._whole(self._mark.segments):
            yield line
        async for line in self._whole(await find_strays(self._store, self._mark)):
            yield line
        self._told, self._done = self._mark.last, self._mark.number
        pages = True
        while pages:
            page = await self._page()
            mark = await self._store.audit.mark()
            if mark.number > self._done:  # some of it may have left Redis before it was read
                async for line in self._since(mark):
                    yield line
                continue
            for one in page:
                for event in one.events:
                    yield event_line(event)
                if one.events:  # a seal over trimmed events has nothing to stand behind
                    yield seal_line(one.seal)
                self._told = one.seal.last
            pages = bool(page)

    async def _whole(self, numbers: Iterable[int]) -> AsyncIterator[str]:
        for number in numbers:
            for line in await self._segment(number):
                yield line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)

    async def _since(self, mark: ArchiveCursor) -> AsyncIterator[str]:
        """Yield what was archived since we began to read, as far as it was sealed then."""
        for number in range(max(self._done + 1, mark.first), mark.number + 1):
            for line in await self._segment(number):
                place = self._end if isinstance(line, str) else place_in(line)
                if place_of(self._told) < place_of(place) <= place_of(self._end):
                    yield line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
        self._told, self._done = mark.last, mark.number

    async def _segment(self, number: int) -> Sequence[JsonObject | str]:
        """Return the lines of a segment, or one that says why it cannot be read."""
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
    """Return the segments that hold what Redis has not, though it never left it."""
    if store.archive is None:
        return []
    numbers = await asyncio.to_thread(store.archive.numbers)
    beyond = [number for number in numbers if number > mark.number]
    known = {seal.head async for _, seal in seals_of(store)} if beyond else set()
    now = await store.audit.mark()  # one may have left Redis meanwhile, as it should
    strays = []
    for number in (one for one in beyond if one > now.number):
        try:
            head = await asyncio.to_thread(store.archive.head_of, number)
        except ArchiveProblem:
            strays.append(number)  # its line in the export will say so
        else:
            strays += [number] if head.head not in known else []
    return strays


async def sealed_after(store: RedisStore, last: str) -> AsyncIterator[tuple[str, Sealed]]:
    """Yield the seals in Redis after an event with their events, each with its own place."""
    async for entry, seal in seals_of(store):
        if place_of(seal.last) <= place_of(last):
            continue
        rows = await store.redis.xrange(store.keys.events, f"({last}", seal.last)
        yield entry, Sealed(seal, tuple(event_from(*row) for row in rows))
        last = seal.last


async def seals_of(store: RedisStore) -> AsyncIterator[tuple[str, Seal]]:
    """Yield every seal in Redis with its place, oldest first."""
    cursor = "-"
    while rows := await store.redis.xrange(store.keys.seals, cursor, "+", count=_PAGE):
        for entry, fields in rows:
            yield entry, build(Seal, json.loads(fields["seal"]))
        cursor = f"({rows[-1][0]}"


# Moves events that are sealed and some minutes old out of Redis, into the archive.
#
# Start at `Archiver`. docs/adr/0033-archive.md says why nothing is lost on the way.

_ARCHIVER_LOOK_SECONDS = 60.0
_CLAIM_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePace:
    """When a segment is made: of what happened `settled_ms` ago, once that is `most_events`, or
    once the first of it happened `longest_ms` ago."""

    settled_ms: int = 300_000
    longest_ms: int = 3_600_000
    most_events: int = 5000


PACE = ArchivePace()


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """Seals in their order with their events, and the place of the last one in its stream."""

    sealed: list[Sealed]
    entry: str

    @property
    def last(self) -> str:
        """The last event."""
        return self.sealed[-1].seal.last

    @property
    def head(self) -> str:
        """The chain's head after the last seal."""
        return self.sealed[-1].seal.head


class Trimming:
    """Drops events and seals from the beginning of their streams, on one gateway at a time."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._trim, self._claim = Script("trim_events", store.at), Script("take_claim", store.at)
        self._me, self._lock = secrets.token_hex(8), asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Have nobody else trim inside the block; yields False while another gateway does."""
        keys = self._store.keys
        names = [keys.of("archive", "claim"), keys.meta]
        async with self._lock:
            yield bool(await self._claim.run(self._store.redis, names, [self._me, _CLAIM_MS]))

    async def trim(self, before: ArchiveCursor, after: ArchiveCursor, entry: str) -> bool:
        """Drop the events that the new mark says are gone, and the seals up to `entry`; return
        False when another gateway was faster."""
        keys = self._store.keys
        done = await self._trim.run(
            self._store.redis,
            [keys.events, keys.seals, keys.meta],
            [before.written, after.written, next_id(after.last), next_id(entry)],
        )
        return bool(done)


class Archiver:
    """Archives, on whichever gateway has the turn. The folder must be the one that Redis knows.

    `tell` is told what keeps it from archiving, None when nothing does."""

    def __init__(
        self,
        store: RedisStore,
        trimming: Trimming,
        pace: ArchivePace | None = None,
        *,
        tell: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._tell = tell
        self._store, self._trimming, self._pace = store, trimming, pace or PACE
        self._archive = store.audit.need_archive()
        self._said = ""

    async def run(self) -> None:
        """Look once a minute, until cancelled."""
        while True:
            try:
                await self.archive_all()
                self._said = ""
                self._tell(None)
            except (GatewayError, RedisError, OSError) as error:
                if str(error) != self._said:  # once, and not each minute
                    log.error("not archived: %s", error, extra={"event": "archive_failed"})
                self._said = str(error)
                if not isinstance(error, RedisError):  # that is told elsewhere
                    self._tell(f"the audit is not archived, and stays in Redis: {error}")
            await asyncio.sleep(_ARCHIVER_LOOK_SECONDS)

    async def archive_all(self) -> int:
        """Archive what is due; return how many segments left Redis.

        Raises ArchiveProblem when the folder is not the one that Redis knows, OSError when the disk
        refuses.
        """
        made, due = 0, True
        while due:
            async with self._trimming.turn() as ours:
                due = ours and await self._archive_next()
            made += due
        return made

    async def _archive_next(self) -> bool:
        """Archive one segment, or trim one that a gateway died over; return whether one was due."""
        mark = await self._store.audit.mark()
        numbers = await asyncio.to_thread(self._look, mark)
        strays = [number for number in numbers if number > mark.number]
        if strays:
            known = {seal.head: entry async for entry, seal in seals_of(self._store)}
            for number in strays:
                head = await asyncio.to_thread(self._archive.head_of, number)
                if head.head in known:
                    await asyncio.to_thread(self._archive.verify, head)
                    left = ArchiveCursor(number=number, last=head.last, head=head.head)
                    return await self._trim(mark, left, known[head.head])
        batch = await self._gather(mark)
        if batch is None:
            return False
        if strays:
            text = "segments %s hold what Redis has forgotten: the audit went backwards"
            log.error(text, strays, extra={"event": "archive_went_back"})
        left = ArchiveCursor(
            number=max([mark.number, *numbers]) + 1, last=batch.last, head=batch.head
        )
        try:
            await asyncio.to_thread(self._archive.write, left.number, batch.sealed)
        except FileExistsError:
            return False  # a gateway that seemed dead was faster
        return await self._trim(mark, left, batch.entry)

    def _look(self, mark: ArchiveCursor) -> list[int]:
        """Return the numbers of all segments, and clear away what is left of dead writers."""
        self._archive.sweep()
        check_folder(self._archive, mark)
        return self._archive.numbers()

    async def _trim(self, mark: ArchiveCursor, left: ArchiveCursor, entry: str) -> bool:
        oldest = (await asyncio.to_thread(self._archive.numbers))[0]
        left = left._replace(first=max(mark.first, oldest))
        return await self._trimming.trim(mark, left, entry)

    async def _gather(self, mark: ArchiveCursor) -> SealedBatch | None:
        """Return what is to be the next segment, None when nothing is due."""
        now, pace = await self._store.now(), self._pace
        sealed: list[Sealed] = []
        entry, count = "", 0
        async for place, one in sealed_after(self._store, mark.last):
            if _ms(one.seal.last) > now - pace.settled_ms or count >= pace.most_events:
                break
            sealed.append(one)
            entry, count = place, count + len(one.events)
        if not sealed:
            return None
        waited = now - _ms(sealed[0].events[0].id)
        due = count >= pace.most_events or waited >= pace.longest_ms
        return SealedBatch(sealed, entry) if due else None


def check_folder(archive: Archive, mark: ArchiveCursor) -> None:
    """Raise ArchiveProblem unless the folder holds the last segment that left Redis."""
    if not mark.segments:
        return
    # Another folder may be there since, or none.
    found = archive.head_of(mark.number, again=True)
    if (found.last, found.head) != (mark.last, mark.head):
        raise ArchiveProblem(f"{archive.folder} is the archive of another Redis")


def next_id(event_id: str) -> str:
    """Return the first id that comes after one."""
    milliseconds, _, sequence = event_id.partition("-")
    return f"{milliseconds}-{int(sequence) + 1}"


def _ms(event_id: str) -> int:
    return place_of(event_id)[0]
