"""Ask the gateway for approvals from asyncio code. Start at `AsyncClient.ask`."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
import types
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gateway.client import config
from gateway.client.approval import (
    Approval,
    Event,
    Outcome,
    exception_for,
    local_expiry,
    local_withdrawal,
    outcome_of,
    withdrawn,
)
from gateway.client.bound_files import check_files, hash_files
from gateway.client.context import current_session, current_turn, origin_of
from gateway.client.transport import (
    RetryingTransport,
    Say,
    Transport,
    aged,
    inbox_at,
    say_nothing,
    say_on_stderr,
)
from gateway.errors import (
    AlreadyUsed,
    Cancelled,
    Expired,
    GatewayError,
    InvalidRequest,
    Pending,
    Unreachable,
    Unverified,
    Used,
)
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    Decision,
    Execution,
    Kind,
    Origin,
    PlannedCall,
    Preview,
    Question,
    Reason,
    Report,
    Risk,
    State,
    Status,
    digest_of,
    id_of_call,
    new_id,
)
from gateway.wire.codec import JsonObject, plain
from gateway.wire.outcome_text import say_cards
from gateway.wire.roles import check_roles
from gateway.wire.signatures import Verifier

# Derives a JSON Schema from a function's parameters.
#
# The gateway rejects an edit that does not fit it. The client checks again before the function
# runs.

_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
    types.NoneType: "null",
}
_VALUES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (types.NoneType,),
}
_VARIADIC = {
    inspect.Parameter.VAR_POSITIONAL: "array",
    inspect.Parameter.VAR_KEYWORD: "object",
}


def schema_of(function: Callable[..., Any], parameters: Mapping[str, Any]) -> JsonObject:
    """Return a JSON Schema for a function's parameters, from its annotations.

    A parameter without an annotation accepts any value.
    """
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {}
    properties: JsonObject = {}
    required = []
    for name, parameter in parameters.items():
        if gathers := _VARIADIC.get(parameter.kind):
            properties[name] = {"type": gathers}
            continue
        properties[name] = _schema(hints.get(name))
        if parameter.default is parameter.empty:
            required.append(name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def check_arguments(schema: JsonObject, arguments: JsonObject) -> None:
    """Check edited arguments. Raises InvalidRequest if they do not fit a schema that `schema_of`
    returned."""
    properties = schema["properties"]
    if unknown := set(arguments) - set(properties):
        raise InvalidRequest(f"the function has no argument {min(unknown)!r}")
    if missing := set(schema["required"]) - set(arguments):
        raise InvalidRequest(f"the argument {min(missing)!r} is missing")
    for name, value in arguments.items():
        if not _fits(properties[name], value):
            raise InvalidRequest(f"the argument {name!r} cannot be {value!r}")


def _schema(hint: Any) -> JsonObject:
    origin = get_origin(hint)
    if origin is Literal:
        return {"enum": list(get_args(hint))}
    arms = get_args(hint) if origin in (Union, types.UnionType) else (hint,)
    names = [_TYPES.get(get_origin(arm) or arm) for arm in arms]
    if None in names:
        return {}
    return {"type": names[0] if len(names) == 1 else names}


def _fits(schema: JsonObject, value: Any) -> bool:
    if "enum" in schema:
        return any(value == one and type(value) is type(one) for one in schema["enum"])
    if "type" not in schema:
        return True
    named = schema["type"]
    names = [named] if isinstance(named, str) else named
    if isinstance(value, bool):  # in Python a subclass of int
        return "boolean" in names
    return any(isinstance(value, _VALUES[name]) for name in names)


_NO_DIGEST = "0" * 64


class RequestMaker:
    """Base of the clients: builds the requests of one agent."""

    @property
    def agent(self) -> str:
        """The name of the agent that makes the requests."""
        raise NotImplementedError

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
        call_id: str | None = None,
        part: str | None = None,
        group: str | None = None,
        roles: Mapping[str, str] | None = None,
        harmless: bool = False,
        human: bool = False,
        read_only: bool = False,
    ) -> ApprovalRequest:
        """Return a request with its digest. Nothing is sent: pass it to `send` or `outcome`.

        Without `id` the request gets a new id. `call_id` is the framework's id of the call, and
        `part` distinguishes several requests about one call. With a `call_id`, the id is derived
        from agent, session, call, part and content. So a retried call finds its earlier request,
        and its approval runs it only once. A call with the same `call_id` but other content
        supersedes the earlier request. `session`, `turn` and `origin` come from the context by
        default. `context` is where the call runs, by default the folder and host of this process.

        `files` are bound with their content: if a bound file, or a link on its path, changes before
        the run, the client rejects the approval. `timeout` is in seconds. None means the timeout of
        the route, 0 means the maximum of 30 days. See `requires_approval` for `roles`, `harmless`,
        `human` and `read_only`. Raises InvalidRequest if a value or a file cannot be used.
        """
        check_roles(roles or {})
        draft = ApprovalRequest(
            id=id or new_id(), agent=self.agent, tool=tool, arguments=dict(arguments),
            digest=_NO_DIGEST, kind=kind, session=session or current_session.get(),
            turn=current_turn.get() if turn is None else turn, hint=hint, preview=preview,
            payload=payload, context=_where(context, files), origin=_from(origin, call_id),
            questions=tuple(questions), schema=schema, allowed=tuple(allowed), risk=risk,
            timeout=timeout, roles={name: str(role) for name, role in (roles or {}).items()},
            harmless=harmless, human=human, call_id=call_id, part=part, group=group,
            read_only=read_only,
        )  # fmt: skip
        whole = replace(draft, digest=digest_of(draft))
        if call_id is None:
            return whole
        if id is not None:
            raise InvalidRequest("give the request either an id or a call_id, not both")
        return replace(whole, id=id_of_call(whole))


def _from(origin: Origin | None, call_id: str | None) -> Origin:
    """Return the origin of a request, with the framework's id of its call."""
    source = origin_of(origin)
    return source if source.tool_call_id else replace(source, tool_call_id=call_id)


