"""Shared code of the framework adapters: turn tool calls into requests. Start at FrameworkGate.

The calls of one turn form one batch. A denial becomes a sentence for the model; only an abort
raises an exception. A paused run finds its requests again by the ids of its calls. So only an
approved call runs, and only once, even if a saved state has been changed.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gateway.client import AsyncClient, Client, Outcome, OutcomeKind, session_name
from gateway.client.approval import ended, outcome_of
from gateway.client.blocking_client import current_client
from gateway.client.config import Backoff
from gateway.client.context import DEFAULT_SESSION, current_session
from gateway.client.gate import ALLOWED
from gateway.errors import Aborted, Conflict, InvalidRequest, NotFound, OverBudget, Unreachable
from gateway.models import Action, ApprovalRequest, Context, Kind, Origin, State, Status, new_id
from gateway.wire.canonical_json import is_unique
from gateway.wire.codec import JsonObject

UNEDITED = tuple(one for one in ALLOWED if one is not Action.EDIT)
"""The actions for frameworks that cannot run a call with other arguments."""
_LONGEST_PAUSE = 1.0
_NAME_CHARS = 12
_SAID = ("call_id", "kind", "allowed", "schema")
_WORDS = {
    OutcomeKind.EXPIRED: "nobody answered in time, so the call is neither approved nor denied",
    OutcomeKind.UNREACHABLE: "the approval gateway does not respond, so nobody could approve the "
    "call",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkCall:
    """A call that a framework is about to make. `call_id` is the framework's id. If the id does not
    look unique, the gate ignores it and makes a new request, except in a paused run."""

    tool: str
    arguments: Any
    call_id: str | None = None
    hint: str = ""
    kind: Kind = Kind.TOOL
    allowed: tuple[Action, ...] = ALLOWED
    schema: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class PausedRun:
    """A run that waits for people. It has the pending `request_ids`, the `state` that the framework
    needs to continue, and the `session` of the requests."""

    request_ids: list[str]
    state: Any
    session: str | None = None

    def to_json(self) -> str:
        """Return this run as a JSON string, so that the caller can save it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PausedRun:
        """Return the run that `to_json` saved, in any process."""
        return cls(**json.loads(text))


class FrameworkGate:
    """Ask for approvals of one framework's calls. `details` are keywords of `client.request`."""

    def __init__(self, package: str, client: Client | None, details: dict[str, Any]) -> None:
        try:
            named = f"{package} {version(package)}"
        except PackageNotFoundError:
            named = package
        self._origin, self._client, self._details = Origin(framework=named), client, details
        self._host = package.removesuffix("-core").removesuffix("-slim")
        self._session = new_session()  # for calls of frameworks without sessions

    async def ask(
        self, calls: Sequence[FrameworkCall], session: str | None = None
    ) -> list[Outcome]:
        """Submit calls as one batch, wait, and return their outcomes in order. Raises Aborted if a
        person aborts, and GatewayError if there is no outcome, such as for an unknown token."""
        try:
            client = self._client or current_client(self._host)
        except Unreachable as error:
            return [ended(error) for _ in calls]
        requests = self._requests(client, calls, session)
        answers = await client.run_on_loop(_ask_all(client.inner, _sendable(requests)))
        return _raise_abort(_merge(requests, answers))

    def ask_blocking(
        self, calls: Sequence[FrameworkCall], session: str | None = None
    ) -> list[Outcome]:
        """Submit calls and wait as `ask` does, but block this thread."""
        try:
            client = self._client or current_client(self._host)
        except Unreachable as error:
            return [ended(error) for _ in calls]
        requests = self._requests(client, calls, session)
        answers = client.wait_for_result(client.start(_ask_all(client.inner, _sendable(requests))))
        return _raise_abort(_merge(requests, answers))

    async def settle(
        self,
        calls: Sequence[FrameworkCall],
        session: str | None,
        state: Any,
        *,
        timeout: float = 0.0,
    ) -> list[Outcome] | PausedRun:
        """Submit calls as one batch, and return their outcomes once all are decided.

        Call this in any process, as often as you like. If a decision is missing after `timeout`
        seconds, or the gateway does not answer, return a PausedRun with `state` and claim nothing.
        Raises as `ask` does. Each approval can be claimed only once; after that, the outcome is
        `already_used`.
        """
        try:
            client = self._client or current_client(self._host)
        except Unreachable:  # nobody was asked yet: the resuming process submits the calls
            return PausedRun([], state, session)
        requests = self._requests(client, calls, session, paused=True)
        asked = _sendable(requests)
        if not await client.run_on_loop(_await_all(client.inner, asked, timeout)):
            return PausedRun([one.id for one in asked], state, session)
        return _merge(requests, await client.run_on_loop(_take(client.inner, asked)))

    def _requests(
        self,
        client: Client,
        calls: Sequence[FrameworkCall],
        session: str | None,
        *,
        paused: bool = False,
    ) -> list[ApprovalRequest | Outcome]:
        """Return the request of each call, or an outcome if the call cannot be shown to people.

        A `paused` run finds its requests again by the ids of its calls, in any process. In other
        runs, an id that a later call could repeat is ignored.
        """
        own = None if paused else self._session  # another process would not find it again
        name = session_name(session) if session else session_of_run(own or DEFAULT_SESSION)
        known = calls if paused else [_forget_number(call) for call in calls]
        group = known[0].call_id if len(known) > 1 else None
        details = {"session": name, "origin": self._origin, **self._details}
        if paused:  # without a place, since any process may continue the run
            details = {"context": Context(), **details}
        if group is not None:  # the same group in each process
            details["group"] = session_name(group)
        named = Counter(call.call_id for call in calls if call.call_id)
        return [
            _refuse("another call in this turn has the same id")  # frameworks would mix them up
            if named[said.call_id or ""] > 1
            else _request(client, call, details)
            for said, call in zip(calls, known, strict=True)
        ]


