"""The protocol's operations on requests: create, look, cancel, consume, report the outcome.

The idempotency key makes the id, so a repeated call finds its request by ours: same id, same
content. An approval is handed out once, to the key that consumes it.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from aiohttp import web

from gateway.api.approval_protocol.messages import (
    LONGEST_WAIT_SECONDS,
    OutcomeReport,
    Submission,
    idempotency_key,
    resource,
    seconds_of,
)
from gateway.api.approval_protocol.refusals import ProtocolRefusal
from gateway.api.call import ApiCall, long_poll, reply
from gateway.domain.clock import Clock
from gateway.domain.protocol_instances import format_time
from gateway.domain.records import Record
from gateway.domain.tasks import check_wanted
from gateway.errors import Conflict, InvalidRequest, NotFound, Used
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
from gateway.wire.codec import JsonObject, plain
from gateway.wire.identifiers import SESSION_NAME

FRAMEWORK = "agent-approval-protocol"
_CONFLICT = 409
_NO_DIGEST = "0" * 64
_OWN = frozenset({"call_id", "resume"})
"""Members of a context that say nothing about the call: the client's own marks."""


class ProtocolNotes(Protocol):
    """What is kept beside a request: its submission, when it was consumed, its outcome."""

    async def keep(self, request_id: str, name: str, value: str) -> str:
        """Note something once, for an hour unless it is held; return what is noted, which may be of
        an earlier call."""

    async def hold(self, request_id: str) -> None:
        """Hold what is noted of a request for as long as anybody may ask about it."""

    async def load(self, request_id: str) -> dict[str, str]:
        """Return all that is noted, nothing for a request of another way in."""


class ProtocolRequests:
    """Answers the calls about requests."""

    def __init__(self, notes: ProtocolNotes, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock

    async def submit(self, call: ApiCall) -> web.Response:
        """Ask, or find what was asked with the same key."""
        submission: Submission = call.body
        request = _request_of(call.caller.name, idempotency_key(call.request), submission)
        told = canonical(plain(submission)).decode()
        if await self._notes.keep(request.id, "submission", told) != told:
            raise _refuse("idempotency_conflict", "the key was used for another request")
        origin = call.origin("submit")
        record, new = await call.core.approvals.submit(request, origin, detached=True)
        await self._notes.hold(request.id)  # what is refused is forgotten by itself
        return await self._answer(record, status=201 if new else 200)

    async def look(self, call: ApiCall) -> web.Response:
        """Return a request, after waiting for its decision when asked to."""
        record = await self._own(call)
        wait = seconds_of(call.query.wait) if call.query.wait else 0.0
        if wait and not record.final:
            record = await self._wait(call, record.id, min(wait, LONGEST_WAIT_SECONDS))
            await call.services.access.check_unchanged(call.request, call.caller)
        return await self._answer(record)

    async def cancel(self, call: ApiCall) -> web.Response:
        """Withdraw a request that waits; one that was withdrawn before stays so."""
        record = await self._own(call)
        record = await call.core.approvals.cancel(
            record.id, call.origin("cancel"), reason=Reason.CANCELLED_BY_AGENT
        )
        if record.status is not Status.CANCELLED:
            raise _refuse("already_terminal", f"the request is {record.status}")
        return await self._answer(record)

    async def consume(self, call: ApiCall) -> web.Response:
        """Hand the approval out, once: to this key."""
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
                raise _refuse("already_consumed", "the approval was handed out before") from None
            except Conflict as error:
                late = self._clock.now_ms() >= record.deadline
                raise _refuse("approval_expired" if late else "stopped", str(error)) from None
            record = await self._own(call)
        return await self._answer(record)

    async def report(self, call: ApiCall) -> web.Response:
        """Note what became of the call; another outcome than the one that was noted is refused."""
        said: OutcomeReport = call.body
        record = await self._own(call)
        if not record.consumers:
            raise _refuse("not_consumed", "nobody was handed this approval")
        now = self._clock.now_ms()
        told = json.dumps({**plain(said), "reported_at": format_time(now)})
        kept = json.loads(await self._notes.keep(record.id, "outcome", told))
        if (kept["status"], kept.get("note")) != (said.status, said.note):
            raise _refuse("outcome_conflict", "another outcome was reported before")
        report = Report(execution=Execution(said.status), detail=said.note or "")
        record = await call.core.approvals.report(record.id, report, call.origin("report"))
        return await self._answer(record)

    async def _own(self, call: ApiCall) -> Record:
        """Return the request that a call names, if this agent asked it, and in the protocol's way.
        Raises NotFound."""
        try:
            named = UUID(call.request.match_info["id"])
        except ValueError:
            raise NotFound("no such request") from None
        record = await call.core.approvals.own(named.hex, call.origin("sync"))
        if "submission" not in await self._notes.load(record.id):
            raise NotFound("no such request")
        return record

    async def _wait(self, call: ApiCall, request_id: str, seconds: float) -> Record:
        """Wait until the request has ended, so many seconds at most; return it as it stands."""
        end = time.monotonic() + seconds
        origin = call.origin("sync")
        with long_poll(call), call.services.metrics.waiters.track_inprogress():
            async with call.core.feed.watch(request_id) as watch:
                record = await call.core.approvals.own(request_id, origin)
                while not record.final and (left := end - time.monotonic()) > 0:
                    check_wanted()
                    await watch.wait(left)
                    record = await call.core.approvals.own(request_id, origin)
        return record

    async def _answer(self, record: Record, *, status: int = 200) -> web.Response:
        notes = await self._notes.load(record.id)
        consumption = await self._consumption(record, notes) if record.consumers else None
        return reply(resource(record, json.loads(notes["submission"]), consumption), status)

    async def _consumption(self, record: Record, notes: dict[str, str]) -> JsonObject:
        """Return when the approval was handed out, noted now where a crash kept that from being
        noted then, and what was reported of it."""
        at = notes.get("consumed") or await self._notes.keep(
            record.id, "consumed", format_time(self._clock.now_ms())
        )
        outcome = {"outcome": json.loads(notes["outcome"])} if "outcome" in notes else {}
        return {"consumed_at": at, **outcome}


def _request_of(agent: str, key: str, submission: Submission) -> ApprovalRequest:
    """Return the request that asks for a tool call. Raises InvalidRequest."""
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
    """Return the name under which people, rules and grants know the tool."""
    if submission.server is None:
        return submission.tool
    # So that the name tells where the server's ends and the tool's begins.
    if not submission.server or "__" in submission.server or submission.server.endswith("_"):
        raise InvalidRequest(
            "server names a server, without two underscores in a row or one at its end"
        )
    return f"mcp__{submission.server}__{submission.tool}"


def _refuse(code: str, words: str) -> ProtocolRefusal:
    return ProtocolRefusal(_CONFLICT, code, words)
