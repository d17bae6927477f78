"""How wire types become JSON values and back: plain dataclasses, no third-party model library.

`plain` leaves out absent and default members; `build` skips members that this version does not
know.
"""

from __future__ import annotations

import dataclasses
import types
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gateway.errors import InvalidRequest

JsonObject = dict[str, Any]


class Wire:
    """Base of everything on the wire: unknown members are refused where the server validates."""

    __slots__ = ()
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic on the server)


def plain(value: Any) -> Any:
    """Return `value` as JSON values; members at their default are left out."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if not isinstance(value, Wire):
        return value
    kind: Any = type(value)
    members = ((name, getattr(value, name), default) for name, default in _defaults(kind))
    return {name: plain(member) for name, member, default in members if member != default}


_T = TypeVar("_T")


def build(cls: type[_T], values: JsonObject) -> _T:
    """Return a `cls` made of trusted JSON values; members this version does not know are skipped.

    Raises InvalidRequest when a member is missing or does not fit.
    """
    try:
        kind: Any = cls
        hints = _hints(kind)
        known = {name: _fit(hints[name], v) for name, v in values.items() if name in hints}
        return cls(**known)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidRequest(f"not a valid {cls.__name__}: {error}") from error


@lru_cache(maxsize=64)
def _hints(cls: Any) -> dict[str, Any]:
    names = {member.name for member in dataclasses.fields(cls)}
    return {name: hint for name, hint in get_type_hints(cls).items() if name in names}


@lru_cache(maxsize=64)
def _defaults(cls: Any) -> tuple[tuple[str, Any], ...]:
    missing = dataclasses.MISSING
    return tuple(
        (
            member.name,
            member.default_factory() if member.default_factory is not missing else member.default,
        )
        for member in dataclasses.fields(cls)
    )


def _fit(hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = [arm for arm in get_args(hint) if arm is not types.NoneType]
        return value if value is None or len(inner) != 1 else _fit(inner[0], value)
    if origin is tuple:
        return tuple(_fit(get_args(hint)[0], item) for item in value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(value)
    if isinstance(hint, type) and issubclass(hint, Wire):
        return build(hint, value)
    return value
