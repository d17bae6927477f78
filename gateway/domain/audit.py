"""Seal, export, verify and count the events of the audit log. To see how an export is checked,
start reading at `verify`.

A line is `{"event": {...}}` or `{"seal": {...}}`; a seal follows the last event that it covers.
An evidence report has `{"hidden": {...}}` in place of the events of other requests.
With an archive, `{"store": {...}}` follows the last seal and names the last seal that Redis knows.
`{"missing": {...}}` replaces a segment that could not be read. `verify` needs nothing but the
lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gateway.domain.records import AuditEvent, place_of
from gateway.errors import InvalidRequest
from gateway.models import ENDINGS, DeciderKind, Reason, Status
from gateway.wire.canonical_json import canonical, parse, sha256_hex
from gateway.wire.codec import JsonObject, Wire, build, plain

GENESIS = "0" * 64
"""The `previous` hash of a namespace's first seal."""

_AUTHORITIES = {DeciderKind.PERSON.value, DeciderKind.GRANT.value, DeciderKind.RULE.value}
_NO_LINE = (InvalidRequest, AttributeError, LookupError, StopIteration, TypeError, ValueError)
_LONGEST_LINE = 4_194_304
_BACKWARDS = "the audit went backwards: Redis has forgotten what was sealed before this line"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenEvent(Wire):
    """The part of an event that a seal hashes: its id, the request that it is about, if any, and
    the SHA-256 of its RFC 8785 JSON. Neither can be changed without the seal."""

    id: str
    request_id: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal(Wire):
    """One link of the hash chain. It covers `count` events, from stream id `first` to `last`."""

    first: str
    last: str
    count: int
    previous: str
    head: str


@dataclass(slots=True, kw_only=True)
class Verification:
    """The result of `verify`. `unsealed` counts the events after the last seal, which are not a
    problem. `hidden` counts the events of which a report has only the hash. `notes` are facts
    about a report, in words."""

    events: int = 0
    hidden: int = 0
    seals: int = 0
    unsealed: int = 0
    starts_at: str = GENESIS
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def hide_event(event: AuditEvent) -> HiddenEvent:
    """Return an event without its content."""
    about = event.request_id or str(event.data.get("request_id", ""))
    return HiddenEvent(id=event.id, request_id=about, sha256=sha256_hex(canonical(plain(event))))


def seal_events(events: Iterable[AuditEvent | HiddenEvent], previous: str) -> Seal:
    """Return the seal over these events, which must be in stream order. `previous` is the head of
    the chain."""
    batch = [one if isinstance(one, HiddenEvent) else hide_event(one) for one in events]
    return Seal(
        first=batch[0].id,
        last=batch[-1].id,
        count=len(batch),
        previous=previous,
        head=sha256_hex(previous.encode() + b"".join(canonical(plain(one)) for one in batch)),
    )


def event_line(event: AuditEvent) -> str:
    """Return an event as a line of the export."""
    return json.dumps({"event": plain(event)}, ensure_ascii=False)


def seal_line(seal: Seal) -> str:
    """Return a seal as a line of the export."""
    return json.dumps({"seal": plain(seal)})


def store_line(head: str) -> str:
    """Return the export line that names the last seal that Redis knows."""
    return json.dumps({"store": {"head": head}})


def missing_line(number: int, why: str) -> str:
    """Return the export line for a segment of the archive that could not be read."""
    return json.dumps({"missing": {"segment": number, "why": why}})


def verify(
    lines: Iterable[str], selects: Callable[[HiddenEvent], bool] = lambda event: True
) -> Verification:
    """Check an export: the hash chain, the order, and that each request ends only once, decided by
    a decider that the gateway knows.

    If retention has deleted old events, the export begins later, and `starts_at` is the hash that
    its first seal builds on.
    """
    checker = _Checker(selects)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            checker.line(number, line)
    return checker.finish()


