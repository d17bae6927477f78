"""The asynchronous client: asks, waits, and checks the decision before it returns an approval."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from gateway.client import config
from gateway.client.approval import Approval, Event, exception_for, local_expiry
from gateway.client.bound_files import check_files, hash_files
from gateway.client.context import session_name
from gateway.client.reach import GatewayReach, Say, say_nothing, say_on_stderr
from gateway.client.transport import Transport, aged, inbox_at
from gateway.client.unsent import GOODBYE_SECONDS, Unsent
from gateway.errors import (
    AlreadyUsed,
    Expired,
    GatewayError,
    InvalidRequest,
    Pending,
    Unreachable,
    Unverified,
)
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    Decision,
    Execution,
    Kind,
    Origin,
    Preview,
    Question,
    Reason,
    Report,
    Risk,
    State,
    Status,
    digest_of,
    new_id,
)
from gateway.wire.codec import JsonObject
from gateway.wire.roles import check_roles
from gateway.wire.signatures import Verifier

log = logging.getLogger("gateway.client")

DEFAULT_TIMEOUT = 900.0
"""Seconds that an agent waits where it names no time and the gateway has not said yet how long."""

MARGIN_SECONDS = 0.5
"""The client's deadline comes this much after the gateway's; later approvals are refused."""

_MOMENT_SECONDS = 0.3  # a rule or a remembered decision answers sooner
_NO_DEADLINE = 30 * 24 * 3600.0
# More than the gateway keeps, so that a secret at the end of that arrives whole and is masked.
_MOST_DETAIL = 15_000
_NO_DIGEST = "0" * 64

OnEvent = Callable[[str, ApprovalRequest, Decision | None], None]


class AsyncClient:
    """Asks for approval. Use it inside `async with`, in one event loop.

    `public_key` pins the gateway's key: unsigned or wrongly signed decisions raise Unverified.
    `on_event` is called with `confirmation_required` before the wait and `decided` after it. An
    exception from it withdraws the request, or leaves the approval unused, and reaches the caller.

    A gateway that does not answer is waited for: until a request's own deadline where it has
    answered before, otherwise for `connect_timeout` seconds. `say` is told in a sentence that it is
    waited for, and that a request waits and where to answer it: on standard error unless it is
    given, and nowhere with None.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        public_key: str | None = None,
        on_event: OnEvent | None = None,
        connect_timeout: float = config.CONNECT_TIMEOUT,
        say: Say | None = say_on_stderr,
    ) -> None:
        self._transport = transport
        self._verifier = Verifier(public_key) if public_key else None
        self._on_event = on_event
        self._say = say or say_nothing
        self._reach = GatewayReach(connect_timeout, self._say)
        self._unsent = Unsent(transport, self._reach)
        self._asked: Counter[str] = Counter()

    @classmethod
    def from_env(
        cls,
        agent: str | None = None,
        *,
        on_event: OnEvent | None = None,
        say: Say | None = say_on_stderr,
    ) -> AsyncClient:
        """Return a client for the configured gateway, or the local one. Raises Unreachable."""
        found = config.load_patiently(agent, say or say_nothing)
        return cls(
            transport_for(found),
            public_key=found.public_key,
            on_event=on_event,
            connect_timeout=found.connect_timeout,
            say=say,
        )

    async def __aenter__(self) -> AsyncClient:
        """Start the transport."""
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Withdraw what still waits, and disconnect."""
        await self._unsent.close(list(self._asked))
        self._reach.close()
        await self._transport.__aexit__(*exc)

    @property
    def agent(self) -> str:
        """The agent that this client asks as."""
        return self._transport.agent

    def request(  # noqa: PLR0913 (one keyword for each part of a request)
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        kind: Kind = Kind.TOOL,
        hint: str = "",
        preview: Preview | None = None,
        payload: JsonObject | None = None,
        context: Context | None = None,
        files: Sequence[str] = (),
        origin: Origin | None = None,
        questions: Sequence[Question] = (),
        schema: JsonObject | None = None,
        allowed: Sequence[Action] = (Action.APPROVE, Action.DENY),
        risk: Risk | None = None,
        timeout: float | None = None,
        session: str | None = None,
        turn: str | None = None,
        id: str | None = None,
        roles: Mapping[str, str] | None = None,
        harmless: bool = False,
        human: bool = False,
    ) -> ApprovalRequest:
        """Return a request with its digest, and with a new id where none is given.

        `context` is where it would run, by default this process's folder and host. `roles` say what
        arguments are to the tool, `harmless` that nothing it does needs asking; see
        `requires_approval`. `human` demands that a person answers. `files` are bound with their
        content: when one of them, or a link on the way to it, has changed at the end, the approval
        is refused. Without `timeout` the time of the gateway's route holds; 0 is none. Raises
        InvalidRequest.
        """
        if roles:
            check_roles(roles)
        draft = ApprovalRequest(
            id=id or new_id(),
            agent=self.agent,
            tool=tool,
            arguments=dict(arguments),
            digest=_NO_DIGEST,
            kind=kind,
            session=session or session_name.get(),
            turn=turn,
            hint=hint,
            preview=preview,
            payload=payload,
            context=_where(context, files),
            origin=origin or Origin(),
            questions=tuple(questions),
            schema=schema,
            allowed=tuple(allowed),
            risk=risk,
            timeout=timeout,
            roles={name: str(role) for name, role in (roles or {}).items()},
            harmless=harmless,
            human=human,
        )
        return replace(draft, digest=digest_of(draft))

    async def ask(self, /, tool: str, arguments: Mapping[str, Any], **details: Any) -> Approval:
        """Ask, wait, and return the approval; `details` are those of `request`.

        Raises Denied, Aborted, Expired, Cancelled, Unreachable or Unverified, and AlreadyUsed for
        an `id` whose approval was handed out before. After an exception nothing may run.
        """
        return await self.send(self.request(tool, arguments, **details))

    async def question(self, /, text: str, *fields: Question, **details: Any) -> JsonObject:
        """Ask a person to fill in `fields`, or one text; return the answers by field id."""
        asked = fields or (Question(id="answer", text=text),)
        approval = await self.ask(
            details.pop("tool", "question"),
            {"question": text},
            kind=Kind.QUESTION,
            questions=asked,
            allowed=(Action.ANSWER, Action.DENY),
            **details,
        )
        return approval.answers

    async def submit(self, request: ApprovalRequest) -> Pending:
        """Submit a request without waiting. Pass what is returned to `wait`, in any process."""
        await self._submit(request, _until(request), detached=True)
        await self._tell("confirmation_required", request, None)
        return Pending(request)

    async def send(self, request: ApprovalRequest) -> Approval:
        """Submit a request and wait for it. See `ask`.

        A request that was submitted before is not asked again, and its approval is handed out once.
        """
        async with self._asking(request) as own:
            until = await self._begin(request, own)
            return await self._end(request, until)

    async def stream(self, request: ApprovalRequest) -> AsyncGenerator[Event, None]:
        """Submit a request, and yield an event before the wait and one with the approval.

        Raises as `ask` does. Closing the generator early withdraws the request: use
        `contextlib.aclosing` to close it as soon as the loop is left.
        """
        async with self._asking(request) as own:
            until = await self._begin(request, own)
            yield Event(name="confirmation_required", request=request)
            approval = await self._end(request, until)
        yield Event(name="decided", request=request, approval=approval)

    async def wait(
        self,
        pending: Pending | ApprovalRequest,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        rerun: bool = False,
    ) -> Approval:
        """Wait up to `timeout` seconds for a request that was submitted before, in any process.

        Raises as `ask` does, and Pending when there is no answer yet. Raises AlreadyUsed when the
        approval was handed out before, here or elsewhere; `rerun` permits running it again.
        """
        request = pending.request if isinstance(pending, Pending) else pending
        until = asyncio.get_running_loop().time() + timeout
        try:
            state = await self._wait_for_end(request, until)
        except TimeoutError:
            raise Pending(request) from None
        state = await self._consume(state, until)
        return await self._settle(request, state, until=until + _NO_DEADLINE, rerun=rerun)

    async def report(
        self,
        request: ApprovalRequest,
        execution: Execution,
        *,
        duration_ms: int | None = None,
        detail: str = "",
    ) -> None:
        """Report what became of an approved action. A failed report is logged and never raised."""
        report = Report(execution=execution, duration_ms=duration_ms, detail=detail[:_MOST_DETAIL])
        with log_report_failure():
            await self._unsent.report(request.id, report, _until(request))

    async def cancel(
        self,
        request: ApprovalRequest,
        *,
        reason: Reason = Reason.CANCELLED_BY_AGENT,
        message: str = "",
    ) -> None:
        """Withdraw a request."""
        cancel = partial(self._transport.cancel, request.id, reason=reason, message=message)
        await self._reach.repeat(cancel, until=_until(request))

    async def end_session(self, session: str | None = None) -> None:
        """End a session, by default the context's, and cancel its pending requests."""
        await self._transport.end_session(session or session_name.get())

    @asynccontextmanager
    async def _asking(self, request: ApprovalRequest) -> AsyncIterator[float]:
        """Yield when the wait for a request ends. What ends without the gateway's word is
        withdrawn."""
        until = _until(request)
        self._asked[request.id] += 1
        try:
            yield until
        except (Unreachable, Unverified, asyncio.CancelledError, GeneratorExit):
            await self._abandon(request, until)
            raise
        finally:
            self._asked[request.id] -= 1
            if not self._asked[request.id]:
                del self._asked[request.id]

    async def _begin(self, request: ApprovalRequest, until: float) -> float:
        """Submit a request; return when the wait for it ends, which the gateway says where the
        request does not."""
        await self._submit(request, until, detached=False)
        await self._tell("confirmation_required", request, None)
        if request.timeout is not None:
            return until
        try:
            async with asyncio.timeout_at(until):
                told = await self._transport.deadline(request.id)
        except TimeoutError:
            return until
        return until if told is None else told + MARGIN_SECONDS

    async def _submit(self, request: ApprovalRequest, until: float, *, detached: bool) -> None:
        """Submit a request until it arrives; what is sent again carries what is left of its
        time."""
        clock = asyncio.get_running_loop().time
        began = clock()
        tries = 0

        async def submit() -> None:
            nonlocal tries
            tries += 1
            left = request if tries == 1 else aged(request, clock() - began)
            await self._transport.submit(left, detached=detached)

        await self._reach.repeat(submit, until=until)

    async def _wait_for_end(self, request: ApprovalRequest, until: float) -> State:
        """Return the state in which a request ends, and say where to answer it when nobody has for
        a moment. Raises TimeoutError at `until`."""
        loop = asyncio.get_running_loop()
        saying = loop.call_later(_MOMENT_SECONDS, self._say_where, request)
        try:
            return await self._transport.wait(request.id, until=until)
        finally:
            saying.cancel()

    def _say_where(self, request: ApprovalRequest) -> None:
        inbox = self._transport.inbox
        if inbox is None:
            return
        where = f"at {inbox}" if inbox else "in the inbox"
        # Quoted: a model may have chosen the name, and this is somebody's terminal.
        self._say(
            f"waiting for approval of {request.tool!r}: answer {where}, "
            f"or with gateway approve {request.id}"
        )

    async def _end(self, request: ApprovalRequest, until: float) -> Approval:
        try:
            state = await self._wait_for_end(request, until)
        except TimeoutError:
            state = await self._last_word(request, until)
        self._reach.note_answer()
        state = await self._consume(state, until)
        return await self._settle(request, state, until=until, rerun=False)

    async def _last_word(self, request: ApprovalRequest, until: float) -> State:
        """Withdraw a request whose time is over, and return how else it ended, so that the agent is
        told what the record says. Raises Expired."""
        withdrawal = self._unsent.withdraw(request.id, until)
        done, _ = await asyncio.wait({withdrawal.task}, timeout=GOODBYE_SECONDS)
        state = withdrawal.task.result() if done else None
        decision = state.decision if state else None
        if state is None or decision is None or decision.reason is Reason.ABANDONED:
            raise Expired(local_expiry(request))
        if state.status is Status.APPROVED:  # which was reported as refused
            raise Expired(local_expiry(request))
        return state

    async def _consume(self, state: State, until: float) -> State:
        """Return the state with its decision, where the gateway did not hand it out yet."""
        if state.status is not Status.APPROVED or state.decision is not None:
            return state
        return await self._reach.repeat(partial(self._transport.consume, state.id), until=until)

    async def _settle(
        self, request: ApprovalRequest, state: State, *, until: float, rerun: bool
    ) -> Approval:
        decision = state.decision
        if decision is None or state.id != request.id or decision.request_id != request.id:
            raise Unverified("the gateway answered something else than was asked")
        if decision.status is not Status.APPROVED:
            await self._tell("decided", request, decision)
            raise exception_for(decision)
        # Taken before the next await, so that only one of several tasks gets it.
        first = self._transport.process.take(request.id) and not state.may_have_run
        ours = first or rerun
        await self._tell("decided", request, decision, ours=ours)
        try:
            self._verify(request, decision)
        except Unverified as error:
            if ours:
                await self.report(request, Execution.SKIPPED, detail=str(error))
            raise
        if not ours:
            raise AlreadyUsed(decision)
        if asyncio.get_running_loop().time() > until:
            await self.report(request, Execution.REFUSED_LATE)
            raise Expired(local_expiry(request))
        if request.questions:
            # On this report the gateway deletes the secret answers.
            await self.report(request, Execution.SUCCEEDED)
        return Approval(request=request, decision=decision, secrets=state.secrets)

    def _verify(self, request: ApprovalRequest, decision: Decision) -> None:
        if self._verifier is not None:
            self._verifier.verify(decision.signed_bytes(), decision.signature)
        if decision.action not in request.allowed:
            raise Unverified(f"{decision.action} is not what was asked for")
        if request.digest != digest_of(request):
            raise Unverified("the request was changed after it was asked")
        edited = decision.arguments
        if edited is not None and decision.action is not Action.EDIT:
            raise Unverified("the arguments were changed by a decision that is no edit")
        expected = request.digest if edited is None else digest_of(request, edited)
        if decision.digest != expected:
            raise Unverified("the decision is about other arguments than those that would run")
        check_files(request.context.files)

    async def _abandon(self, request: ApprovalRequest, until: float) -> None:
        """Withdraw a request for which nobody waits any more: within a moment if the gateway can be
        reached, otherwise as soon as it can."""
        if self._reach.closed:  # which withdrew it
            return
        withdrawal = self._unsent.withdraw(request.id, until)
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await withdrawal.sent.wait()

    async def _tell(
        self,
        event: str,
        request: ApprovalRequest,
        decision: Decision | None,
        *,
        ours: bool = True,
    ) -> None:
        """Call `on_event`. When it raises, nothing will run, so the gateway is told: a pending
        request is withdrawn, and an approval of `ours` is reported as skipped."""
        if self._on_event is None:
            return
        try:
            self._on_event(event, request, decision)
        except BaseException as error:
            if decision is None:
                await self._abandon(request, _until(request))
            elif decision.status is Status.APPROVED and ours:
                await self.report(request, Execution.SKIPPED, detail=type(error).__name__)
            raise