def _where(context: Context | None, files: Sequence[str]) -> Context:
    """Return the place where the call would run, with the hashes of the bound files."""
    where = context or _here()
    return replace(where, files={**where.files, **hash_files(files)}) if files else where


def _here() -> Context:
    return Context(cwd=os.getcwd(), host=socket.gethostname())  # noqa: PTH109 (`pathlib` costs 4 ms)


# Sends several requests at once and waits for all of them. An abort cancels the rest.

_STOPPED = "cancelled: the decision on another request of this batch stopped the turn"

Send = Callable[[ApprovalRequest], Awaitable[Approval]]
Refuse = Callable[[ApprovalRequest], Awaitable[None]]


async def ask_all(requests: Sequence[ApprovalRequest], send: Send, refuse: Refuse) -> list[Outcome]:
    """Send all requests at the same time, and return their outcomes in order.

    An abort cancels the pending requests. If a pending request was approved meanwhile, `refuse` is
    called with its approval. An exception that is not an outcome cancels the requests too, and is
    raised.
    """
    tasks = [asyncio.create_task(outcome_of(send(one))) for one in requests]
    waiting = set(tasks)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(one.result().abort for one in done):
                break
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # also for tasks that failed meanwhile
    pairs = zip(requests, tasks, strict=True)
    return [
        await _last_word(request, task, refuse) if task in waiting else task.result()
        for request, task in pairs
    ]


async def _last_word(
    request: ApprovalRequest, task: asyncio.Task[Outcome], refuse: Refuse
) -> Outcome:
    """Return the outcome of a cancelled request. An outcome that arrived before the cancellation
    counts, unless it is an approval."""
    if task.cancelled() or task.exception() is not None:
        return withdrawn(_STOPPED)
    outcome = task.result()
    if outcome.approval is None:
        return outcome
    await refuse(request)
    return withdrawn(_STOPPED)


# Messages that the gateway must still get: cancelled requests, and reports on actions.

GOODBYE_SECONDS = 1.0
"""How long a caller waits for its last messages. The rest is sent in the background."""

_REPORT_SECONDS = 3.0  # a report delays an action, or a process that ends after it
_GRACE_SECONDS = 30.0  # a message on its way may start its request that much later


class Withdrawal:
    """The cancellation of one request. `sent` is set when the gateway has received the
    cancellation, or when the attempts end. `task` returns the final state, None if the gateway does
    not send one."""

    def __init__(self, sent: asyncio.Event, task: asyncio.Task[State | None]) -> None:
        self.sent = sent
        self.task = task


