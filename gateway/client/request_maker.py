"""Makes requests: digest, id, schema of the arguments, and what this process says of them."""

from __future__ import annotations

import inspect
import os
import socket
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gateway.client.bound_files import hash_files
from gateway.client.context import current_session, current_turn, origin_of
from gateway.errors import InvalidRequest
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    Kind,
    Origin,
    Preview,
    Question,
    Risk,
    digest_of,
    id_of_call,
    new_id,
)
from gateway.wire.codec import JsonObject
from gateway.wire.roles import check_roles

# Derives a JSON Schema from a function's parameters.
#
# The gateway refuses an edit that does not fit it, and the client checks again before the function
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
    """Return the schema of these parameters; one without an annotation accepts any value."""
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


def check(schema: JsonObject, arguments: JsonObject) -> None:
    """Raise InvalidRequest unless the arguments fit a schema of `schema_of`."""
    properties = schema["properties"]
    if unknown := set(arguments) - set(properties):
        raise InvalidRequest(f"it takes no argument {min(unknown)!r}")
    if missing := set(schema["required"]) - set(arguments):
        raise InvalidRequest(f"the argument {min(missing)!r} is missing")
    for name, value in arguments.items():
        if not _fits(properties[name], value):
            raise InvalidRequest(f"{name!r} cannot be {value!r}")


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
    """Makes the requests of one agent."""

    @property
    def agent(self) -> str:
        """The agent that asks."""
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
        """Return a request with its digest, and with a new id where none is given.

        `call_id` is the host's own id of the call, with a `part` where it asks more than once in
        one. The request's id is then derived from agent, session, call, part and content: a call
        that is tried again finds its request, whose approval runs once, and one with other content
        supersedes it. `turn` and `origin` are the context's unless they are given. `read_only` says
        that the tool changes nothing; only a rule of the policy that names it makes use of that.

        `context` is where it would run, by default this process's folder and host. `roles` say what
        arguments are to the tool, `harmless` that nothing it does needs asking; see
        `requires_approval`. `human` demands that a person answers. `files` are bound with their
        content: when one of them, or a link on the way to it, has changed at the end, the approval
        is refused. Without `timeout` the time of the gateway's route holds; 0 is none. Raises
        InvalidRequest.
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
            raise InvalidRequest("a request has a call_id or an id of its own, not both")
        return replace(whole, id=id_of_call(whole))


def _from(origin: Origin | None, call_id: str | None) -> Origin:
    """Return where a request comes from, with the host's id of its call."""
    source = origin_of(origin)
    return source if source.tool_call_id else replace(source, tool_call_id=call_id)


def _where(context: Context | None, files: Sequence[str]) -> Context:
    """Return where it would run, with the files that are bound."""
    where = context or _here()
    return replace(where, files={**where.files, **hash_files(files)}) if files else where


def _here() -> Context:
    return Context(cwd=os.getcwd(), host=socket.gethostname())  # noqa: PTH109 (`pathlib` costs 4 ms)
