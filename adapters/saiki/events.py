"""The two events of the document: what is asked, and how it was answered."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gateway.models import Action, Kind, RiskLevel, Status
from gateway.ports import (
    REQUEST_ID,
    Card,
    JsonObject,
    Record,
    card_of,
    make_visible,
    mask,
    render_safe,
)

REQUEST, RESPONSE, ERROR = "toolConfirmationRequest", "toolConfirmationResponse", "error"

_WHOLE = 10**9
_MOST_DIGITS = 9
# Blocks of a card that are no arguments: all that is covered by an approval and not in `args`.
_BESIDE = ("payload", "changed environment", "files and their SHA-256")
_BESIDE_NAMES = "name of the "
_HIGH = "High risk: it can be denied here; whoever approves it confirms that in the inbox."


def is_offered(record: Record) -> bool:
    """Whether the document can express the request: it waits for a yes or a no of its own."""
    asks = record.request.kind is not Kind.QUESTION and Action.APPROVE in record.request.allowed
    return asks and not record.final and not record.behind


def execution_id(record: Record) -> str:
    """Return the `executionId`: the request, and the revision that is shown with it."""
    return f"{record.id}.{record.shown_since}"


def read_execution_id(text: str) -> tuple[str, int] | None:
    """Return request and revision of an `executionId`, None for what is none."""
    request_id, _, revision = text.partition(".")
    number = revision.isascii() and revision.isdigit() and len(revision) <= _MOST_DIGITS
    return (request_id, int(revision)) if REQUEST_ID.fullmatch(request_id) and number else None


def build_request(record: Record) -> JsonObject:
    """Return the event that asks. Its arguments are for the eye: secrets are masked, and
    characters that deceive are made visible."""
    request = record.request
    return {
        "toolName": render_safe(request.tool).text,
        "args": mask(record.arguments, lambda text: make_visible(text).text),
        "description": "\n".join(_describe(card_of(record, lines=_WHOLE, chars=_WHOLE))),
        "executionId": execution_id(record),
        "timestamp": _write_time(record.created),
        "sessionId": request.session,
    }


def build_response(execution: str, record: Record) -> JsonObject:
    """Return the event that tells how a confirmation ended. It is approved if this call, perhaps
    with edited arguments, may run: what expired, was cancelled or changed is not."""
    action = record.decision.action if record.decision else None
    runs = record.status is Status.APPROVED and action is not Action.RESPOND
    return {"executionId": execution, "approved": runs, "sessionId": record.request.session}


def _describe(card: Card) -> Iterator[str]:
    """Say what the arguments do not: who asks, where, why it is asked, and what else would run."""
    yield card.summary
    yield f"{card.word}, {card.risk.value} risk"
    yield from (f"{fact.label}: {fact.text.text}" for fact in card.facts)
    if card.risk is RiskLevel.HIGH:
        yield _HIGH
    yield from (f"Risk: {reason.text}" for reason in card.reasons)
    yield from (f"{card.sign} {finding.text}" for finding in card.findings)
    yield from card.notices
    yield f"Waits until {_write_time(card.deadline)}"
    if card.progress:
        yield card.progress
    if card.says:
        yield f"The agent says, and nobody verified it: “{_indent(card.says.text)}”"
    for block in card.blocks:
        if block.label in _BESIDE or block.label.startswith(_BESIDE_NAMES):
            yield f"{block.label}: {_indent(block.text.text)}"


def _indent(text: str) -> str:
    """Return what an agent wrote so that no line of it passes for one of ours."""
    return text.replace("\n", "\n  | ")


def _write_time(milliseconds: int) -> str:
    """Return a time as JavaScript writes a Date in JSON."""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
