"""Gate functions and toolsets, so that a call runs only after approval. Start at
`requires_approval`."""

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
"""The values of `on_denied`."""
_OF_A_CALL = ("call_id", "part", "turn", "origin", "preview", "payload")

_ADDRESS = re.compile(r"[.\[]")

ALLOWED = (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The gate of one function. See `requires_approval` for the members."""

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
        """Whether the first argument is the object or class. People do not see it."""
        return is_method(self.function)

    @property
    def is_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    def bind_to(self, instance: Any) -> Gate:
        """Return a copy of this gate in which the method is bound to an object."""
        return replace(self, function=functools.partial(self.function, instance))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> JsonObject:
        """Return all arguments by name, positional and default ones included."""
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def needs_approval(self, arguments: JsonObject) -> bool:
        """Return whether a call with these arguments needs an approval, according to `when`."""
        return self.when is None or self.when(**arguments)

    def request(self, client: Client | AsyncClient, arguments: JsonObject) -> ApprovalRequest:
        """Return the request for a call. Raises InvalidRequest if the arguments are not JSON."""
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
                f"{self.tool}: cannot show its arguments to a person as JSON ({error}). "
                "Gate a function with plain values, or pass `serialize` to say what to show"
            ) from error

    def context_of(self, arguments: JsonObject) -> Context | None:
        """Return the place where a call runs, as `context` gives it; None without `context`.

        Raises InvalidRequest if the function `context` does not return a Context.
        """
        if self.context is None:
            return None
        said: Any = self.context(**arguments) if callable(self.context) else self.context
        if not isinstance(said, Context):
            raise InvalidRequest(
                f"{self.tool}: `context` must return a Context, not {type(said).__name__}"
            )
        return said

    def place_of(self, request: ApprovalRequest) -> Context | None:
        """Return the place where an approved call runs, without its files; None without
        `context`."""
        return None if self.context is None else replace(request.context, files={})

    def refuse(self, error: GatewayError) -> Outcome:
        """Return the outcome of a call that was not approved, if `on_denied` is "return". Otherwise
        raise the error; an error that is not an outcome is always raised."""
        if self.on_denied == RAISE:
            raise error
        return ended(error)

    def call(self, arguments: JsonObject) -> Any:
        """Call the function with exactly these arguments, and return its result."""
        bound = inspect.signature(self.function).bind_partial()
        bound.arguments.update(arguments)
        bound.apply_defaults()
        return self.function(*bound.args, **bound.kwargs)

    def arguments_to_run(self, approval: Approval, arguments: JsonObject | None) -> JsonObject:
        """Return the arguments to run: the approved ones, or with `serialize` the original values.

        Raises InvalidRequest if an edit does not fit the function. Raises Unverified if the values
        now serialize differently, or would run in a different place.
        """
        values = self._approved_values(approval, arguments)
        self._check_place(approval.request.context, values)
        return values

    def _approved_values(self, approval: Approval, arguments: JsonObject | None) -> JsonObject:
        asked = approval.request.arguments
        if any(approval.arguments.get(name) != asked.get(name) for name in self.files):
            raise Unverified(f"{self.tool}: the edit names a different file from the request")
        if self.serialize is None:
            if approval.decision.arguments is not None and self.schema is not None:
                check_arguments(self.schema, approval.arguments)
            return approval.arguments
        if arguments is None:
            raise Unverified(f"{self.tool}: another process holds the values of this request")
        if canonical(self._serialize_arguments(arguments)) != canonical(approval.request.arguments):
            raise Unverified(f"{self.tool}: the arguments were changed while the call waited")
        return arguments

    def _check_place(self, shown: Context, arguments: JsonObject) -> None:
        """Raise Unverified if these arguments would run in a place other than the one on the
        card."""
        where = self.context_of(arguments)
        if where is not None and replace(where, files={}) != replace(shown, files={}):
            raise Unverified(
                f"{self.tool}: the call would run in a different place from the one in the request"
            )

    def _serialize_arguments(self, arguments: JsonObject) -> JsonObject:
        return arguments if self.serialize is None else self.serialize(dict(arguments))


def _value_of(value: Any, arguments: JsonObject) -> Any:
    """Return the value of an option for a call. If the option is a function, call it with the
    arguments."""
    return value(**arguments) if callable(value) else value


def _is_json(value: Any) -> bool:
    try:
        canonical(value)
    except InvalidRequest:
        return False
    return True


def gate_for(function: Callable[..., Any], options: dict[str, Any]) -> Gate:
    """Return the gate for a function. Raises InvalidRequest if it cannot be gated."""
    given = {name: value for name, value in options.items() if value is not None}
    given["files"] = tuple(given.get("files", ()))
    if unknown := set(given["files"]) - set(inspect.signature(function).parameters):
        raise InvalidRequest(f"`files` names {min(unknown)!r}, which is not an argument")
    given["roles"] = _roles(function, given)
    tool = given.pop("tool", None) or getattr(function, "__qualname__", "tool")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidRequest(
            f"{tool} is a generator, which cannot be gated; gate the function that uses it"
        )
    hint = given.pop("hint", None)
    if hint is None:
        hint = (inspect.getdoc(function) or "").partition("\n")[0]
    if given.get("on_denied", RAISE) not in (RAISE, RETURN):
        raise InvalidRequest(f"on_denied must be {RAISE!r} or {RETURN!r}")
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
    """Remove `arguments` from the options, and return the roles. Raises InvalidRequest if a role
    names no argument."""
    roles = dict(given.pop("arguments", {}))
    check_roles(roles)
    if "serialize" not in given:  # its result has other names
        names = {_ADDRESS.split(address, 1)[0]: address for address in roles}
        if unknown := set(names) - set(inspect.signature(function).parameters):
            raise InvalidRequest(f"`arguments` names {names[min(unknown)]!r}, which does not exist")
    return roles


def gate_of(function: Callable[..., Any]) -> Gate:
    """Return the gate of a gated function or bound method. Raises InvalidRequest if it has none."""
    gate = getattr(function, "__gate__", None)
    if not isinstance(gate, Gate):
        raise InvalidRequest("this function is not gated by requires_approval")
    if not gate.is_method:
        return gate
    owner = getattr(function, "__self__", None)
    if owner is None:
        raise InvalidRequest(f"{gate.tool} is a method: pass it bound to an object")
    return gate.bind_to(owner)


def is_method(function: Callable[..., Any]) -> bool:
    """Return whether a function is defined in a class and takes `self` or `cls` first."""
    place = getattr(function, "__qualname__", "").rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters), "")
    return first in ("self", "cls") and place != "" and not place.endswith("<locals>")


class ReplanRounds:
    """The approval rounds of one call. After a denial with feedback, `replan` may change the
    arguments."""

    def __init__(self, gate: Gate, arguments: JsonObject) -> None:
        self._gate = gate
        self._left = gate.max_rounds - 1
        self.arguments = arguments

    def replans(self, refusal: GatewayError) -> bool:
        """Let `replan` change the arguments after a denial; return whether to ask again."""
        if not isinstance(refusal, Denied) or refusal.decision.reason is not Reason.FEEDBACK:
            return False
        if self._gate.replan is None or self._left <= 0:
            return False
        self._left -= 1
        self.arguments = self._gate.replan(self.arguments, refusal.decision.message)
        return True


# Asks for an approval from inside a running tool, which knows more details than its caller.


@dataclass(frozen=True, slots=True)
class RunningTool:
    """The running gated tool, the client that asked for its approval, and the place where it
    runs."""

    tool: str
    client: Client
    context: Context | None


_running_tool: ContextVar[RunningTool | None] = ContextVar("gateway_tool", default=None)


@contextmanager
def enter_tool(tool: str, client: Client, context: Context | None) -> Iterator[None]:
    """Set the tool, client and place for `confirm` inside the block."""
    token = _running_tool.set(RunningTool(tool, client, context))
    try:
        yield
    finally:
        _running_tool.reset(token)


def confirm(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask for a further approval from inside a gated tool, wait, and return the approval.

    `hint` describes what to approve, `payload` is JSON to show, `details` are keywords of
    `AsyncClient.request`. The client and `context` are by default those of the running tool. Raises
    as `AsyncClient.ask` does; after an exception, do not continue the action.
    """
    running = _running()
    details = {"context": running.context, **details}
    return running.client.ask(
        running.tool, {"confirm": hint}, hint=hint, payload=payload, **details
    )


async def confirm_async(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask for a further approval from inside a gated coroutine. See `confirm`."""
    running = _running()
    client, details = running.client, {"context": running.context, **details}
    request = client.request(running.tool, {"confirm": hint}, hint=hint, payload=payload, **details)
    return await client.run_on_loop(client.inner.send(request))


def _running() -> RunningTool:
    return _running_tool.get() or RunningTool("confirm", current_client(), None)


# Gates functions.

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
    """Decorate a `def` or `async def`, so that each call runs only after approval.

    The approver sees every argument by name, including positional and default arguments. The
    decorated function returns what the function returns. If a person edits the arguments, the
    function runs with the edited ones. If a person replies with a result, the decorated function
    returns that result, and the function does not run.

    - `tool`: name on cards and in rules, by default the qualified name of the function.
    - `when(**arguments)`: returns whether this call needs an approval.
    - `hint`: reason for the call, by default the first line of the docstring. A string, or a
      function of the arguments.
    - `timeout`: seconds to wait, by default the timeout of the route.
    - `serialize(arguments)`: returns JSON to show for values that are not JSON. Nobody can edit
      this JSON, and the values run only if they still serialize to it.
    - `files`: names of arguments that are paths. Nothing runs if such a file, or a link on its
      path, has changed since the request.
    - `context`: place where the function runs, by default the folder and host of this process. The
      value is a Context, or a function of the arguments that returns one.
    - `arguments`: role of each argument by name or address, such as `{"edits[].text": "data"}`. See
      `gateway.wire.roles.Role`.
    - `harmless`: no call of this function needs an approval. Like `arguments`, this affects only
      grants, and widens them only if the policy trusts this agent's declarations.
    - `read_only`: the function changes nothing. This has an effect only if a rule of the policy
      uses it.
    - `human`: a person must decide; no grant, mode or rule can approve the call.
    - `on_denied="return"`: return the `Outcome` of a call that is not approved, instead of raising.
    - `replan(arguments, feedback)`: returns new arguments after a denial with feedback, for at most
      `max_rounds` requests.
    - `client`: the client to ask with, by default that of `use_client`, else one for the gateway in
      the environment variables.
    - `call_id`, `part`, `turn`, `origin`, `preview`, `payload`, `kind`, `risk`, `allowed`: as in
      `AsyncClient.request`. The first six may be functions of the arguments.

    Raises what `AsyncClient.ask` raises, and InvalidRequest if arguments or an edit do not fit the
    function. After such an exception, the function has not run.
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
    """Run an approved coroutine function, and report how it ended. See `run_approved`."""

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
    """Run an approved call, report how it ended, and return its result.

    `arguments` are the values in this process, None if another process made the request.
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


# Gates a whole toolset. The originals stay unchanged.


def gated(tools: Any, **options: Any) -> Any:
    """Return the tools, each decorated with `requires_approval(**options)`.

    A mapping of callables becomes a dict. A list or tuple of callables keeps its type. For any
    other object, returns a wrapper with gated public methods; its other attributes are the original
    ones.
    """
    if isinstance(tools, Mapping):
        return {name: _gate(tool, str(name), options) for name, tool in tools.items()}
    if isinstance(tools, list | tuple):
        return type(tools)(_gate(tool, None, options) for tool in tools)
    return _GatedObject(tools, options)


class _GatedObject:
    """Wrap an object, and gate its public methods."""

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


# Asks for an approval now, and runs the call later in any process.


def suspend(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
    """Ask for an approval of a call of a gated function, without waiting.

    Returns a Pending for `resume`, which you can raise or pickle. Raises InvalidRequest if the
    function is not gated or has `serialize`, and GatewayError if the gateway does not accept the
    request.
    """
    gate = gate_of(function)
    if gate.serialize is not None:
        raise InvalidRequest(f"{gate.tool}: a call with `serialize` cannot be suspended")
    client = gate.client or current_client()
    return client.submit(gate.request(client, gate.bind(args, kwargs)))


def resume(function: Callable[..., Any], pending: Pending, *, rerun: bool = False) -> Any:
    """Wait for a suspended call, run it in this process, and return its result.

    `function` is the gated function, `pending` the value that `suspend` returned. Await the result
    if it is an `async def`. Raises as `AsyncClient.wait` does. With `on_denied="return"` a call
    that is not approved, or still pending, returns its Outcome.
    """
    gate = gate_of(function)
    client = gate.client or current_client()
    if pending.request.tool != gate.tool:
        raise InvalidRequest(f"the request is for {pending.request.tool!r}, not for {gate.tool!r}")
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
