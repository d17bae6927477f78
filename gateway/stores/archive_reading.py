"""Reads the audit as one sequence: what is in the archive, then what is in Redis."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from gateway.domain.records import AuditEvent, place_of
from gateway.stores.keys import Keys
from gateway.stores.record_codec import event_from
from gateway.stores.segments import Archive, ArchiveProblem, Mark, event_of

log = logging.getLogger("gateway.archive")

_LAST = 2**64 - 1  # the greatest number of an event within a millisecond
_UNTOLD = (
    "a part of the audit is in an archive: name its folder in GATEWAY_ARCHIVE, or run this where "
    "the gateway runs"
)


class AuditSource(Protocol):
    """What reading the audit needs of the store."""

    @property
    def redis(self) -> Any:
        """The client."""

    @property
    def keys(self) -> Keys:
        """The names of its keys."""

    @property
    def archive(self) -> Archive | None:
        """The archive, where its folder is known."""


async def read_mark(store: AuditSource) -> Mark:
    """Return how far the archive goes."""
    return Mark.parse(await store.redis.hget(store.keys.meta, "archived"))


def archive_of(store: AuditSource) -> Archive:
    """Return the archive. Raises ArchiveProblem where its folder is not known."""
    if store.archive is None:
        raise ArchiveProblem(_UNTOLD)
    return store.archive


async def read_history(store: AuditSource, after: str | None, limit: int) -> list[AuditEvent]:
    """Return up to `limit` events after an id, from the oldest kept when it is None.

    Raises ArchiveProblem when some of them are in an archive that cannot be read.
    """
    start = "-" if after is None else f"({after}"
    rows = await store.redis.xrange(store.keys.events, start, "+", count=limit)
    # Read after the events: what leaves Redis meanwhile is in the archive by now.
    mark = await read_mark(store)
    end = place_of(mark.last)
    if not mark.segments or (after is not None and place_of(after) >= end):
        return [event_from(*row) for row in rows]
    archive = archive_of(store)
    found = await asyncio.to_thread(_read_segments, archive, mark, after, limit)
    found += [event_from(*row) for row in rows if place_of(row[0]) > end]
    return found[:limit]


async def find_event(store: AuditSource, event_id: str) -> AuditEvent | None:
    """Return an event by its id, None once it is no longer kept, or where it cannot be read."""
    rows = await store.redis.xrange(store.keys.events, event_id, event_id)
    if rows:
        return event_from(*rows[0])
    milliseconds, number = place_of(event_id)
    before = f"{milliseconds}-{number - 1}" if number else f"{milliseconds - 1}-{_LAST}"
    try:
        found = await read_history(store, before, 1)
    except ArchiveProblem as problem:
        log.warning("%s was not found: %s", event_id, problem, extra={"event": "archive_unread"})
        return None
    return found[0] if found and found[0].id == event_id else None


async def read_latest(store: AuditSource, count: int) -> list[AuditEvent]:
    """Return the last events, the newest last."""
    rows = await store.redis.xrevrange(store.keys.events, count=count)
    mark = await read_mark(store)
    found = [event_from(*row) for row in reversed(rows)]
    if len(found) == count or not mark.segments:
        return found
    archive, numbers = archive_of(store), list(mark.segments)
    end = place_of(mark.last)
    found = [event for event in found if place_of(event.id) > end]
    while numbers and len(found) < count:
        lines = await asyncio.to_thread(archive.read, numbers.pop())
        found = [event for line in lines if (event := event_of(line))] + found
    return found[-count:]


def _read_segments(archive: Archive, mark: Mark, after: str | None, limit: int) -> list[AuditEvent]:
    """Return up to `limit` archived events after an id, each later than all before it."""
    floor = (-1, 0) if after is None else place_of(after)
    found: list[AuditEvent] = []
    for number in mark.segments:
        end = place_of(archive.head_of(number).last)
        if end <= floor:
            continue
        for line in archive.read(number):
            event = event_of(line)
            if event is not None and place_of(event.id) > floor:
                found.append(event)
                if len(found) == limit:
                    return found
        floor = end
    return found