def new_session() -> str:
    """Return a new, unique session name."""
    return f"run-{new_id()[:_NAME_CHARS]}"


def session_of_run(own: str | None = None) -> str:
    """Return the session of a run: the context's session, else `own`, else a new session. A denial
    or session pass in a new session does not apply to the next run."""
    known = current_session.get()
    return known if known != DEFAULT_SESSION else own or new_session()


def tell(tool: str, outcome: Outcome) -> str:
    """Return the text for the model about a call that does not run: a person's result, or the
    reason."""
    if outcome.kind is OutcomeKind.RESPONDED:
        result = outcome.result
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return f"{tool} was not run: {_WORDS.get(outcome.kind, outcome.message)}"


def name_decider(outcome: Outcome) -> str:
    """Return the name of the person, grant or rule that decided, else "gateway"."""
    return outcome.decision.decided_by.name if outcome.decision else "gateway"


def _forget_number(call: FrameworkCall) -> FrameworkCall:
    known = call.call_id is not None and is_unique(call.call_id, call.tool)
    return call if known else replace(call, call_id=None)


def _request(
    client: Client, call: FrameworkCall, details: dict[str, Any]
) -> ApprovalRequest | Outcome:
    try:
        said = {name: getattr(call, name) for name in _SAID}
        hint = {"hint": call.hint} if call.hint else {}
        return client.request(call.tool, call.arguments, **{**said, **hint, **details})
    except (InvalidRequest, TypeError, ValueError) as error:
        return _refuse(f"the call cannot be shown to anybody ({error})")


def _refuse(words: str) -> Outcome:
    return Outcome(kind=OutcomeKind.DENIED, message=words)


def _sendable(requests: Sequence[ApprovalRequest | Outcome]) -> list[ApprovalRequest]:
    return [one for one in requests if isinstance(one, ApprovalRequest)]


def _merge(
    requests: Sequence[ApprovalRequest | Outcome], answers: Sequence[Outcome]
) -> list[Outcome]:
    """Return the outcome of each call in order. `answers` are the outcomes of submitted calls."""
    left = iter(answers)
    return [one if isinstance(one, Outcome) else next(left) for one in requests]


def _raise_abort(outcomes: list[Outcome]) -> list[Outcome]:
    for one in outcomes:
        if one.abort and one.decision:
            raise Aborted(one.decision)
    return outcomes


async def _ask_all(client: AsyncClient, requests: list[ApprovalRequest]) -> list[Outcome]:
    if len(requests) == 1:
        return [await client.outcome(requests[0])]
    return await client.asks(*requests, group=requests[0].group if requests else None)


async def _await_all(client: AsyncClient, requests: list[ApprovalRequest], timeout: float) -> bool:
    """Submit requests that the gateway does not know, and return whether all are decided in time.
    If a person aborts, cancel the pending requests and raise Aborted."""
    clock, backoff = asyncio.get_running_loop().time, Backoff()
    until = clock() + timeout
    while True:
        try:
            states = [await _find(client, one) for one in requests]
        except (Unreachable, OverBudget):
            states = None
        await _stop_where_aborted(client, requests, states or [])
        if states is not None and all(one.status is not Status.PENDING for one in states):
            return True
        if clock() >= until:
            for request, state in zip(requests, states or (), strict=False):
                if state.status is Status.PENDING:
                    client.say_where(request)
            return False
        await asyncio.sleep(min(backoff.pause(), _LONGEST_PAUSE))


async def _find(client: AsyncClient, request: ApprovalRequest) -> State:
    try:
        return await client.fetch(request.id)
    except NotFound:
        await client.submit(request)
        return await client.fetch(request.id)