class ReportQueue:
    """Send cancellations and reports in the background, as soon as the gateway can be reached."""

    def __init__(self, transport: Transport, reach: RetryingTransport) -> None:
        self._transport = transport
        self._reach = reach
        self._withdrawals: dict[str, Withdrawal] = {}
        self._reports: set[asyncio.Task[None]] = set()

    def withdraw(self, request_id: str, until: float) -> Withdrawal:
        """Cancel a request whose deadline is `until`. If it was approved meanwhile and nobody
        claimed the approval, report the approval as refused."""
        known = self._withdrawals.get(request_id)
        if known is not None:
            return known
        sent = asyncio.Event()
        task = asyncio.create_task(self._withdraw(request_id, until, sent))
        made = self._withdrawals[request_id] = Withdrawal(sent, task)
        task.add_done_callback(lambda _: self._withdrawals.pop(request_id, None))
        return made

    async def report(self, request_id: str, report: Report, until: float) -> None:
        """Report the result of an action. Returns after a few seconds at most; a slow report
        continues in the background. Raises GatewayError if the report fails within these
        seconds."""
        send = partial(self._transport.report, request_id, report)
        task = asyncio.create_task(self._reach.repeat(send, until=until))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)
        done: set[asyncio.Task[None]] = set()
        try:
            done, _ = await asyncio.wait({task}, timeout=_REPORT_SECONDS)
        finally:
            if not done:
                task.add_done_callback(_log_report)
        if done:
            task.result()

    async def close(self, waiting: Iterable[str]) -> None:
        """Cancel the `waiting` requests, and try for a short time to send the queued messages."""
        now = asyncio.get_running_loop().time()
        for request_id in waiting:
            self.withdraw(request_id, now)
        leaving = [asyncio.create_task(one.sent.wait()) for one in self._withdrawals.values()]
        if leaving or self._reports:
            await asyncio.wait({*leaving, *self._reports}, timeout=GOODBYE_SECONDS)
        looks = [one.task for one in self._withdrawals.values()]
        late = [name for name, one in self._withdrawals.items() if not one.sent.is_set()]
        for task in (*leaving, *self._reports, *looks):
            task.cancel()
        await asyncio.gather(*leaving, *self._reports, *looks, return_exceptions=True)
        if late:
            log.warning(
                "could not cancel a request, since the gateway does not respond: %s",
                ", ".join(late),
                extra={"event": "abandon_failed"},
            )

    async def _withdraw(self, request_id: str, until: float, sent: asyncio.Event) -> State | None:
        loop, wait = asyncio.get_running_loop(), self._transport.wait
        cancel = partial(self._transport.cancel, request_id, reason=Reason.ABANDONED, message="")
        try:
            until = max(until, loop.time()) + _GRACE_SECONDS
            await self._reach.repeat(cancel, until=until, patient=True)
            sent.set()
            # Wait for as long as the state may be reported: a reconnect takes a while.
            state = await wait(request_id, until=max(until, loop.time() + GOODBYE_SECONDS))
            await self._refuse_late(state)
        except GatewayError as error:
            log.info("not cancelled: %s", error, extra={"event": "abandon_failed"})
            return None
        except TimeoutError:
            return None
        finally:
            sent.set()
        return state

    async def _refuse_late(self, state: State) -> None:
        """Report an approval that came after the cancellation, unless somebody claimed it."""
        if state.status is not Status.APPROVED or state.decision is None or state.may_have_run:
            return
        if self._transport.process.take(state.id):
            await self._transport.report(state.id, Report(execution=Execution.REFUSED_LATE))


def _log_report(task: asyncio.Task[None]) -> None:
    """Log the failure of a report that was sent in the background."""
    error = "the client was closed" if task.cancelled() else task.exception()
    if error:
        log.warning("not reported: %s", error, extra={"event": "report_failed"})


log = logging.getLogger("gateway.client")

DEFAULT_TIMEOUT = 900.0
"""Seconds that an agent waits if it sets no timeout and the gateway has not sent one yet."""

MARGIN_SECONDS = 0.5
"""The client's deadline is this much later than the gateway's. It rejects later approvals."""

