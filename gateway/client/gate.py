"""Gates functions and toolsets: a call runs only after approval, with the approved arguments."""

from __future__ import annotations

import functools
import inspect
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar, cast, overload

from gateway.client.approval import Approval, Outcome, ended
from gateway.client.async_client import AsyncClient, check_arguments, log_report_failure, schema_of
from gateway.client.blocking_client import Client, current_client
from gateway.errors import Denied, GatewayError, InvalidRequest, Pending, Unverified
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    Execution,
    Kind,
    Origin,
    Preview,
    Reason,
    Risk,
)
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import JsonObject
from gateway.wire.roles import check_roles

Hint = str | Callable[..., str]
Words = str | Callable[..., str]
Replan = Callable[[JsonObject, str], JsonObject]
Serialize = Callable[[JsonObject], JsonObject]
Where = Context | Callable[..., Context]

RAISE, RETURN = "raise", "return"
"""What `on_denied` may be."""
_OF_A_CALL = ("call_id", "part", "turn", "origin", "preview", "payload")

_ADDRESS = re.compile(r"[.\[]")

ALLOWED = (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """How one function is gated. See `requires_approval`."""

    function: Callable[..., Any]
    tool: str
    hint: Hint
    kind: Kind = Kind.TOOL
    when: Callable[..., bool] | None = None
    risk: Risk | None = None
    timeout: float | None = None
    allowed: tuple[Action, ...] = ALLOWED
    serialize: Serialize | None = None
    schema: JsonObject | None = None
    files: tuple[str, ...] = ()
    context: Where | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    harmless: bool = False
    human: bool = False
    read_only: bool = False
    call_id: Words | None = None
    part: Words | None = None
    turn: Words | None = None
    origin: Origin | Callable[..., Origin] | None = None
    preview: Preview | Callable[..., Preview] | None = None
    payload: JsonObject | Callable[..., JsonObject] | None = None
    on_denied: str = RAISE
    replan: Replan | None = None
    max_rounds: int = 3
    client: Client | None = None

    @property
    def is_method(self) -> bool:
        """Whether its first argument is the object or class, which is not shown."""
        return is_method(self.function)

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    def bind_to(self, instance: Any) -> Gate:
        """Return the gate of this method bound to an object."""
        return replace(self, function=functools.partial(self.function, instance))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> JsonObject:
        """Return all arguments by name, positional and default ones included."""
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def needs_approval(self, arguments: JsonObject) -> bool:
        """Whether this call needs approval."""
        return self.when is None or self.when(**arguments)

    def request(self, client: Client | AsyncClient, arguments: JsonObject) -> ApprovalRequest:
        """Return the request for a call. Raises InvalidRequest for arguments that are not JSON."""
        hint = self.hint(**arguments) if callable(self.hint) else self.hint
        shown = self._serialize_arguments(arguments)
        try:
            return client.request(
                self.tool,
                shown,
                kind=self.kind,
                hint=hint,
                risk=self.risk,
                timeout=self.timeout,
                allowed=self.allowed,
                schema=self.schema,
                files=[os.fspath(arguments[name]) for name in self.files],
                context=self.context_of(arguments),
                roles=self.roles,
                harmless=self.harmless,
                human=self.human,
                read_only=self.read_only,
                **{name: _value_of(getattr(self, name), arguments) for name in _OF_A_CALL},
            )
        except InvalidRequest as error:
            if _is_json(shown):
                raise InvalidRequest(f"{self.tool}: {error}") from error
            raise InvalidRequest(
                f"{self.tool}: its arguments cannot be shown to a person as JSON ({error}); "
                "gate a function that takes plain values, or say with `serialize` what to show"
            ) from error

    def context_of(self, arguments: JsonObject) -> Context | None:
        """Return where a call runs, as the function's author says; None where nothing is said.

        Raises InvalidRequest for what is no Context.
        """
        if self.context is None:
            return None
        said: Any = self.context(**arguments) if callable(self.context) else self.context
        if not isinstance(said, Context):
            raise InvalidRequest(f"{self.tool}: its `context` gave {type(said).__name__}")
        return said

    def place_of(self, request: ApprovalRequest) -> Context | None:
        """Return where an approved call runs, without its files; None where nothing is said."""
        return None if self.context is None else replace(request.context, files={})

    def refuse(self, error: GatewayError) -> Outcome:
        """Return the outcome of a call that was not approved, where the author wants it returned;
        raise it otherwise, and always what is no outcome."""
        if self.on_denied == RAISE:
            raise error
        return ended(error)

    def call(self, arguments: JsonObject) -> Any:
        """Call the function with exactly these arguments."""
        bound = inspect.signature(self.function).bind_partial()
        bound.arguments.update(arguments)
        bound.apply_defaults()
        return self.function(*bound.args, **bound.kwargs)

    def arguments_to_run(self, approval: Approval, arguments: JsonObject | None) -> JsonObject:
        """Return the arguments to run: those shown or their edit, or the values behind `serialize`.

        Raises InvalidRequest for an edit that does not fit the function, and Unverified when the
        values no longer serialize to what was shown, or would run elsewhere.
        """
        values = self._approved_values(approval, arguments)
        self._check_place(approval.request.context, values)
        return values

    def _approved_values(self, approval: Approval, arguments: JsonObject | None) -> JsonObject:
        asked = approval.request.arguments
        if any(approval.arguments.get(name) != asked.get(name) for name in self.files):
            raise Unverified(f"{self.tool}: an edit names another file than was asked about")
        if self.serialize is None:
            if approval.decision.arguments is not None and self.schema is not None:
                check_arguments(self.schema, approval.arguments)
            return approval.arguments
        if arguments is None:
            raise Unverified(f"{self.tool}: the values that were asked for are in another process")
        if canonical(self._serialize_arguments(arguments)) != canonical(approval.request.arguments):
            raise Unverified(f"{self.tool}: its arguments were changed while it waited")
        return arguments

    def _check_place(self, shown: Context, arguments: JsonObject) -> None:
        """Raise Unverified when these arguments run in another place than people were shown."""
        where = self.context_of(arguments)
        if where is not None and replace(where, files={}) != replace(shown, files={}):
            raise Unverified(f"{self.tool}: it would run in another place than was asked about")

    def _serialize_arguments(self, arguments: JsonObject) -> JsonObject:
        return arguments if self.serialize is None else self.serialize(dict(arguments))


def _value_of(value: Any, arguments: JsonObject) -> Any:
    """Return what the author says of a call: a value, or what a function of its arguments gives."""
    return value(**arguments) if callable(value) else value


def _is_json(value: Any) -> bool:
    try:
        canonical(value)
    except InvalidRequest:
        return False
    return True


def gate_for(function: Callable[..., Any], options: dict[str, Any]) -> Gate:
    """Return the gate for a function. Raises InvalidRequest when it cannot be gated."""
    given = {name: value for name, value in options.items() if value is not None}
    given["files"] = tuple(given.get("files", ()))
    if unknown := set(given["files"]) - set(inspect.signature(function).parameters):
        raise InvalidRequest(f"there is no argument {min(unknown)!r} that could name a file")
    given["roles"] = _roles(function, given)
    tool = given.pop("tool", None) or getattr(function, "__qualname__", "tool")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidRequest(f"{tool} is a generator; gate the function that uses it")
    hint = given.pop("hint", None)
    if hint is None:
        hint = (inspect.getdoc(function) or "").partition("\n")[0]
    if given.get("on_denied", RAISE) not in (RAISE, RETURN):
        raise InvalidRequest(f"on_denied is {RAISE!r} or {RETURN!r}")
    gate = Gate(function=function, tool=tool, hint=hint, **given)
    if gate.serialize is not None:
        # Serialized arguments cannot be turned back into values, so nobody may edit them.
        allowed = tuple(action for action in gate.allowed if action is not Action.EDIT)
        return replace(gate, allowed=allowed)
    if Action.EDIT not in gate.allowed:
        return gate
    parameters = dict(inspect.signature(function).parameters)
    if gate.is_method:
        del parameters[next(iter(parameters))]
    return replace(gate, schema=schema_of(function, parameters))


def _roles(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, str]:
    """Take the declared roles out of the options; raises InvalidRequest where they fit none."""
    roles = dict(given.pop("arguments", {}))
    check_roles(roles)
    if "serialize" not in given:  # what it shows has names of its own
        names = {_ADDRESS.split(address, 1)[0]: address for address in roles}
        if unknown := set(names) - set(inspect.signature(function).parameters):
            raise InvalidRequest(f"there is no argument {names[min(unknown)]!r} to declare")
    return roles


def gate_of(function: Callable[..., Any]) -> Gate:
    """Return the gate of a gated function. Raises InvalidRequest when it is not gated."""
    gate = getattr(function, "__gate__", None)
    if not isinstance(gate, Gate):
        raise InvalidRequest("this function is not gated by requires_approval")
    if not gate.is_method:
        return gate
    owner = getattr(function, "__self__", None)
    if owner is None:
        raise InvalidRequest(f"{gate.tool} is a method: give that of an object")
    return gate.bind_to(owner)


def is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class and takes `self` or `cls` first."""
    place = getattr(function, "__qualname__", "").rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters), "")
    return first in ("self", "cls") and place != "" and not place.endswith("<locals>")


class ReplanRounds:
    """The rounds of one call: after a denial with feedback `replan` may change the arguments."""

    def __init__(self, gate: Gate, arguments: JsonObject) -> None:
        self._gate = gate
        self._left = gate.max_rounds - 1
        self.arguments = arguments

    def replans(self, refusal: GatewayError) -> bool:
        """Replace the arguments by replanned ones; return whether there are any."""
        if not isinstance(refusal, Denied) or refusal.decision.reason is not Reason.FEEDBACK:
            return False
        if self._gate.replan is None or self._left <= 0:
            return False
        self._left -= 1
        self.arguments = self._gate.replan(self.arguments, refusal.decision.message)
        return True


# Asks for approval from inside a running tool, which knows details that its caller does not.


@dataclass(frozen=True, slots=True)
class RunningTool:
    """The gated tool that runs, the client that asked, and where its author says that it works."""

    tool: str
    client: Client
    context: Context | None


_running_tool: ContextVar[RunningTool | None] = ContextVar("gateway_tool", default=None)


@contextmanager
def enter_tool(tool: str, client: Client, context: Context | None) -> Iterator[None]:
    """Make a gated tool, its client and place the ones that `confirm` uses inside the block."""
    token = _running_tool.set(RunningTool(tool, client, context))
    try:
        yield
    finally:
        _running_tool.reset(token)


def confirm(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running tool, through the client that asked for it, with its `context`
    unless another is given. Raises as `AsyncClient.ask` does."""
    running = _running()
    details = {"context": running.context, **details}
    return running.client.ask(
        running.tool, {"confirm": hint}, hint=hint, payload=payload, **details
    )


async def confirm_async(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running coroutine tool. See `confirm`."""
    running = _running()
    client, details = running.client, {"context": running.context, **details}
    request = client.request(running.tool, {"confirm": hint}, hint=hint, payload=payload, **details)
    return await client.run_on_loop(client.inner.send(request))


def _running() -> RunningTool:
    return _running_tool.get() or RunningTool("confirm", current_client(), None)


# Gates functions: a call runs only after approval, with exactly the approved arguments.

P = ParamSpec("P")
R = TypeVar("R")


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
    timeout: float | None = None,
    allowed: tuple[Action, ...] = ALLOWED,
    serialize: Serialize | None = None,
    files: Sequence[str] = (),
    context: Where | None = None,
    arguments: Mapping[str, str] | None = None,
    harmless: bool = False,
    human: bool = False,
    read_only: bool = False,
    call_id: Words | None = None,
    part: Words | None = None,
    turn: Words | None = None,
    origin: Origin | Callable[..., Origin] | None = None,
    preview: Preview | Callable[..., Preview] | None = None,
    payload: JsonObject | Callable[..., JsonObject] | None = None,
    on_denied: str = RAISE,
    replan: Replan | None = None,
    max_rounds: int = 3,
    client: Client | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def requires_approval(function: Callable[P, R] | None = None, /, **options: Any) -> Any:
    """Run a function only after approval; for `def` and `async def`.

    The approver sees every argument by name, also positional and default ones.

    `when` is called with the arguments and says whether this call needs approval. `hint` is the
    reason, by default the docstring's first line. `timeout` is in seconds, by
    default that of the gateway's route. An edit changes the
    arguments that run, within the function's signature; `respond` returns the given result instead
    of running. `serialize` turns arguments that are not JSON into JSON to show; nobody can edit
    that, and the values run only if they still serialize to the same. `files` names arguments that
    are paths: nothing runs when such a file, or a link on the way to it, has changed. `context`
    is where the function works: a Context, or a function of the arguments that returns one; without
    it, this process's folder and host. `arguments` say what arguments are to the tool, by name or
    address: `{"edits[].text": "data"}`, in the words of `gateway.wire.roles.Role`. `harmless` says
    that nothing the function does needs asking. Both change only what people may have remembered,
    and widen that only where the gateway's policy trusts this agent's declarations.
    `read_only` says that it changes nothing, which only a rule of the policy may make use of.
    `call_id`, `part`, `turn`, `origin`, `preview` and `payload` are those of `client.request`, or
    functions of the arguments that return them. With `on_denied="return"` a call that is not
    approved returns its `Outcome` instead of raising.
    `human` demands that a person answers: nothing that was remembered, and no mode or rule,
    approves the call. When a person denies with feedback, `replan(arguments, feedback)` may return
    other arguments to ask with, for at most `max_rounds` requests. The client is `client`, else the
    context's, else the one that the environment describes.

    Raises what `AsyncClient.ask` raises, and InvalidRequest for arguments or an edit that do not
    fit; the function has not run then.
    """
    if function is not None:
        return _gate_function(function)
    return lambda wrapped: _gate_function(wrapped, **options)


def _gate_function(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    gate = gate_for(function, options)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Gate, JsonObject]:
        own, rest = (gate.bind_to(args[0]), args[1:]) if gate.is_method and args else (gate, args)
        return own, own.bind(rest, kwargs)

    if gate.is_async:

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            own, arguments = bind(args, kwargs)
            return await (
                _run(own, arguments) if own.needs_approval(arguments) else own.call(arguments)
            )

        call_async.__gate__ = gate  # type: ignore[attr-defined]
        return call_async

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        own, arguments = bind(args, kwargs)
        return (
            _run_blocking(own, arguments) if own.needs_approval(arguments) else own.call(arguments)
        )

    call.__gate__ = gate  # type: ignore[attr-defined]
    return call


async def _run(gate: Gate, arguments: JsonObject) -> Any:
    client = gate.client or current_client()
    rounds = ReplanRounds(gate, arguments)
    while True:
        request = gate.request(client, rounds.arguments)
        try:
            approval = await client.run_on_loop(client.inner.send(request))
            break
        except GatewayError as refusal:
            if not rounds.replans(refusal):
                return gate.refuse(refusal)
    return await run_approved_async(gate, client, approval, rounds.arguments)


def _run_blocking(gate: Gate, arguments: JsonObject) -> Any:
    client = gate.client or current_client()
    rounds = ReplanRounds(gate, arguments)
    while True:
        request = gate.request(client, rounds.arguments)
        try:
            approval = client.send(request)
            break
        except GatewayError as refusal:
            if not rounds.replans(refusal):
                return gate.refuse(refusal)
    return run_approved(gate, client, approval, rounds.arguments)


async def run_approved_async(
    gate: Gate, client: Client, approval: Approval, arguments: JsonObject | None
) -> Any:
    """Run an approved coroutine function and report the outcome. See `run_approved`."""

    async def report(execution: Execution, **how: Any) -> None:
        with log_report_failure():
            await client.run_on_loop(client.inner.report(approval.request, execution, **how))

    if approval.decision.action is Action.RESPOND:
        await report(Execution.SKIPPED)
        return approval.decision.result
    try:
        values = gate.arguments_to_run(approval, arguments)
    except GatewayError as error:
        await report(Execution.SKIPPED, detail=type(error).__name__)
        return gate.refuse(error)
    await report(Execution.STARTED)
    began = time.monotonic()
    try:
        with enter_tool(gate.tool, client, gate.place_of(approval.request)):
            result = await cast(Awaitable[Any], gate.call(values))
    except BaseException as error:
        await report(Execution.FAILED, **_describe_run(began, error))
        raise
    await report(Execution.SUCCEEDED, **_describe_run(began))
    return result


def run_approved(
    gate: Gate, client: Client, approval: Approval, arguments: JsonObject | None
) -> Any:
    """Run an approved call and report the outcome.

    `arguments` are the values in this process, None where another process made the request.
    """
    request, report = approval.request, client.report
    if approval.decision.action is Action.RESPOND:
        report(request, Execution.SKIPPED)
        return approval.decision.result
    try:
        values = gate.arguments_to_run(approval, arguments)
    except GatewayError as error:
        report(request, Execution.SKIPPED, detail=type(error).__name__)
        return gate.refuse(error)
    report(request, Execution.STARTED)
    began = time.monotonic()
    try:
        with enter_tool(gate.tool, client, gate.place_of(approval.request)):
            result = gate.call(values)
    except BaseException as error:
        report(request, Execution.FAILED, **_describe_run(began, error))
        raise
    report(request, Execution.SUCCEEDED, **_describe_run(began))
    return result


def _describe_run(began: float, error: BaseException | None = None) -> dict[str, Any]:
    duration = int((time.monotonic() - began) * 1000)
    return {"duration_ms": duration, "detail": type(error).__name__ if error else ""}


# Gates a whole toolset; the originals stay unchanged.


def gated(tools: Any, **options: Any) -> Any:
    """Return the same tools, each behind `requires_approval(**options)`.

    A mapping of callables gives a dict, a list or tuple of callables the same sequence, and any
    other object a wrapper whose public methods are gated and whose other attributes are the
    original's.
    """
    if isinstance(tools, Mapping):
        return {name: _gate(tool, str(name), options) for name, tool in tools.items()}
    if isinstance(tools, list | tuple):
        return type(tools)(_gate(tool, None, options) for tool in tools)
    return _GatedObject(tools, options)


class _GatedObject:
    """Wraps an object; its public methods ask first."""

    def __init__(self, original: Any, options: dict[str, Any]) -> None:
        self._original = original
        self._options = options

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if name.startswith("_") or not callable(found):
            return found
        return _gate(found, f"{type(self._original).__name__}.{name}", self._options)


def _gate(
    tool: Callable[..., Any], name: str | None, options: dict[str, Any]
) -> Callable[..., Any]:
    gate = requires_approval(**{"tool": name, **options})
    return gate(tool)


# Asks for approval now and runs the call later, in any process.


def suspend(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
    """Ask for approval of a call without waiting; the returned Pending can be raised or pickled."""
    gate = gate_of(function)
    if gate.serialize is not None:
        raise InvalidRequest(f"{gate.tool}: values that are not JSON cannot wait elsewhere")
    client = gate.client or current_client()
    return client.submit(gate.request(client, gate.bind(args, kwargs)))


def resume(function: Callable[..., Any], pending: Pending, *, rerun: bool = False) -> Any:
    """Wait for a suspended call and run it, in any process; await the result of an `async def`.

    Raises as `AsyncClient.wait` does; with `on_denied="return"` what was not approved, or not yet,
    is returned as an Outcome.
    """
    gate = gate_of(function)
    client = gate.client or current_client()
    if pending.request.tool != gate.tool:
        raise InvalidRequest(f"that was asked for {pending.request.tool}, not for {gate.tool}")
    if gate.is_async:
        return _resume(gate, client, pending, rerun=rerun)
    try:
        approval = client.wait(pending, rerun=rerun)
    except GatewayError as refusal:
        return gate.refuse(refusal)
    return run_approved(gate, client, approval, None)


async def _resume(gate: Gate, client: Client, pending: Pending, *, rerun: bool) -> Any:
    try:
        approval = await client.run_on_loop(client.inner.wait(pending, rerun=rerun))
    except GatewayError as refusal:
        return gate.refuse(refusal)
    return await run_approved_async(gate, client, approval, None)
