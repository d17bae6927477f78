"""What the protocol's clients send, and how a request of ours is told in its terms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from aiohttp import web

from gateway.api.approval_protocol.refusals import ProtocolRefusal
from gateway.domain.protocol_instances import format_time
from gateway.domain.records import Record
from gateway.errors import InvalidRequest
from gateway.models import Status
from gateway.wire.codec import JsonObject, Wire

LONGEST_WAIT_SECONDS = 30.0
_LONGEST_NOTE = 2000
_LONGEST_KEY = 512
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Wire):
    """A tool call that asks for approval. `context` is what the adapter saw around it."""

    tool: str
    arguments: JsonObject
    timeout: str
    server: str | None = None
    agent_reasoning: str | None = None
    context: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollQuery(Wire):
    """How long to wait for a decision, such as 30s."""

    wait: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport(Wire):
    """What became of a call that was allowed."""

    status: Literal["succeeded", "failed"]
    note: str | None = None

    def __post_init__(self) -> None:
        if self.note is not None and not 0 < len(self.note) <= _LONGEST_NOTE:
            raise InvalidRequest(f"note has 1 to {_LONGEST_NOTE} characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBody(Wire):
    """A call that carries nothing."""


def idempotency_key(request: web.Request) -> str:
    """Return the idempotency key of a call. Raises ProtocolRefusal without one."""
    given = request.headers.getall("Idempotency-Key", [])
    if len(given) != 1 or not 0 < len(given[0]) <= _LONGEST_KEY:
        words = f"send one Idempotency-Key of at most {_LONGEST_KEY} characters"
        raise ProtocolRefusal(400, "missing_idempotency_key", words)
    return given[0]


def seconds_of(duration: str) -> float:
    """Return a duration of the protocol, such as 30m, in seconds. Raises InvalidRequest."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise InvalidRequest("a duration is a whole number and s, m, h or d, such as 30m")
    return int(match[1]) * _UNITS[match[2]]


def resource(record: Record, submitted: JsonObject, consumption: JsonObject | None) -> JsonObject:
    """Return a request as the protocol has it: what was submitted, and how it stands."""
    told = {
        **submitted,
        "id": str(UUID(record.id)),
        "status": str(record.status),
        "created_at": format_time(record.created),
        "deadline_at": format_time(max(record.deadline, record.created + 1)),
    }
    if record.decision is not None:
        told["decision"] = _decision(record)
    if consumption is not None:
        told["consumption"] = consumption
    return told


def _decision(record: Record) -> JsonObject:
    decision = record.decision
    assert decision is not None
    told = {"status": str(record.status), "decided_at": format_time(decision.decided_at)}
    if record.status is Status.APPROVED:
        told["expires_at"] = format_time(max(decision.expires_at, decision.decided_at + 1))
    elif said := decision.message or _why(record):
        told["note"] = said
    return told


def _why(record: Record) -> str:
    """Return who or what denied, so that no agent takes a rule for a person; "" for other ends."""
    assert record.decision is not None
    return record.decision.sentence() if record.status is Status.DENIED else ""
