"""Derives a JSON Schema from a function's parameters.

The gateway refuses an edit that does not fit it, and the client checks again before the function
runs.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gateway.errors import InvalidRequest
from gateway.wire.codec import JsonObject

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
