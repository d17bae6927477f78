"""Move sealed events that are some minutes old from Redis to the archive; start with `Archiver`.

docs/adr/0033-archive.md explains why no event is lost.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.exceptions import RedisError

from gateway.domain.records import place_of
from gateway.errors import GatewayError
from gateway.stores.archive_folder import (
    Archive,
    ArchiveCursor,
    ArchiveProblem,
    Sealed,
)
from gateway.stores.audit import log, sealed_after, seals_of
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script

_ARCHIVER_LOOK_SECONDS = 60.0
_CLAIM_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePace:
    """When to write a segment. Only events older than `settled_ms` count. A segment is due when
    there are `most_events`, or when the first event is `longest_ms` old."""

    settled_ms: int = 300_000
    longest_ms: int = 3_600_000
    most_events: int = 5000


PACE = ArchivePace()


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """Seals in order with the events that they cover. `entry` is the last seal's ID in its
    stream."""

    sealed: list[Sealed]
    entry: str

    @property
    def last(self) -> str:
        """The ID of the last event."""
        return self.sealed[-1].seal.last

    @property
    def head(self) -> str:
        """The head of the chain after the last seal."""
        return self.sealed[-1].seal.head


class Trimming:
    """Drops the oldest events and seals from their streams. Only one gateway at a time does
    this."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._trim, self._claim = Script("trim_events", store.at), Script("take_claim", store.at)
        self._me, self._lock = secrets.token_hex(8), asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Keep other gateways from trimming during the block. Yields False while another gateway
        trims."""
        keys = self._store.keys
        names = [keys.of("archive", "claim"), keys.meta]
        async with self._lock:
            yield bool(await self._claim.run(self._store.redis, names, [self._me, _CLAIM_MS]))

    async def trim(self, before: ArchiveCursor, after: ArchiveCursor, entry: str) -> bool:
        """Drop the events that the new cursor counts as archived, and the seals up to `entry`.
        Return False if another gateway did so first."""
        keys = self._store.keys
        done = await self._trim.run(
            self._store.redis,
            [keys.events, keys.seals, keys.meta],
            [before.written, after.written, next_id(after.last), next_id(entry)],
        )
        return bool(done)


class Archiver:
    """Archives events, in one gateway at a time. The folder must be the one that was last used with
    this Redis.

    `tell` is called with the reason if archiving fails, or with None if it works.
    """

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
        """Archive once a minute until cancelled."""
        while True:
            try:
                await self.archive_all()
                self._said = ""
                self._tell(None)
            except (GatewayError, RedisError, OSError) as error:
                if str(error) != self._said:  # log only changes
                    log.error("not archived: %s", error, extra={"event": "archive_failed"})
                self._said = str(error)
                if not isinstance(error, RedisError):  # reported elsewhere
                    self._tell(f"the audit log is not archived and stays in Redis: {error}")
            await asyncio.sleep(_ARCHIVER_LOOK_SECONDS)

    async def archive_all(self) -> int:
        """Archive everything that is due. Return how many segments left Redis.

        Raises ArchiveProblem if the folder is not the one last used with this Redis, and OSError if
        the disk fails.
        """
        made, due = 0, True
        while due:
            async with self._trimming.turn() as ours:
                due = ours and await self._archive_next()
            made += due
        return made

    async def _archive_next(self) -> bool:
        """Archive one segment, or finish a segment that a dead gateway began. Return whether one
        was due."""
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
            text = "segments %s contain events that Redis lost, so Redis is older than the archive"
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
        """Return the numbers of all segments. Also deletes partial files of dead gateways."""
        self._archive.sweep()
        check_folder(self._archive, mark)
        return self._archive.numbers()

    async def _trim(self, mark: ArchiveCursor, left: ArchiveCursor, entry: str) -> bool:
        oldest = (await asyncio.to_thread(self._archive.numbers))[0]
        left = left._replace(first=max(mark.first, oldest))
        return await self._trimming.trim(mark, left, entry)

    async def _gather(self, mark: ArchiveCursor) -> SealedBatch | None:
        """Return the events for the next segment, or None if nothing is due."""
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
    """Raise ArchiveProblem unless the folder contains the last segment that left Redis."""
    if not mark.segments:
        return
    # The folder may have been replaced or removed since.
    found = archive.head_of(mark.number, again=True)
    if (found.last, found.head) != (mark.last, mark.head):
        raise ArchiveProblem(
            f"{archive.folder} is the archive of another Redis: check GATEWAY_ARCHIVE"
        )


def next_id(event_id: str) -> str:
    """Return the smallest event ID that is greater than this one."""
    milliseconds, _, sequence = event_id.partition("-")
    return f"{milliseconds}-{int(sequence) + 1}"


def _ms(event_id: str) -> int:
    return place_of(event_id)[0]