_POSTING_SECONDS = 2.0  # by then most cards are posted
_MOMENT_SECONDS = 0.3  # a rule or a grant decides sooner
_NO_DEADLINE = 30 * 24 * 3600.0
# More than the gateway keeps, so that a secret at the end arrives whole and can be masked.
_MOST_DETAIL = 15_000

OnEvent = Callable[[str, ApprovalRequest, Decision | None], None]


class AsyncClient(RequestMaker):
    """Ask the gateway for approvals. Use it inside `async with`, in one event loop.

    `public_key` pins the gateway's key: unsigned or wrongly signed decisions raise Unverified.
    `on_event(event, request, decision)` is called with `confirmation_required` before the wait and
    `decided` after it. If `on_event` raises, the request is cancelled or its approval stays unused,
    and the caller gets the exception.

    If the gateway does not answer, a call is repeated for `connect_timeout` seconds. After the
    gateway's first answer, a call is repeated until the deadline of its request. `say` gets
    sentences for a person at the terminal, such as where to decide a request. By default the
    sentences go to standard error; None turns them off.
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
        self._say = transport.numbers.say = say or say_nothing
        self._connect_timeout = connect_timeout
        self._reach = RetryingTransport(connect_timeout, self._say)
        self._unsent = ReportQueue(transport, self._reach)
        self._asked: Counter[str] = Counter()
        self._closed = False
        self._withdraws = True

    @classmethod
    def from_env(
        cls,
        agent: str | None = None,
        *,
        on_event: OnEvent | None = None,
        say: Say | None = say_on_stderr,
    ) -> AsyncClient:
        """Return a client for the gateway in the environment variables, or the one on this machine.

        `agent` is the name to ask as, by default `GATEWAY_AGENT`, else `local`. See the class for
        `on_event` and `say`. Blocks while it looks for a gateway. Raises Unreachable if there is no
        gateway, Unauthorized or Conflict if the gateway rejects the agent, InvalidRequest for a bad
        setting.
        """
        found = config.load_patiently(agent, say or say_nothing)
        return cls(
            transport_for(found),
            public_key=found.public_key,
            on_event=on_event,
            connect_timeout=found.connect_timeout,
            say=say,
        )

    async def __aenter__(self) -> AsyncClient:
        """Start the transport, and return this client."""
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Cancel pending requests, and disconnect."""
        await self.close()

    async def close(self, *, withdraw: bool = True) -> None:
        """Disconnect, and cancel pending requests. If the argument is False, the requests stay
        pending.

        Another process can then wait for the pending requests with `wait_id`. For a request that
        this process was waiting for, pass `rerun=True`, because this process owns the approval.
        """
        if self._closed:
            return
        self._closed = True
        self._withdraws = withdraw
        await self._unsent.close(list(self._asked) if withdraw else ())
        self._reach.close()
        await self._transport.__aexit__(None, None, None)

    def leave_waiting(self, leave: bool) -> None:
        """Set whether a request stays pending when the wait for it ends early. Otherwise it is
        cancelled."""
        self._withdraws = not leave

    @property
    def agent(self) -> str:
        """The name of the agent for which this client makes requests."""
        return self._transport.agent

    async def ask(self, /, tool: str, arguments: Mapping[str, Any], **details: Any) -> Approval:
        """Ask for an approval, wait for the decision, and return the approval.

        `tool` and `arguments` are the call, `details` are further keywords of `request`. Run
        exactly the `arguments` of the returned approval, once. After an exception, run nothing.
        Raises Denied, Aborted, Expired, Cancelled, OverBudget, Unreachable or Unverified, and
        AlreadyUsed for an `id` whose approval was used before. Raises InvalidRequest for a mistake
        in the request, Unauthorized for a rejected credential.
        """
        return await self.send(self.request(tool, arguments, **details))

    async def outcome(self, request: ApprovalRequest) -> Outcome:
        """Submit a request, wait, and return how it ended. A denial is also returned, not raised.

        An exception is raised only if there is no outcome: InvalidRequest for a mistake in the
        request, Unauthorized or NotFound for a rejected credential. After an exception, run
        nothing.
        """
        return await outcome_of(self.send(request))

    async def asks(self, *requests: ApprovalRequest, group: str | None = None) -> list[Outcome]:
        """Submit several requests as one batch, wait for all, and return their outcomes in order.

        If a person aborts one request, the pending requests are cancelled. `group` is the name of
        the batch, by default a new name. Raises as `outcome` does. Raises InvalidRequest for two
        requests about one call, because the second would supersede the first, or use up its
        approval.
        """
        calls = [
            (one.session, one.call_id, one.part) if one.call_id else one.id for one in requests
        ]
        if len(set(calls)) < len(calls):
            raise InvalidRequest(
                "two of these requests are for the same call, so nobody was asked: give each "
                "request a different call_id, part or id"
            )
        name, turns = group or new_id(), asyncio.Lock()  # cards come in the order of the calls
        grouped = [replace(one, group=name) for one in requests]
        return await ask_all(grouped, partial(self._send, turns=turns), self._skip)

    async def _skip(self, request: ApprovalRequest) -> None:
        await self.report(request, Execution.SKIPPED, detail="the turn was stopped")

    async def plan(
        self, /, calls: Sequence[PlannedCall], *, minutes: int = 60, **details: Any
    ) -> Approval:
        """Ask a person to approve a list of planned calls, wait, and return the approval.

        `arguments["calls"]` of the approval lists the approved calls: a person may remove some.
        Each approved call then runs without further approval, up to its `times`, in this session,
        for `minutes` (at most 480). `details` are keywords of `request`. Raises as `ask` does, and
        raises InvalidRequest for a call that cannot be planned.
        """
        listed = {"calls": [plain(one) for one in calls], "minutes": minutes}
        allowed = (Action.APPROVE, Action.EDIT, Action.DENY)
        return await self.ask("plan", listed, kind=Kind.CALLS, allowed=allowed, **details)

    async def question(self, /, text: str, *fields: Question, **details: Any) -> JsonObject:
        """Ask a person to fill in `fields`, wait, and return the answers by field id.

        `text` is the question. Without `fields`, the person types one text, and its id is `answer`.
        `details` are keywords of `request`. Raises as `ask` does.
        """
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
        """Submit a request without waiting. Pass the returned Pending to `wait`, in any process.

        Raises GatewayError if the gateway rejects the request or does not answer.
        """
        await self._submit(request, _until(request), asyncio.Lock(), detached=True)
        await self._tell("confirmation_required", request, None)
        return Pending(request)

    async def send(self, request: ApprovalRequest) -> Approval:
        """Submit a request, wait, and return the approval. Raises as `ask` does.

        A request that was submitted before is not submitted again. Its approval can be used only
        once.
        """
        return await self._send(request, asyncio.Lock())

    async def _send(self, request: ApprovalRequest, turns: asyncio.Lock) -> Approval:
        async with self._asking(request) as own:
            until = await self._begin(request, own, turns)
            return await self._end(request, until)

    async def stream(self, request: ApprovalRequest) -> AsyncGenerator[Event, None]:
        """Submit a request; yield an Event before the wait, and an Event with the approval after
        it.

        Raises as `ask` does. Closing the generator early cancels the request. Use
        `contextlib.aclosing` to close it when you leave the loop.
        """
        async with self._asking(request) as own:
            until = await self._begin(request, own, asyncio.Lock())
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
        """Wait up to `timeout` seconds for a request that any process submitted before.

        Returns the approval. Raises as `ask` does, and Pending if there is no decision yet. Raises
        AlreadyUsed if a process has used the approval. With `rerun=True`, returns it, so that the
        call can run again.
        """
        request = pending.request if isinstance(pending, Pending) else pending
        until = asyncio.get_running_loop().time() + timeout
        try:
            state = await self._wait_for_end(request, until)
        except TimeoutError:
            raise Pending(request) from None
        state = await self._consume(state, until)
        return await self._settle(request, state, until=until + _NO_DEADLINE, rerun=rerun)

    def words_of_number(self, request: ApprovalRequest) -> str:
        """Return the line that shows a pending request's verification code to the person at the
        agent, or "" if the request has no code."""
        return self._transport.numbers.words_of(request.id)

    async def fetch(self, request_id: str) -> State:
        """Return the current state of a request of this agent, with its `record`.

        Does not wait, and does not claim an approval. Can be called in any process. Raises NotFound
        if this agent has no such request, Unreachable or Unauthorized as `ask` does."""
        until = asyncio.get_running_loop().time() + self._connect_timeout
        state = await self._reach.repeat(partial(self._transport.fetch, request_id), until=until)
        if state.id != request_id or state.record is None or state.record.request.id != request_id:
            raise Unverified(f"the gateway's reply is not about the request {request_id}")
        return state

    async def wait_id(
        self, request_id: str, *, timeout: float = DEFAULT_TIMEOUT, rerun: bool = False
    ) -> Approval:
        """Wait for a request by its id, in any process. See `wait` for the arguments and errors.

        With `timeout=0`, does not wait: returns if the request is decided, otherwise raises
        Pending.
        """
        state = await self.fetch(request_id)
        assert state.record is not None  # `fetch` checks that
        enough = timeout if state.status is Status.PENDING else DEFAULT_TIMEOUT
        return await self.wait(state.record.request, timeout=enough, rerun=rerun)

    async def report(
        self,
        request: ApprovalRequest,
        execution: Execution,
        *,
        duration_ms: int | None = None,
        detail: str = "",
    ) -> None:
        """Report the result of an approved action. If the report fails, the error is logged, never
        raised.

        `execution` is how the action ended, `duration_ms` how long it ran, `detail` what went
        wrong.
        """
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
        """Cancel a pending request, with a `reason` for machines and a `message` for people.

        Raises GatewayError if the gateway rejects the call or does not answer.
        """
        cancel = partial(self._transport.cancel, request.id, reason=reason, message=message)
        await self._reach.repeat(cancel, until=_until(request))

    async def end_session(self, session: str | None = None) -> None:
        """End a session, by default the current one, and cancel its pending requests.

        Raises GatewayError if the gateway rejects the call or does not answer.
        """
        await self._transport.end_session(session or current_session.get())

    @asynccontextmanager
    async def _asking(self, request: ApprovalRequest) -> AsyncIterator[float]:
        """Yield the time when the wait for a request ends. If the block ends before the gateway has
        sent a decision, cancel the request."""
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

    async def _begin(self, request: ApprovalRequest, until: float, turns: asyncio.Lock) -> float:
        """Submit a request; return the time when the wait for it ends. If the request has no
        timeout, the gateway sends one."""
        await self._submit(request, until, turns, detached=False)
        await self._tell("confirmation_required", request, None)
        if request.timeout is not None:
            return until
        try:
            async with asyncio.timeout_at(until):
                told = await self._transport.deadline(request.id)
        except TimeoutError:
            return until
        return until if told is None else told + MARGIN_SECONDS

    async def _submit(
        self, request: ApprovalRequest, until: float, turns: asyncio.Lock, *, detached: bool
    ) -> None:
        """Submit a request, and repeat that until it arrives. A repetition carries the remaining
        time. Requests that share `turns` are sent one after another."""
        clock = asyncio.get_running_loop().time
        began, tries = clock(), count(1)

        async def submit() -> None:
            left = request if next(tries) == 1 else aged(request, clock() - began)
            async with turns:
                await self._transport.submit(left, detached=detached)

        await self._reach.repeat(submit, until=until)

    async def _wait_for_end(self, request: ApprovalRequest, until: float) -> State:
        """Return the final state of a request. After a short time without a decision, print where
        to decide the request. Raises TimeoutError at `until`."""
        saying = asyncio.create_task(self._say_places(request))
        try:
            return await self._transport.wait(request.id, until=until)
        finally:
            saying.cancel()

    async def _say_places(self, request: ApprovalRequest) -> None:
        """Tell the person at the terminal where to decide a request, and then which chats have its
        cards."""
        await asyncio.sleep(_MOMENT_SECONDS)
        self.say_where(request)
        if self._say is say_nothing or not self._transport.inbox:
            return  # over Redis, thousands of waits would each add a message to a busy stream
        await asyncio.sleep(_POSTING_SECONDS)
        with suppress(GatewayError):
            state = await self._transport.fetch(request.id)
            for line in say_cards(state.record and state.record.messages, request.tool):
                self._say(line)

    def say_where(self, request: ApprovalRequest) -> None:
        """Tell the person at the terminal where to decide a pending request."""
        inbox = self._transport.inbox
        if inbox is None:
            return
        where = f"at {inbox}/r/{request.id}" if inbox else "in the inbox"
        # Quoted for the terminal, since a model may have chosen the name.
        self._say(
            f"waiting for approval of {request.tool!r}: answer {where}, "
            f"or where the gateway runs: gateway approve {request.id}"
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
        """Cancel a request after its deadline, and raise Expired. If the request was decided
        meanwhile, return that state, so that the agent's result agrees with the record."""
        withdrawal = self._unsent.withdraw(request.id, until)
        done, _ = await asyncio.wait({withdrawal.task}, timeout=GOODBYE_SECONDS)
        state = withdrawal.task.result() if done else None
        decision = state.decision if state else None
        if state is None or decision is None or decision.reason is Reason.ABANDONED:
            raise Expired(local_expiry(request))
        if state.status is Status.APPROVED:  # already reported as refused
            raise Expired(local_expiry(request))
        return state

    async def _consume(self, state: State, until: float) -> State:
        """Return the state with its decision. Claims the approval if no process has claimed it."""
        if state.status is not Status.APPROVED or state.decision is not None:
            return state
        try:
            return await self._reach.repeat(partial(self._transport.consume, state.id), until=until)
        except Used:
            raise Cancelled(local_withdrawal(state)) from None

    async def _settle(
        self, request: ApprovalRequest, state: State, *, until: float, rerun: bool
    ) -> Approval:
        decision = state.decision
        if decision is None or state.id != request.id or decision.request_id != request.id:
            raise Unverified(f"the gateway's reply is not about the request {request.id}")
        if decision.status is not Status.APPROVED:
            await self._tell("decided", request, decision)
            raise exception_for(decision)
        # Claimed before the next await, so that only one of several tasks gets it.
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
            raise Unverified(f"the request does not allow the decision {decision.action}")
        if request.digest != digest_of(request):
            raise Unverified("the request was changed after it was submitted")
        edited = decision.arguments
        if edited is not None and decision.action is not Action.EDIT:
            raise Unverified("the decision changes the arguments, but it is not an edit")
        rule = decision.host_rule
        if rule is not None and (
            decision.action is not Action.APPROVE or rule not in request.host_rules
        ):
            raise Unverified("the decision names a host rule that the request did not offer")
        expected = request.digest if edited is None else digest_of(request, edited)
        if decision.digest != expected:
            raise Unverified("the decision is for different arguments from those that would run")
        check_files(request.context.files)

    async def _abandon(self, request: ApprovalRequest, until: float) -> None:
        """Cancel a request that no caller waits for any more. If the gateway does not answer, the
        cancellation continues in the background."""
        if self._reach.closed or not self._withdraws:  # `close` cancels it, or leaves it pending
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
        """Call `on_event`. If `on_event` raises, nothing will run: a pending request is cancelled,
        and an approval that is `ours` is reported as skipped."""
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
    """Log a GatewayError raised in the block, because a failed report must not fail the action."""
    try:
        yield
    except GatewayError as error:
        log.warning("not reported: %s", error, extra={"event": "report_failed"})


def _until(request: ApprovalRequest) -> float:
    """Return the time when the client stops waiting, in seconds of the loop's clock."""
    now = asyncio.get_running_loop().time()
    seconds = DEFAULT_TIMEOUT if request.timeout is None else request.timeout
    return now + (seconds or _NO_DEADLINE) + MARGIN_SECONDS


def transport_for(found: config.AgentConfig) -> Transport:
    """Return the transport for a configuration: Redis if it has a Redis URL and redis-py is
    installed, else HTTP. Raises InvalidRequest if a setting is missing."""
    if found.redis_url and config.is_installed("redis"):
        from gateway.client.redis_transport import RedisTransport  # noqa: PLC0415 (costs 100 ms)

        inbox = inbox_at(found.url) if found.url else ""
        return RedisTransport(found.redis_url, found.agent, found.namespace, inbox=inbox)
    if found.redis_url and not (found.url and found.token):
        raise InvalidRequest(
            "GATEWAY_REDIS_URL needs redis-py: install approval-gateway-agent[redis], or set "
            "GATEWAY_URL and GATEWAY_TOKEN to use HTTP"
        )
    if found.url and not found.token:
        raise InvalidRequest(
            f"no token for the gateway at {found.url}: set GATEWAY_TOKEN, which "
            f"`gateway agent add {found.agent}` prints"
        )
    from gateway.client.http_transport import HttpTransport  # noqa: PLC0415 (only when used)

    return HttpTransport(found.url or "", found.token or "", found.agent)
