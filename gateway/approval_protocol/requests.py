"""Handle the protocol's operations on requests, its messages and its errors; start with
`ProtocolRequests`.

The idempotency key determines the request ID, so a repeated call finds its request, which must have
the same content. Only one key can claim an approval, and only once.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from aiohttp import web

from gateway.api.api_call import ApiCall, long_poll, reply
from gateway.approval_protocol.instances import RedisProtocolNotes, format_time
from gateway.domain.records import StoredRequest
from gateway.domain.time_and_tasks import Clock, check_wanted
from gateway.errors import Conflict, GatewayError, InvalidRequest, NotFound, Used
from gateway.models import (
    ApprovalRequest,
    Execution,
    Origin,
    Preview,
    Reason,
    Report,
    Status,
    digest_of,
)
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, Wire, plain
from gateway.wire.schema import SESSION_NAME

# Errors of the protocol: its own form for every error of the gateway.

_KINDS = {
    401: ("authentication", "invalid_credential"),
    403: ("authorization", "not_allowed"),
    404: ("not_found", "not_found"),
    409: ("conflict", "conflict"),
    429: ("rate_limit", "rate_limited"),
    503: ("dependency", "unavailable"),
}
_INVALID = ("invalid_request", "invalid_request")
_INTERNAL = ("internal", "internal")
_BAD_REQUEST, _SERVER_ERRORS = 400, 500


class ProtocolRefusal(GatewayError):
    """An error that has a special code in the protocol."""

    def __init__(self, status: int, reason: str, words: str) -> None:
        super().__init__(words)
        self.refused_with = status
        self.reason = reason


def error_of(error: GatewayError, call_id: str) -> web.Response:
    """Return the protocol's response for an error. `call_id` identifies the HTTP exchange."""
    status = _status(error)
    default = _INTERNAL if status >= _SERVER_ERRORS else _INVALID
    kind, code = _KINDS.get(status, default)
    if isinstance(error, ProtocolRefusal):
        code = error.reason
    words = "there is nothing here for this credential" if _is_missing(error) else str(error)
    told = {"type": kind, "code": code, "message": words, "request_id": call_id}
    headers = dict(getattr(error, "headers", {}))
    return web.json_response({"error": told}, status=status, headers=headers)


def _status(error: GatewayError) -> int:
    if isinstance(error, ProtocolRefusal):
        return error.refused_with
    if error.status in _KINDS or error.status >= _SERVER_ERRORS:
        return error.status
    return _BAD_REQUEST  # the protocol has one status for all malformed calls


def _is_missing(error: GatewayError) -> bool:
    return isinstance(error, NotFound)


# Messages from the protocol's clients, and requests in the protocol's form.

