"""The audit in two public forms: envelopes of the Agent Approval Interchange Specification, and a
trace that tools which check approvals read.

Both are made of the events, in their order, and of the requests that these name; secrets are
masked as in everything that approvers read. What was edited is told as one action that was not
approved and another that was, since neither form knows an approval of something else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

from gateway.domain.records import AuditEvent, Record
from gateway.domain.redaction import mask
from gateway.models import ENDINGS, DeciderKind, Decision, Execution, Status
from gateway.ports.heads import head_of, plain_head
from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, plain

HARNESS = "approval-gateway"
_ALLOWED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_LONGEST_ID, _LONGEST_TEXT, _LONGEST_NAME = 200, 1000, 200
_RAN = (Execution.STARTED, Execution.SUCCEEDED, Execution.FAILED)
_ONCE: JsonObject = {"scope": "once"}
_CHOICES = (
    {"decision": "approve", **_ONCE, "label": "Approve"},
    {"decision": "deny", **_ONCE, "label": "Deny"},
)
_OUTCOMES = {
    Status.APPROVED: "approved",
    Status.DENIED: "denied",
    Status.CANCELLED: "cancelled",
    Status.EXPIRED: "expired",
}
_VERSION = 2
"""Of the trace's schema."""
_PAGE = 500


async def write_form(store: RedisStore, form: str) -> AsyncIterator[str]:
    """Yield the audit's lines in a form: `interchange` or `trace`."""
    writer = _Interchange() if form == "interchange" else _Trace()
    cursor: str | None = None
    while events := await store.history(cursor, _PAGE):
        for event in events:
            record = await store.load(event.request_id) if event.request_id else None
            if record is not None and not record.erased:
                for line in writer.tell(event, record):
                    yield json.dumps(line, ensure_ascii=False)
        cursor = events[-1].id
    for line in writer.end():
        yield json.dumps(line, ensure_ascii=False)


class _Interchange:
    """Writes envelopes, numbered from 1."""

    def __init__(self) -> None:
        self._sequence = 0

    def tell(self, event: AuditEvent, record: Record) -> Iterator[JsonObject]:
        """Yield the envelopes of an event, none for most."""
        if event.type == "submitted":
            yield self._tell_request(event, record, record.id, record.request.arguments, event.at)
        elif event.type in ENDINGS and record.decision is not None:
            decision = record.decision
            if (edited := decision.arguments) is None:
                yield from self._tell_end(event, record, decision, record.id)
                return
            before = _digest(_action(record, record.request.arguments))
            stale = _resolution(record.id, before, "stale", "the arguments were changed", event.at)
            yield self._envelope("resolved", event, resolution=stale)
            at = decision.decided_at  # the edit that asked so decided it
            yield self._tell_request(event, record, f"{record.id}.2", edited, at)
            yield from self._tell_end(event, record, decision, f"{record.id}.2")

    def end(self) -> Iterator[JsonObject]:
        """Yield nothing: a stream of envelopes has no end."""
        yield from ()

    def _tell_request(
        self, event: AuditEvent, record: Record, told_id: str, arguments: JsonObject, at: int
    ) -> JsonObject:
        action = _action(record, arguments)
        request = {
            "id": told_id,
            "created_at": _moment(at),
            "expires_at": _moment(max(record.deadline, at + 1)),
            "status": "pending",
            "origin": {
                "harness": HARNESS,
                "session_id": _identifier(record.request.session),
                "agent_id": _identifier(record.request.agent),
            },
            "action": action,
            "action_digest": _digest(action),
            "risk": {
                "level": str(record.risk.level),
                "reasons": [_text(record.hide(one)) for one in record.risk.reasons][:20]
                or ["no rule and no finding raised it"],
            },
            "choices": list(_CHOICES),
        }
        return self._envelope("requested", event, request=request)

    def _tell_end(
        self, event: AuditEvent, record: Record, decision: Decision, told_id: str
    ) -> Iterator[JsonObject]:
        digest = _digest(_action(record, decision.arguments or record.request.arguments))
        decided = decision.status in (Status.APPROVED, Status.DENIED)
        if decided:
            by_person = decision.decided_by.kind is DeciderKind.PERSON
            told = {
                "id": f"{told_id}.d",
                "request_id": told_id,
                "action_digest": digest,
                "decided_at": _moment(decision.decided_at),
                "decision": "approve" if decision.status is Status.APPROVED else "deny",
                **_ONCE,
                "actor": {
                    "id": _identifier(decision.decided_by.name),
                    "type": "human" if by_person else "policy",
                    "display_name": _text(decision.decided_by.name, _LONGEST_NAME),
                },
            }
            yield self._envelope("decided", event, decision=told)
        outcome, words = _OUTCOMES[decision.status], record.hide(decision.sentence())
        resolution = _resolution(told_id, digest, outcome, words, event.at)
        if decided:
            resolution |= {"decision_id": f"{told_id}.d", "effective_scope": "once"}
        yield self._envelope("resolved", event, resolution=resolution)

    def _envelope(self, kind: str, event: AuditEvent, **body: JsonObject) -> JsonObject:
        self._sequence += 1
        return {
            "aais": "1.0",
            "type": f"approval.{kind}",
            "id": f"{event.id}.{self._sequence}",
            "occurred_at": _moment(event.at),
            "sequence": self._sequence,
            **body,
        }


