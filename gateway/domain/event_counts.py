"""Counts what operators watch among events. The sealer adds it up, so each event counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gateway.domain.records import AuditEvent
from gateway.models import Reason, Status

UNTRUE = frozenset({"undelivered", "delivery_uncertain", "copy_gone", "copy_stuck"})
"""The events of a copy that is not there, or perhaps not, or does not show how things are."""

SUBMITTED, REFUSED, DEAD_LETTER = "submitted", "refused", "dead_letter"
CARD, ENDED = "card", "ended"

_ENDINGS = frozenset(Status) - {Status.PENDING}
_REASONS = frozenset(Reason)
_CARDS = UNTRUE | {"delivered"}
_PLAIN = frozenset({SUBMITTED, REFUSED, DEAD_LETTER})


def count_events(events: Iterable[AuditEvent]) -> Counter[str]:
    """Return how often each thing happened: `submitted`, `refused`, `dead_letter`, `card OUTCOME`
    and `ended STATUS REASON`."""
    return Counter(name for event in events if (name := _name(event)) is not None)


def _name(event: AuditEvent) -> str | None:
    if event.type in _PLAIN:
        return event.type
    if event.type in _CARDS:
        return f"{CARD} {event.type}"
    if event.type in _ENDINGS:
        reason = event.data.get("reason")
        # A label's values must be few, whatever stands in the stream.
        return f"{ENDED} {event.type} {reason if reason in _REASONS else 'unknown'}"
    return None