class _Checker:
    """Reads an export line by line and checks it."""

    def __init__(self, selects: Callable[[HiddenEvent], bool]) -> None:
        self._selects = selects
        self._found = Verification()
        self._head: str | None = None
        self._heads = {GENESIS}
        self._batch: list[HiddenEvent] = []
        self._last = (0, 0)
        self._endings: Counter[str] = Counter()
        self._revisions: dict[str, int] = {}

    def line(self, number: int, line: str) -> None:
        """Check one line."""
        try:
            value = parse(line.encode(), max_bytes=_LONGEST_LINE)
            kind, body = next(iter(value.items()))
            if kind == "event":
                self._event(number, build(AuditEvent, body))
            elif kind == "hidden":
                self._take(number, build(HiddenEvent, body), hidden=True)
            elif kind == "seal":
                self._check_seal(number, build(Seal, body))
            elif kind == "store":
                self._check_store(number, str(body["head"]))
            elif kind == "missing":
                self._wrong(number, f"segment {body['segment']} cannot be read: {body['why']}")
            else:
                self._wrong(number, f"unknown kind of line {kind!r}")
        except _NO_LINE as error:
            self._wrong(number, f"cannot read this line of the export: {error}")

    def finish(self) -> Verification:
        """Return the result of the check."""
        self._found.unsealed = len(self._batch)
        return self._found

    def _event(self, number: int, event: AuditEvent) -> None:
        self._take(number, hide_event(event), hidden=False)
        if event.request_id and event.revision:
            self._of_request(number, event)

    def _take(self, number: int, event: HiddenEvent, *, hidden: bool) -> None:
        place = place_of(event.id)
        if place <= self._last:
            self._wrong(number, f"event {event.id} is out of order")
        if self._selects(event) is hidden:
            self._wrong(number, f"event {event.id} must {'not be' if hidden else 'be'} hidden")
        self._last = place
        self._found.events += not hidden
        self._found.hidden += hidden
        self._batch.append(event)

    def _of_request(self, number: int, event: AuditEvent) -> None:
        known = self._revisions.get(event.request_id, 0)
        born_ended = event.revision == known == 1 and event.type in ENDINGS
        if event.revision <= known and not born_ended:
            self._wrong(number, f"revision {event.revision} of {event.request_id} is repeated")
        self._revisions[event.request_id] = event.revision
        if event.type not in ENDINGS:
            return
        self._endings[event.request_id] += 1
        if self._endings[event.request_id] > 1:
            self._wrong(number, f"{event.request_id} is decided a second time")
        if event.type == Status.APPROVED and _author(event.data) not in _AUTHORITIES:
            self._wrong(number, f"the approval of {event.request_id} names no decider")

    def _check_seal(self, number: int, seal: Seal) -> None:
        self._found.seals += 1
        if self._head is None:
            self._found.starts_at = seal.previous
        elif seal.previous != self._head:
            forked = seal.previous in self._heads
            self._wrong(number, _BACKWARDS if forked else "a seal is missing or out of order here")
        if not self._batch or seal_events(self._batch, seal.previous) != seal:
            self._wrong(number, f"the events up to {seal.last} differ from the sealed ones")
        self._head = seal.head
        self._heads.add(seal.head)
        self._batch = []

    def _check_store(self, number: int, head: str) -> None:
        """Check that the last seal in the archive is the last seal that Redis knows. The archive
        must not be ahead."""
        if head != (self._head or GENESIS):
            self._wrong(number, _BACKWARDS)

    def _wrong(self, number: int, what: str) -> None:
        self._found.problems.append(f"line {number}: {what}")


def _author(data: JsonObject) -> str:
    decided_by = data.get("decided_by")
    return str(decided_by.get("kind")) if isinstance(decided_by, dict) else ""


# Counts events for operators' metrics. Only the sealer adds them up, so each counts once.

UNTRUE = frozenset({"undelivered", "delivery_uncertain", "copy_gone", "copy_stuck"})
"""Events of a posted message that is missing, may be missing, or is out of date."""

SUBMITTED, REFUSED, DEAD_LETTER = "submitted", "refused", "dead_letter"
CARD, ENDED = "card", "ended"

_ENDINGS = frozenset(Status) - {Status.PENDING}
_REASONS = frozenset(Reason)
_CARDS = UNTRUE | {"delivered"}
_PLAIN = frozenset({SUBMITTED, REFUSED, DEAD_LETTER})


def count_events(events: Iterable[AuditEvent]) -> Counter[str]:
    """Count events under the names `submitted`, `refused`, `dead_letter`, `card OUTCOME` and `ended
    STATUS REASON`."""
    return Counter(name for event in events if (name := _name(event)) is not None)


def _name(event: AuditEvent) -> str | None:
    if event.type in _PLAIN:
        return event.type
    if event.type in _CARDS:
        return f"{CARD} {event.type}"
    if event.type in _ENDINGS:
        reason = event.data.get("reason")
        # A metric's label must have few values, whatever the stream contains.
        return f"{ENDED} {event.type} {reason if reason in _REASONS else 'unknown'}"
    return None
