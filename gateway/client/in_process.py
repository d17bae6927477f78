"""Let a Python callable decide requests, in tests or without a gateway. See CallableTransport."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from gateway.client.transport import Process, StepUpCodes
from gateway.errors import Conflict, NotFound, Used
from gateway.models import (
    Action,
    ApprovalRequest,
    DecidedBy,
    DeciderKind,
    Decision,
    ReadBack,
    Reason,
    Report,
    State,
    Status,
    digest_of,
)
from gateway.wire.codec import JsonObject

_STATUS = {Action.DENY: Status.DENIED, Action.ABORT: Status.DENIED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A decision that the callable may return instead of True or False. `Decision` explains which
    members belong to each `action`. With `feedback`, a denial requests another plan."""

    action: Action
    message: str = ""
    arguments: JsonObject | None = None
    answers: JsonObject | None = None
    result: Any = None
    abort: str | None = None
    feedback: bool = False


Approver = Callable[[ApprovalRequest], bool | Reply | Awaitable[bool | Reply]]


class CallableTransport:
    """A `Transport` that lets a callable decide. Any result other than True or a Reply is a denial.

    For tests, `requests` lists the submitted requests and `reports` the reports.
    """

    def __init__(self, approver: Approver, agent: str = "local") -> None:
        self.agent = agent
        self.process = Process()
        self.numbers = StepUpCodes()
        self.inbox: str | None = None
        self.requests: list[ApprovalRequest] = []
        self.reports: list[tuple[str, Report]] = []
        self._approver = approver
        self._known: dict[str, ApprovalRequest] = {}
        self._states: dict[str, asyncio.Future[State]] = {}
        self._given_up: set[str] = set()

    async def __aenter__(self) -> CallableTransport:
        """Return this transport: there is no connection to open."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Cancel all running calls of the callable."""
        for task in self._states.values():
            task.cancel()

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Ask the callable, once for each id. A new version of a call supersedes the earlier
        version. Raises Conflict if the id belongs to a request with other content."""
        known = self._known.setdefault(request.id, request)
        if known.digest != request.digest:
            raise Conflict("the id belongs to a request with different content")
        if request.id in self._states:
            return
        if request.call_id is not None:
            await self._supersede(request)
        self.requests.append(request)
        self._states[request.id] = asyncio.create_task(self._ask(request))

    async def deadline(self, request_id: str) -> float | None:
        """Return None: a callable sets no deadline."""
        return None

    async def wait(self, request_id: str, *, until: float) -> State:
        """Return the callable's decision. Raises TimeoutError at `until`."""
        future = self._state_future(request_id)
        async with asyncio.timeout_at(until):
            try:
                state = await asyncio.shield(future)
            except asyncio.CancelledError:
                if self._state_future(request_id) is future:
                    raise
                state = await self._state_future(request_id)  # it was cancelled
        used_up = request_id in self._given_up and state.status is Status.APPROVED
        return replace(state, decision=None) if used_up else state

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Cancel a request. A decision that was already made stays valid."""
        if self._state_future(request_id).cancel():
            withdrawn = _cancelled_state(self._known[request_id], reason, message)
            self._states[request_id] = asyncio.get_running_loop().create_future()
            self._states[request_id].set_result(withdrawn)

    async def consume(self, request_id: str) -> State:
        """Return the decision. Raises Used for a superseded approval."""
        if request_id in self._given_up:
            raise Used("this approval is not valid any more: a newer call has superseded it")
        return await self._state_future(request_id)

    async def report(self, request_id: str, report: Report) -> None:
        """Append the report to `reports`."""
        self.reports.append((request_id, report))

    async def fetch(self, request_id: str) -> State:
        """Return the current state of a request, with its record."""
        future = self._state_future(request_id)
        request = self._known[request_id]
        record = ReadBack(request=request, created=0, given_up=request_id in self._given_up)
        if not future.done():
            return State(
                id=request_id,
                status=Status.PENDING,
                revision=1,
                digest=request.digest,
                deadline=0,
                record=record,
            )
        state = await future
        decision = None if state.status is Status.APPROVED else state.decision
        return replace(state, decision=decision, record=record)

    async def end_session(self, session: str) -> None:
        """Do nothing: there are no sessions."""

    async def _supersede(self, request: ApprovalRequest) -> None:
        """Cancel the earlier versions of a call, and invalidate their approvals."""
        for one in [*self._known.values()]:
            if one.id != request.id and _part_of(one) == _part_of(request):
                await self.cancel(one.id, reason=Reason.SUPERSEDED, message="")
                self._given_up.add(one.id)

    def _state_future(self, request_id: str) -> asyncio.Future[State]:
        if request_id not in self._states:
            raise NotFound("there is no such request")
        return self._states[request_id]

    async def _ask(self, request: ApprovalRequest) -> State:
        # Run it in a thread, so that a blocking function cannot delay the deadline.
        answer: Any = await asyncio.to_thread(self._approver, request)
        if inspect.isawaitable(answer):
            answer = await answer
        reply = answer if isinstance(answer, Reply) else None
        if reply is None:
            reply = Reply(action=Action.APPROVE if answer is True else Action.DENY)
        return _state(_decision(request, reply))


def _part_of(request: ApprovalRequest) -> tuple[str | None, ...]:
    return request.session, request.call_id, request.part


def _state(decision: Decision) -> State:
    return State(
        id=decision.request_id,
        status=decision.status,
        revision=decision.revision,
        digest=decision.digest,
        deadline=decision.expires_at,
        decision=decision,
    )


def _cancelled_state(request: ApprovalRequest, reason: Reason, message: str) -> State:
    denied = _decision(request, Reply(action=Action.DENY, message=message))
    return _state(replace(denied, status=Status.CANCELLED, action=None, reason=reason))


def _decision(request: ApprovalRequest, reply: Reply) -> Decision:
    edited = reply.arguments if reply.action is Action.EDIT else None
    aborts = reply.action is Action.ABORT
    return Decision(
        request_id=request.id,
        revision=2,
        status=_STATUS.get(reply.action, Status.APPROVED),
        action=reply.action,
        reason=Reason.FEEDBACK if reply.feedback else Reason.RULE,
        digest=request.digest if edited is None else digest_of(request, edited),
        decided_by=DecidedBy(kind=DeciderKind.RULE, name="callable"),
        decided_at=0,
        expires_at=0,
        message=reply.message,
        arguments=edited,
        answers=reply.answers,
        result=reply.result,
        abort=(reply.abort or "turn") if aborts else None,
    )
