"""How a request ends, and what the event of that says."""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.domain.redaction import mask
from gateway.models import Action, DecidedBy, DeciderKind, Reason, Status
from gateway.wire.codec import JsonObject

SYSTEM = DecidedBy(kind=DeciderKind.SYSTEM, name="gateway")

_TOLD_ELSEWHERE = ("arguments", "answers", "result", "request_id", "revision", "status")


class Outcome(NamedTuple):
    """How a request ends, apart from what the record itself knows."""

    status: Status
    reason: Reason
    by: DecidedBy = SYSTEM
    action: Action | None = None
    message: str = ""
    arguments: JsonObject | None = None
    answers: JsonObject | None = None
    result: Any = None
    abort: str | None = None


def summary(decision: JsonObject, note: str) -> JsonObject:
    """Return what the event of an ending says: the decision without arguments, answers or
    result. Secrets in what people or agents wrote are masked."""
    values = decision.copy()
    for name in _TOLD_ELSEWHERE:
        values.pop(name, None)
    if note:
        values["note"] = mask(note)
    if "message" in values:
        values["message"] = mask(values["message"])
    return values
