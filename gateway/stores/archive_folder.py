"""Read and write the archive folder (`Archive`), and read archive and Redis as one audit log
(`AuditHistory`).

A segment is a gzip file, numbered from 1. Its first line describes it. It holds the SHA-256 of the
other lines and of the first line of the previous segment. The other lines have the format of
`gateway audit export`. A file never changes. It is created with a hard link, which fails if the
number exists, so if two gateways write at once, only one succeeds.

If an operator gives up a lost segment, its file says so and holds no events.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import secrets
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gateway.domain.audit import GENESIS, Seal, missing_line
from gateway.domain.records import AuditEvent, place_of
from gateway.errors import InvalidRequest, Unreachable
from gateway.stores.keys import Keys
from gateway.stores.record_codec import event_from
from gateway.stores.scripts import At, ignore_step
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject, Wire, build, plain

_SUFFIX = ".jsonl.gz"
_DIGITS = 10
_LONGEST_HEAD = 4096

NOTHING = "0-0"
"""An ID before every event."""


class ArchiveProblem(Unreachable):
    """A part of the archive is missing, damaged, or belongs to another Redis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHead(Wire):
    """Description of a segment: its events from `first` to `last`, and the seals over them.

    The chain of seals continues from the head `previous` and ends with `head`. `sha256` covers all
    lines but the first. `before` is the SHA-256 of the previous segment's first line, or empty.
    `lost` says why the segment is empty.
    """

    number: int
    first: str
    last: str
    events: int
    seals: int
    previous: str
    head: str
    before: str
    sha256: str
    lost: str = ""


