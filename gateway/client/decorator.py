"""Gates functions: they run only what was approved, exactly as it was approved."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar, cast, overload

from gateway.client.client import DEFAULT_TIMEOUT, Approval, AsyncClient
from gateway.client.context import running, running_tool
from gateway.client.sync import Client, current_client
from gateway.errors import Denied, InvalidRequest, Pending
from gateway.models import Action, ApprovalRequest, Execution, Kind, Reason, Risk
from gateway.wire import JsonObject

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Hint = str | Callable[..., str]
Replan = Callable[[JsonObject, str], JsonObject]

ALLOWED = (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """How one function is gated. See `requires_approval`."""

    function: Callable[..., Any]
    tool: str
    kind: Kind
    when: Callable[..., bool] | None
    hint: Hint | None
    risk: Risk | None
    timeout: float
    allowed: tuple[Action, ...]
    replan: Replan | None
    max_rounds: int
    client: Client | None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> JsonObject:
        """Return all arguments by name, positional and default ones included."""
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def of(self, instance: Any) -> Gate:
        """Return the gate of a method of this object, which is not among the arguments shown."""
        return replace(self, function=functools.partial(self.function, instance))

    @property
    def takes_self(self) -> bool:
        """Whether the function is a method: its object is not an argument people decide about."""
        return next(iter(inspect.signature(self.function).parameters), "") == "self"

    def asks(self, arguments: JsonObject) -> bool:
        """Whether this call needs leave."""
        return self.when is None or self.when(**arguments)

    def request(self, client: Client | AsyncClient, arguments: JsonObject) -> ApprovalRequest:
        """Return the request for a call. Raises InvalidRequest for arguments that are not JSON."""
        hint = self.hint(**arguments) if callable(self.hint) else self.hint
        if hint is None:
            hint = (inspect.getdoc(self.function) or "").partition("\n")[0]
        try:
            return client.request(
                self.tool,
                arguments,
                kind=self.kind,
                hint=hint,
                risk=self.risk,
                timeout=self.timeout,
                allowed=self.allowed,
            )
        except InvalidRequest as error:
            raise InvalidRequest(
                f"{self.tool}: its arguments cannot be shown to a person as JSON ({error}); "
                "gate a function that takes plain values"
            ) from error

    def call(self, arguments: JsonObject) -> Any:
        """Call the function with exactly these arguments; InvalidRequest for unknown ones."""
        signature = inspect.signature(self.function)
        if unknown := set(arguments) - set(signature.parameters):
            raise InvalidRequest(f"{self.tool} takes no argument {sorted(unknown)[0]!r}")
        bound = signature.bind_partial()
        bound.arguments.update(arguments)
        return self.function(*bound.args, **bound.kwargs)


@overload
def requires_approval(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def requires_approval(
    *,
    tool: str | None = None,
    kind: Kind = Kind.TOOL,
    when: Callable[..., bool] | None = None,
    hint: Hint | None = None,
    risk: Risk | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    allowed: tuple[Action, ...] = ALLOWED,
    replan: Replan | None = None,
    max_rounds: int = 3,
    client: Client | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def requires_approval(function: Callable[P, R] | None = None, /, **options: Any) -> Any:
    """Let a function run only with leave; for `def` and `async def`.

    The approver sees every argument by name. `when` (called with the arguments) tells which calls
    need leave; `hint` says why, by default the docstring's first line. `timeout` is in seconds. An
    edit changes the arguments that run; `respond` returns the given result instead of running. When
    a person denies with words for the agent, `replan(arguments, words)` may return other arguments
    to
    ask with, `max_rounds` times at most. Raises what `AsyncClient.ask` raises; the function has not
    run then. The client is `client`, else the context's, else the one the environment describes.
    """
    if function is not None:
        return _gated(function)
    return lambda wrapped: _gated(wrapped, **options)


def _gated(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    gate = Gate(
        function=function,
        tool=options.pop("tool", None) or getattr(function, "__qualname__", "tool"),
        **{**_DEFAULTS, **options},
    )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidRequest(f"{gate.tool} is a generator; gate the function that uses it")
    method = gate.takes_self
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def gated_async(*args: Any, **kwargs: Any) -> Any:
            own, args = (gate.of(args[0]), args[1:]) if method else (gate, args)
            arguments = own.bind(args, kwargs)
            return await (_run(own, arguments) if own.asks(arguments) else own.call(arguments))

        gated_async.__gate__ = gate  # type: ignore[attr-defined]
        return gated_async

    @functools.wraps(function)
    def gated(*args: Any, **kwargs: Any) -> Any:
        own, args = (gate.of(args[0]), args[1:]) if method else (gate, args)
        arguments = own.bind(args, kwargs)
        return _run_blocking(own, arguments) if own.asks(arguments) else own.call(arguments)

    gated.__gate__ = gate  # type: ignore[attr-defined]
    return gated


_DEFAULTS: dict[str, Any] = {
    "kind": Kind.TOOL,
    "when": None,
    "hint": None,
    "risk": None,
    "timeout": DEFAULT_TIMEOUT,
    "allowed": ALLOWED,
    "replan": None,
    "max_rounds": 3,
    "client": None,
}


async def _run(gate: Gate, arguments: JsonObject) -> Any:
    client = gate.client or current_client()
    asking = _Asking(gate, arguments)
    while True:
        try:
            approval = await _there(
                client, client.inner.send(gate.request(client, asking.arguments))
            )
            break
        except Denied as refusal:
            asking.again(refusal)
    return await _run_approved(gate, client, approval)


async def _run_approved(gate: Gate, client: Client, approval: Approval) -> Any:
    """Run an approved coroutine function, and report how it went."""
    if approval.decision.action is Action.RESPOND:
        return approval.decision.result
    began = await _report(client, approval, Execution.STARTED)
    try:
        with running(gate.tool):
            result = await cast(Awaitable[Any], gate.call(approval.arguments))
    except BaseException as error:
        await _report(client, approval, Execution.FAILED, began, type(error).__name__)
        raise
    await _report(client, approval, Execution.SUCCEEDED, began)
    return result


def _run_blocking(gate: Gate, arguments: JsonObject) -> Any:
    client = gate.client or current_client()
    asking = _Asking(gate, arguments)
    while True:
        try:
            approval = client.send(gate.request(client, asking.arguments))
            break
        except Denied as refusal:
            asking.again(refusal)
    return run_approved(gate, client, approval)


def run_approved(gate: Gate, client: Client, approval: Approval) -> Any:
    """Run what was approved, and report how it went."""
    if approval.decision.action is Action.RESPOND:
        return approval.decision.result
    began = time.monotonic()
    client.report(approval.request, Execution.STARTED)
    try:
        with running(gate.tool):
            result = gate.call(approval.arguments)
    except BaseException as error:
        client.report(
            approval.request,
            Execution.FAILED,
            duration_ms=_since(began),
            detail=type(error).__name__,
        )
        raise
    client.report(approval.request, Execution.SUCCEEDED, duration_ms=_since(began))
    return result


async def _there(client: Client, work: Coroutine[Any, Any, T]) -> T:
    """Run on the client's loop; cancelling here cancels there."""
    return await asyncio.wrap_future(client.start(work))