async def _stop_where_aborted(
    client: AsyncClient, requests: list[ApprovalRequest], states: list[State]
) -> None:
    """If a person aborts, cancel the pending requests and raise Aborted."""
    aborts = (one.decision for one in states if one.decision and one.decision.abort)
    if (decision := next(aborts, None)) is None:
        return
    for request, state in zip(requests, states, strict=True):
        if state.status is Status.PENDING:
            await client.cancel(request)
    raise Aborted(decision)


async def _take(client: AsyncClient, requests: list[ApprovalRequest]) -> list[Outcome]:
    """Claim the approvals of decided requests, one after the other. If two processes call this, the
    second one finds that the first approval is already used."""
    return [await _take_one(client, one) for one in requests]


async def _take_one(client: AsyncClient, request: ApprovalRequest) -> Outcome:
    try:
        return await outcome_of(client.wait(request))
    except Conflict as error:  # after its deadline, or with the kill switch on
        return Outcome(kind=OutcomeKind.CANCELLED, message=str(error))


# Collects the parallel calls of one turn into one batch.
#
# All calls of a batch wait for each other, and an abort of one stops the others. Some tools are not
# gated, so the number of calls is not certain. A call that arrives after a moment is submitted
# separately.

_MOMENT = 0.25
"""Seconds that the first call of a turn waits for the others."""

AT_ONCE = 0
"""The size of a turn with an unknown number of calls that all start at once."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of a call: a unique `name`, and its `size`, the number of calls."""

    name: Hashable
    size: int


ALONE = Turn(None, 1)
"""The turn of a single call."""


class TurnGate:
    """Ask for approvals of parallel calls on one event loop."""

    def __init__(self, gate: FrameworkGate) -> None:
        self._gate = gate
        self._open: dict[Hashable, _Batch] = {}

    async def ask(self, call: FrameworkCall, turn: Turn, session: str | None = None) -> Outcome:
        """Submit a call in one batch with the other calls of its turn, wait, and return its
        outcome. Raises as `FrameworkGate.ask` does."""
        if turn.size == 1:
            [outcome] = await self._gate.ask([call], session)
            return outcome
        batch = self._open.get(turn.name) or self._begin(turn, session)
        batch.calls.append(call)
        number = len(batch.calls) - 1
        if len(batch.calls) == turn.size:
            batch.full.set()
        outcomes = await batch.wait_for_outcomes()
        return outcomes[number]

    def _begin(self, turn: Turn, session: str | None) -> _Batch:
        batch = self._open[turn.name] = _Batch()
        batch.asking = asyncio.ensure_future(self._ask_batch(batch, turn, session))
        batch.asking.add_done_callback(lambda _: self._close(turn, batch))
        return batch

    async def _ask_batch(self, batch: _Batch, turn: Turn, session: str | None) -> list[Outcome]:
        if turn.size == AT_ONCE:
            await asyncio.sleep(0)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(_MOMENT):
                    await batch.full.wait()
        self._close(turn, batch)
        return await self._gate.ask(batch.calls, session)

    def _close(self, turn: Turn, batch: _Batch) -> None:
        if self._open.get(turn.name) is batch:
            del self._open[turn.name]


class ThreadTurnGate:
    """Ask for approvals of parallel calls in threads."""

    def __init__(self, gate: FrameworkGate) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        self._open: dict[Hashable, _ThreadBatch] = {}

    def ask(self, call: FrameworkCall, turn: Turn) -> Outcome:
        """Submit a call and wait as `TurnGate.ask` does, but block this thread."""
        if turn.size == 1:
            [outcome] = self._gate.ask_blocking([call])
            return outcome
        with self._lock:
            batch = self._open.setdefault(turn.name, _ThreadBatch())
            batch.calls.append(call)
            number = len(batch.calls) - 1
            if len(batch.calls) == turn.size:
                batch.full.set()
        if number == 0:
            self._ask_batch(batch, turn)
        return batch.outcomes.result()[number]

    def _ask_batch(self, batch: _ThreadBatch, turn: Turn) -> None:
        batch.full.wait(_MOMENT)
        with self._lock:
            del self._open[turn.name]
        try:
            batch.outcomes.set_result(self._gate.ask_blocking(batch.calls))
        except BaseException as error:  # the other threads raise the same error
            batch.outcomes.set_exception(error)


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch of calls on an event loop. `waiting` counts the tasks that wait for the batch."""

    calls: list[FrameworkCall] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)
    asking: asyncio.Future[list[Outcome]] = field(init=False)
    waiting: int = 0

    async def wait_for_outcomes(self) -> list[Outcome]:
        """Wait for all outcomes. If no task waits any longer, cancel the requests."""
        self.waiting += 1
        try:
            return await asyncio.shield(self.asking)
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.asking.cancel()


@dataclass(slots=True, eq=False)
class _ThreadBatch:
    """A batch of calls in threads. The thread of the first call submits it."""

    calls: list[FrameworkCall] = field(default_factory=list)
    full: threading.Event = field(default_factory=threading.Event)
    outcomes: Future[list[Outcome]] = field(default_factory=Future)