class ArchiveCursor(NamedTuple):
    """State of the archive as stored in Redis: segments from `first` to `number`, and the last
    event and seal that were moved out of Redis."""

    first: int = 1
    number: int = 0
    last: str = NOTHING
    head: str = GENESIS

    @classmethod
    def parse(cls, written: str | None) -> ArchiveCursor:
        """Parse a stored cursor. None means that nothing was archived."""
        if not written:
            return cls()
        first, number, last, head = written.split(" ")
        return cls(int(first), int(number), last, head)

    @property
    def written(self) -> str:
        """The cursor as a string for Redis; empty before anything was archived."""
        return "" if self == ArchiveCursor() else " ".join(map(str, self))

    @property
    def segments(self) -> range:
        """The numbers of the segments that must exist."""
        return range(self.first, self.number + 1)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A seal and the events that it covers."""

    seal: Seal
    events: tuple[AuditEvent, ...]


class Archive:
    """The segments in one folder. All methods access the disk: call them in a thread.

    `at` is called at each step of writing, so that tests can stop there.
    """

    def __init__(self, folder: Path, at: At = ignore_step) -> None:
        self.folder, self._at = folder, at
        self._heads: dict[int, SegmentHead] = {}
        self._latest: tuple[int, tuple[JsonObject, ...]] = (0, ())

    def numbers(self) -> list[int]:
        """Return the numbers of all segments, lowest first."""
        found = (path.name.removesuffix(_SUFFIX) for path in self.folder.glob(f"*{_SUFFIX}"))
        return sorted(int(name) for name in found if name.isdecimal())

    def measure(self) -> int:
        """Return the size of all segments in bytes."""
        taken = 0
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with suppress(OSError):
                taken += path.stat().st_size
        return taken

    def path(self, number: int) -> Path:
        """Return the path of a segment's file."""
        return self.folder / f"{number:0{_DIGITS}}{_SUFFIX}"

    def head_of(self, number: int, *, again: bool = False) -> SegmentHead:
        """Return the description of a segment, cached unless `again` is set. Raises
        ArchiveProblem."""
        if again or number not in self._heads:
            self._heads[number] = _parse_head(self.path(number), self._first_line(number))
        return self._heads[number]

    def read(self, number: int) -> tuple[JsonObject, ...]:
        """Return the lines of a segment without the first, as JSON objects. Raises ArchiveProblem
        if the lines changed since they were written."""
        latest, lines = self._latest
        if latest == number:
            return lines
        path = self.path(number)
        try:
            first, _, rest = gzip.decompress(path.read_bytes()).partition(b"\n")
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, error) from error
        head = _parse_head(path, first)
        if head.number != number or head.sha256 != sha256_hex(rest):
            raise ArchiveProblem(f"{path} is damaged: its checksum does not match")
        lines = tuple(json.loads(line) for line in rest.splitlines())
        self._latest = number, lines
        return lines

    def check_order(self, number: int) -> None:
        """Raise ArchiveProblem if the previous segment exists and this segment does not continue
        it."""
        before = self.path(number - 1)
        if not before.exists() or (known := self.head_of(number - 1)).lost:
            return
        if self.head_of(number).before != _digest(known):
            raise ArchiveProblem(f"{self.path(number)} is not the segment after {before.name}")

    def write(self, number: int, sealed: Sequence[Sealed]) -> None:
        """Write a segment durably and read it back.

        Raises FileExistsError if the number exists, and OSError if the disk is full or fails.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = self._head_before(number)
        events = [event for one in sealed for event in one.events]
        body = "".join(f"{json.dumps(line)}\n" for one in sealed for line in _lines(one)).encode()
        head = SegmentHead(
            number=number,
            first=events[0].id,
            last=events[-1].id,
            events=len(events),
            seals=len(sealed),
            previous=sealed[0].seal.previous,
            head=sealed[-1].seal.head,
            before=_digest(before) if before else "",
            sha256=sha256_hex(body),
        )
        self._write_checked(head, body)

    def list_digests(self) -> dict[int, str]:
        """Return the SHA-256 of each segment's file, by number."""
        return {number: sha256_hex(self.path(number).read_bytes()) for number in self.numbers()}

    def put(self, number: int, content: bytes) -> None:
        """Write the file of a segment durably, unless the file exists."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.path(number).exists():
            self._keep(self.path(number), content)

    def find_lost(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return which of these segments are unreadable, and why."""
        lost = {}
        for number in numbers:
            try:
                self.read(number)
            except ArchiveProblem as problem:
                lost[number] = str(problem)
        return lost

    def give_up(self, numbers: Iterable[int], mark: ArchiveCursor, why: str) -> None:
        """Replace each of these lost segments with a file that says why it was lost. The old file,
        if any, is renamed and stays in the folder."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in sorted(numbers):
            path, before = self.path(number), self._head_before(number)
            if path.exists():
                path.rename(path.with_name(f"{path.name}.{secrets.token_hex(4)}.lost"))
            last, head = (before.last, before.head) if before else (NOTHING, GENESIS)
            if number == mark.number:
                last, head = mark.last, mark.head
            body = f"{missing_line(number, why)}\n".encode()
            told = SegmentHead(
                number=number,
                first=last,
                last=last,
                events=0,
                seals=0,
                previous=head,
                head=head,
                before=_digest(before) if before else "",
                sha256=sha256_hex(body),
                lost=why,
            )
            self._write_checked(told, body)

    def verify(self, head: SegmentHead) -> None:
        """Read a segment from the disk. Raises ArchiveProblem unless it has this description."""
        self._heads.pop(head.number, None)
        self._latest = (0, ())
        self.read(head.number)
        if self.head_of(head.number) != head:
            raise ArchiveProblem(f"{self.path(head.number)} does not match what was written")

    def drop(self, below: int) -> None:
        """Delete the segments with numbers below this one."""
        for number in self.numbers():
            if number < below:
                self.path(number).unlink(missing_ok=True)
                self._heads.pop(number, None)

    def sweep(self) -> None:
        """Delete partial files of gateways that died while writing."""
        for part in self.folder.glob(".*.part"):
            part.unlink(missing_ok=True)

    def _head_before(self, number: int) -> SegmentHead | None:
        return self.head_of(number - 1) if self.path(number - 1).exists() else None

    def _write_checked(self, head: SegmentHead, body: bytes) -> None:
        first = _first_line_of(head)
        content = gzip.compress(first, mtime=0) + gzip.compress(body, mtime=0)
        self._keep(self.path(head.number), content)
        self.verify(head)

    def _keep(self, path: Path, content: bytes) -> None:
        part = self.folder / f".{path.name}.{secrets.token_hex(8)}.part"
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self._at("segment:written")
            os.link(part, path)
            self._at("segment:linked")
        finally:
            part.unlink(missing_ok=True)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._at("segment:kept")

    def _first_line(self, number: int) -> bytes:
        path = self.path(number)
        try:
            with gzip.open(path) as file:
                return file.readline(_LONGEST_HEAD)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, error) from error


def name_numbers(numbers: Iterable[int]) -> str:
    """Return numbers as readable ranges, such as `1 to 4, 7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join(" to ".join(map(str, run)) for run in runs)


def event_of(line: JsonObject) -> AuditEvent | None:
    """Return the event that a line contains, or None if it contains a seal."""
    return build(AuditEvent, line["event"]) if "event" in line else None


def place_in(line: JsonObject) -> str:
    """Return the ID of a line's event, or of the last event that its seal covers."""
    found: str = line["event"]["id"] if "event" in line else line["seal"]["last"]
    return found


def _lines(sealed: Sealed) -> list[JsonObject]:
    events = [{"event": plain(event)} for event in sealed.events]
    return [*events, {"seal": plain(sealed.seal)}]


def _parse_head(path: Path, line: bytes) -> SegmentHead:
    try:
        return build(SegmentHead, json.loads(line)["segment"])
    except (KeyError, TypeError, ValueError, InvalidRequest) as error:
        raise ArchiveProblem(f"{path} is damaged: {error!r}") from error


def _unreadable(path: Path, error: Exception) -> ArchiveProblem:
    if isinstance(error, FileNotFoundError):
        return ArchiveProblem(f"{path} is missing")
    return ArchiveProblem(f"{path} cannot be read: {error}")


def _first_line_of(head: SegmentHead) -> bytes:
    return json.dumps({"segment": plain(head)}).encode() + b"\n"


def _digest(head: SegmentHead) -> str:
    return sha256_hex(_first_line_of(head))


log = logging.getLogger("gateway.stores")

_LAST = 2**64 - 1  # highest sequence number within a millisecond
_UNTOLD = (
    "a part of the audit log is in an archive: set GATEWAY_ARCHIVE to its folder, or run this "
    "on the gateway's host"
)


class AuditHistory:
    """The audit log as one sequence: the archive, then Redis. `redis` and `keys` are those of the
    store. `archive` is None if no archive folder is configured."""

    def __init__(self, redis: Any, keys: Keys, archive: Archive | None) -> None:
        self._redis, self._keys, self._archive = redis, keys, archive

    async def mark(self) -> ArchiveCursor:
        """Return the state of the archive as Redis stores it."""
        return ArchiveCursor.parse(await self._redis.hget(self._keys.meta, "archived"))

    def need_archive(self) -> Archive:
        """Return the archive. Raises ArchiveProblem if no archive folder is configured."""
        if self._archive is None:
            raise ArchiveProblem(_UNTOLD)
        return self._archive

    async def read(self, after: str | None, limit: int) -> list[AuditEvent]:
        """Return up to `limit` events after an ID, or from the oldest one if None.

        Raises ArchiveProblem if some of them are in an unreadable archive.
        """
        start = "-" if after is None else f"({after}"
        rows = await self._redis.xrange(self._keys.events, start, "+", count=limit)
        # Read the cursor after the events: events that left Redis in between are in the archive by
        # then.
        mark = await self.mark()
        end = place_of(mark.last)
        if not mark.segments or (after is not None and place_of(after) >= end):
            return [event_from(*row) for row in rows]
        archive = self.need_archive()
        found = await asyncio.to_thread(_read_segments, archive, mark, after, limit)
        found += [event_from(*row) for row in rows if place_of(row[0]) > end]
        return found[:limit]

    async def find(self, event_id: str) -> AuditEvent | None:
        """Return an event by ID. None if the event is no longer stored or cannot be read."""
        rows = await self._redis.xrange(self._keys.events, event_id, event_id)
        if rows:
            return event_from(*rows[0])
        milliseconds, number = place_of(event_id)
        before = f"{milliseconds}-{number - 1}" if number else f"{milliseconds - 1}-{_LAST}"
        try:
            found = await self.read(before, 1)
        except ArchiveProblem as problem:
            log.warning(
                "%s was not found: %s", event_id, problem, extra={"event": "archive_unread"}
            )
            return None
        return found[0] if found and found[0].id == event_id else None

    async def latest(self, count: int) -> list[AuditEvent]:
        """Return the last `count` events, newest last."""
        rows = await self._redis.xrevrange(self._keys.events, count=count)
        mark = await self.mark()
        found = [event_from(*row) for row in reversed(rows)]
        if len(found) == count or not mark.segments:
            return found
        archive, numbers = self.need_archive(), list(mark.segments)
        end = place_of(mark.last)
        found = [event for event in found if place_of(event.id) > end]
        while numbers and len(found) < count:
            lines = await asyncio.to_thread(archive.read, numbers.pop())
            found = [event for line in lines if (event := event_of(line))] + found
        return found[-count:]


def _read_segments(
    archive: Archive, mark: ArchiveCursor, after: str | None, limit: int
) -> list[AuditEvent]:
    """Return up to `limit` archived events after an ID, in increasing order."""
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