@contextmanager
def log_report_failure() -> Iterator[None]:
    """Log a GatewayError of the block: a failed report must not fail the action."""
    try:
        yield
    except GatewayError as error:
        log.warning("not reported: %s", error, extra={"event": "report_failed"})


def _until(request: ApprovalRequest) -> float:
    """Return when the client stops waiting, in seconds of the loop's clock."""
    now = asyncio.get_running_loop().time()
    seconds = DEFAULT_TIMEOUT if request.timeout is None else request.timeout
    return now + (seconds or _NO_DEADLINE) + MARGIN_SECONDS


def _where(context: Context | None, files: Sequence[str]) -> Context:
    """Return where it would run, with the files that are bound."""
    where = context or _here()
    return replace(where, files={**where.files, **hash_files(files)}) if files else where


def _here() -> Context:
    return Context(cwd=os.getcwd(), host=socket.gethostname())  # noqa: PTH109 (`pathlib` costs 4 ms)


def transport_for(found: config.AgentConfig) -> Transport:
    """Return the transport of a configuration: Redis where its URL is given and redis-py is
    installed, else HTTP."""
    if found.redis_url and config.is_installed("redis"):
        from gateway.client.redis_transport import RedisTransport  # noqa: PLC0415 (costs 100 ms)

        inbox = inbox_at(found.url) if found.url else ""
        return RedisTransport(found.redis_url, found.agent, found.namespace, inbox=inbox)
    if found.redis_url and not (found.url and found.token):
        raise InvalidRequest(
            "GATEWAY_REDIS_URL needs redis-py: install approval-gateway-agent[redis], or set "
            "GATEWAY_URL and GATEWAY_TOKEN to use HTTP"
        )
    from gateway.client.http_transport import HttpTransport  # noqa: PLC0415 (only when used)

    return HttpTransport(found.url or "", found.token or "", found.agent)