LONGEST_WAIT_SECONDS = 30.0
_LONGEST_NOTE = 2000
_LONGEST_KEY = 512
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Wire):
    """A tool call that requires approval. `context` is what the client's adapter knows about the
    call."""

    tool: str
    arguments: JsonObject
    timeout: str
    server: str | None = None
    agent_reasoning: str | None = None
    context: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollQuery(Wire):
    """Query parameters: how long to wait for a decision, such as 30s."""

    wait: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport(Wire):
    """The reported result of a call that was allowed."""

    status: Literal["succeeded", "failed"]
    note: str | None = None

    def __post_init__(self) -> None:
        if self.note is not None and not 0 < len(self.note) <= _LONGEST_NOTE:
            raise InvalidRequest(f"note must have 1 to {_LONGEST_NOTE} characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBody(Wire):
    """The body of an API call that needs none."""


def idempotency_key(request: web.Request) -> str:
    """Return the idempotency key of a call. Raises ProtocolRefusal if it is missing."""
    given = request.headers.getall("Idempotency-Key", [])
    if len(given) != 1 or not 0 < len(given[0]) <= _LONGEST_KEY:
        words = f"send one Idempotency-Key of at most {_LONGEST_KEY} characters"
        raise ProtocolRefusal(400, "missing_idempotency_key", words)
    return given[0]


def seconds_of(duration: str) -> float:
    """Convert a duration in the protocol's format, such as 30m, to seconds. Raises
    InvalidRequest."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise InvalidRequest(
            "a duration must be a whole number followed by s, m, h or d, such as 30m"
        )
    return int(match[1]) * _UNITS[match[2]]


def resource(
    record: StoredRequest, submitted: JsonObject, consumption: JsonObject | None
) -> JsonObject:
    """Return a request in the protocol's format: the submission and its current state."""
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


def _decision(record: StoredRequest) -> JsonObject:
    decision = record.decision
    assert decision is not None
    told = {"status": str(record.status), "decided_at": format_time(decision.decided_at)}
    if record.status is Status.APPROVED:
        told["expires_at"] = format_time(max(decision.expires_at, decision.decided_at + 1))
    elif said := decision.message or _why(record):
        told["note"] = said
    return told


def _why(record: StoredRequest) -> str:
    """Return who or what denied a request, so that no agent mistakes a rule for a person; "" if it
    was not denied."""
    assert record.decision is not None
    return record.decision.sentence() if record.status is Status.DENIED else ""


FRAMEWORK = "agent-approval-protocol"
_CONFLICT = 409
_NO_DIGEST = "0" * 64
_OWN = frozenset({"call_id", "resume"})
"""Members of a context that do not describe the call: the client's own marks."""


class ProtocolRequests:
    """Handles the protocol's API calls about requests."""

    def __init__(self, notes: RedisProtocolNotes, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock

    async def submit(self, call: ApiCall) -> web.Response:
        """Submit a request, or return the one submitted with the same key."""
        submission: Submission = call.body
        request = _request_of(call.caller.name, idempotency_key(call.request), submission)
        told = canonical(plain(submission)).decode()
        if await self._notes.keep(request.id, "submission", told) != told:
            raise _refuse(
                "idempotency_conflict",
                "this Idempotency-Key was already used for a different request",
            )
        origin = call.origin("submit")
        record, new = await call.core.approvals.submit(request, origin, detached=True)
        await self._notes.hold(request.id)  # notes of a rejected request expire
        return await self._answer(record, status=201 if new else 200)

    async def look(self, call: ApiCall) -> web.Response:
        """Return a request, after waiting for its decision if the query asks for that."""
        record = await self._own(call)
        wait = seconds_of(call.query.wait) if call.query.wait else 0.0
        if wait and not record.final:
            record = await self._wait(call, record.id, min(wait, LONGEST_WAIT_SECONDS))
            await call.services.access.check_unchanged(call.request, call.caller)
        return await self._answer(record)

    async def cancel(self, call: ApiCall) -> web.Response:
        """Cancel a pending request. Idempotent."""
        record = await self._own(call)
        record = await call.core.approvals.cancel(
            record.id, call.origin("cancel"), reason=Reason.CANCELLED_BY_AGENT
        )
        if record.status is not Status.CANCELLED:
            raise _refuse("already_terminal", f"the request is {record.status}")
        return await self._answer(record)

    async def consume(self, call: ApiCall) -> web.Response:
        """Claim the approval for this key. An approval can be claimed only once."""
        process = sha256_hex(idempotency_key(call.request).encode())
        record = await self._own(call)
        if record.status is not Status.APPROVED:
            raise _refuse("not_approved", f"the request is {record.status}")
        if process not in record.consumers:
            try:
                await call.core.approvals.consume(
                    record.id, call.origin("consume", process), once=True
                )
            except Used:
                raise _refuse("already_consumed", "the approval was already consumed") from None
            except Conflict as error:
                late = self._clock.now_ms() >= record.deadline
                raise _refuse("approval_expired" if late else "stopped", str(error)) from None
            record = await self._own(call)
        return await self._answer(record)

    async def report(self, call: ApiCall) -> web.Response:
        """Save the result of the call. Rejects a result that differs from an earlier one."""
        said: OutcomeReport = call.body
        record = await self._own(call)
        if not record.consumers:
            raise _refuse("not_consumed", "the approval was not consumed yet")
        now = self._clock.now_ms()
        told = json.dumps({**plain(said), "reported_at": format_time(now)})
        kept = json.loads(await self._notes.keep(record.id, "outcome", told))
        if (kept["status"], kept.get("note")) != (said.status, said.note):
            raise _refuse("outcome_conflict", "a different outcome was already reported")
        report = Report(execution=Execution(said.status), detail=said.note or "")
        record = await call.core.approvals.report(record.id, report, call.origin("report"))
        return await self._answer(record)

    async def _own(self, call: ApiCall) -> StoredRequest:
        """Return the request that a call names, if this agent submitted it through the protocol.
        Raises NotFound."""
        try:
            named = UUID(call.request.match_info["id"])
        except ValueError:
            raise NotFound("there is no such request") from None
        record = await call.core.approvals.own(named.hex, call.origin("sync"))
        if "submission" not in await self._notes.load(record.id):
            raise NotFound("there is no such request")
        return record

    async def _wait(self, call: ApiCall, request_id: str, seconds: float) -> StoredRequest:
        """Wait at most `seconds` for the final state. Return the current record."""
        end = time.monotonic() + seconds
        origin = call.origin("sync")
        with long_poll(call), call.services.metrics.waiters.track_inprogress():
            async with call.core.feed.watch(request_id) as wait:
                record = await call.core.approvals.own(request_id, origin)
                while not record.final and (left := end - time.monotonic()) > 0:
                    check_wanted()
                    await wait(left)
                    record = await call.core.approvals.own(request_id, origin)
        return record

    async def _answer(self, record: StoredRequest, *, status: int = 200) -> web.Response:
        notes = await self._notes.load(record.id)
        consumption = await self._consumption(record, notes) if record.consumers else None
        return reply(resource(record, json.loads(notes["submission"]), consumption), status)

    async def _consumption(self, record: StoredRequest, notes: dict[str, str]) -> JsonObject:
        """Return when the approval was claimed, and the reported result. If a crash lost the time,
        it is saved now."""
        at = notes.get("consumed") or await self._notes.keep(
            record.id, "consumed", format_time(self._clock.now_ms())
        )
        outcome = {"outcome": json.loads(notes["outcome"])} if "outcome" in notes else {}
        return {"consumed_at": at, **outcome}


def _request_of(agent: str, key: str, submission: Submission) -> ApprovalRequest:
    """Return the request for a tool call. Raises InvalidRequest."""
    context = submission.context or {}
    shown = {name: value for name, value in context.items() if name not in _OWN}
    session = str(context.get("session_id", ""))
    request = ApprovalRequest(
        id=sha256_hex(canonical([FRAMEWORK, agent, key]))[:32],
        agent=agent,
        tool=_tool_name(submission),
        arguments=submission.arguments,
        digest=_NO_DIGEST,
        session=session if SESSION_NAME.fullmatch(session) else "default",
        hint=submission.agent_reasoning or "",
        preview=Preview(format="json", text=canonical(shown).decode()) if shown else None,
        origin=Origin(framework=FRAMEWORK),
        timeout=seconds_of(submission.timeout),
    )
    return replace(request, digest=digest_of(request))


def _tool_name(submission: Submission) -> str:
    """Return the tool name that people, rules and grants use."""
    if submission.server is None:
        return submission.tool
    # So that the end of the server's name is unambiguous.
    if not submission.server or "__" in submission.server or submission.server.endswith("_"):
        raise InvalidRequest(
            "server must not be empty, contain two underscores in a row, or end in an underscore"
        )
    return f"mcp__{submission.server}__{submission.tool}"


def _refuse(code: str, words: str) -> ProtocolRefusal:
    return ProtocolRefusal(_CONFLICT, code, words)