async def _report(
    client: Client,
    approval: Approval,
    execution: Execution,
    began: float | None = None,
    detail: str = "",
) -> float:
    duration = None if began is None else _since(began)
    await _there(
        client,
        client.inner.report(approval.request, execution, duration_ms=duration, detail=detail),
    )
    return time.monotonic()


def _since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)


class _Asking:
    """The rounds of one call: a denial with words may lead to another plan."""

    def __init__(self, gate: Gate, arguments: JsonObject) -> None:
        self._gate = gate
        self._left = gate.max_rounds - 1
        self.arguments = arguments

    def again(self, refusal: Denied) -> None:
        """Take the replanned arguments, or raise the refusal."""
        feedback = refusal.decision.reason is Reason.FEEDBACK
        if not feedback or self._gate.replan is None or self._left <= 0:
            raise refusal
        self._left -= 1
        self.arguments = self._gate.replan(self.arguments, refusal.decision.message)


def confirm(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running tool, for what only it knows. Raises as `AsyncClient.ask` does."""
    client = current_client()
    return client.ask(_tool(), {"confirm": hint}, hint=hint, payload=payload, **details)


async def confirm_async(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running coroutine tool. See `confirm`."""
    client = current_client()
    request = client.request(_tool(), {"confirm": hint}, hint=hint, payload=payload, **details)
    return await _there(client, client.inner.send(request))


def suspend(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
    """Ask for a gated function's call without waiting; raise or pickle what is returned."""
    gate = gate_of(function)
    client = gate.client or current_client()
    return client.submit(gate.request(client, gate.bind(args, kwargs)))


def resume(function: Callable[..., Any], pending: Pending, *, rerun: bool = False) -> Any:
    """Wait for a suspended call and run it, in any process; await what an `async def` gives.

    Raises as `AsyncClient.wait` does.
    """
    gate = gate_of(function)
    client = gate.client or current_client()
    if inspect.iscoroutinefunction(gate.function):
        return _resume(gate, client, pending, rerun=rerun)
    return run_approved(gate, client, client.wait(pending, rerun=rerun))


async def _resume(gate: Gate, client: Client, pending: Pending, *, rerun: bool) -> Any:
    approval = await _there(client, client.inner.wait(pending, rerun=rerun))
    return await _run_approved(gate, client, approval)


def gate_of(function: Callable[..., Any]) -> Gate:
    """Return the gate of a function that `requires_approval` made. Raises InvalidRequest."""
    gate = getattr(function, "__gate__", None)
    if not isinstance(gate, Gate):
        raise InvalidRequest("this function is not gated by requires_approval")
    return gate


def _tool() -> str:
    found = running_tool.get()
    return found.tool if found else "confirm"
