"""The gate of one function: builds the request of a call, and says which arguments may run."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.client import argument_schema
from gateway.client.approval import Approval
from gateway.client.blocking import Client
from gateway.client.client import AsyncClient
from gateway.client.outcome import Outcome, ended
from gateway.errors import Denied, GatewayError, InvalidRequest, Unverified
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
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
                argument_schema.check(self.schema, approval.arguments)
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
    return replace(gate, schema=argument_schema.schema_of(function, parameters))


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