class _Trace:
    """Writes one trace of all requests that have ended; those that wait are not evidence yet."""

    def __init__(self) -> None:
        self._last = 0
        self._executed: set[str] = set()

    def tell(self, event: AuditEvent, record: Record) -> Iterator[JsonObject]:
        """Yield the lines of an event, none for most."""
        self._last = max(self._last, event.at)
        if event.type in ENDINGS and record.decision is not None:
            yield from self._tell_end(event, record, record.decision)
        elif event.type == "reported" and record.decision is not None:
            yield from self._tell_report(event, record, record.decision)

    def end(self) -> Iterator[JsonObject]:
        """Yield the last line, which says that nothing is missing behind it."""
        if self._last:
            yield self._line("session_end", self._last, reason="the end of this export")

    def _tell_end(
        self, event: AuditEvent, record: Record, decision: Decision
    ) -> Iterator[JsonObject]:
        if decision.arguments is not None:
            yield from self._tell_block(event, record, record.id, "the arguments were changed")
        if decision.status is not Status.APPROVED:
            yield from self._tell_block(event, record, record.id, str(decision.status))
            return
        told_id = _final_id(record, decision)
        yield from self._tell_proposal(event, record, told_id, decision.arguments)
        yield self._line(
            "approval_decision", event.at, told_id, decision="allow",
            expires_at=_moment(decision.expires_at),
        )  # fmt: skip

    def _tell_block(
        self, event: AuditEvent, record: Record, told_id: str, why: str
    ) -> Iterator[JsonObject]:
        yield from self._tell_proposal(event, record, told_id, None)
        yield self._line("approval_decision", event.at, told_id, decision="deny")
        yield self._line("action_blocked", event.at, told_id, reason=why)

    def _tell_proposal(
        self, event: AuditEvent, record: Record, told_id: str, edited: JsonObject | None
    ) -> Iterator[JsonObject]:
        action = _operation(record, edited)
        asked = record.created if edited is None else event.at
        proposed = self._line("action_proposed", asked, told_id, action=action)
        del proposed["approval_id"]
        yield proposed
        yield self._line("approval_requested", asked, told_id, action=action)

    def _tell_report(
        self, event: AuditEvent, record: Record, decision: Decision
    ) -> Iterator[JsonObject]:
        execution, told_id = event.data.get("execution"), _final_id(record, decision)
        if decision.status is not Status.APPROVED or told_id in self._executed:
            return
        self._executed.add(told_id)
        if execution in _RAN:
            action = _operation(record, decision.arguments)
            yield self._line("action_executed", event.at, told_id, action=action)
        else:
            yield self._line("action_blocked", event.at, told_id, reason=str(execution))

    def _line(self, kind: str, at: int, told_id: str = "", **more: Any) -> JsonObject:
        named = {"action_id": told_id, "approval_id": told_id} if told_id else {}
        return {
            "schema_version": _VERSION,
            "type": kind,
            "timestamp": _moment(at),
            "session_id": HARNESS,
            **named,
            **more,
        }


def _final_id(record: Record, decision: Decision) -> str:
    return record.id if decision.arguments is None else f"{record.id}.2"


def _action(record: Record, arguments: JsonObject) -> JsonObject:
    """Return what would run as an action of the specification; what is masked says so, and the hint
    names the digest of the real bytes."""
    request = record.request
    told: JsonObject = mask(arguments)
    shown = record.copy_with(edited=None) if arguments is request.arguments else record
    action: JsonObject = {
        "kind": _identifier(str(request.kind)),
        "name": _identifier(mask(request.tool)),
        "summary": _text(plain_head(head_of(shown))),
        "arguments": told,
        "presentation": {
            "redacted": told != arguments,
            "binding_hint": f"digest {request.digest} of what would run and for whom",
        },
    }
    if request.context.cwd:
        action["working_directory"] = _text(mask(request.context.cwd))
    return action


def _operation(record: Record, edited: JsonObject | None) -> JsonObject:
    """Return what would run as an action of the trace."""
    request = record.request
    parameters = {
        "arguments": request.arguments if edited is None else edited,
        "context": plain(request.context),
        "payload": request.payload,
    }
    return {
        "tool": "shell" if request.kind == "command" else mask(request.tool),
        "operation": "run" if request.kind == "command" else "call",
        "parameters": mask(parameters),
    }


def _resolution(told_id: str, digest: str, outcome: str, words: str, at: int) -> JsonObject:
    return {
        "id": f"{told_id}.r",
        "request_id": told_id,
        "action_digest": digest,
        "resolved_at": _moment(at),
        "outcome": outcome,
        "message": _text(words),
    }


def _digest(action: JsonObject) -> str:
    return f"sha256:{sha256_hex(canonical(action))}"


def _identifier(text: str) -> str:
    """Return a name as both forms take it; one with other characters is told by its digest."""
    plain_text = all(one in _ALLOWED or one in "._:-" for one in text)
    if plain_text and text[:1] in _ALLOWED and 0 < len(text) <= _LONGEST_ID:
        return text
    return f"sha256:{sha256_hex(text.encode())}"


def _text(text: str, most: int = _LONGEST_TEXT) -> str:
    return text if 0 < len(text) <= most else f"{text[: most - 1]}…"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
