"""How wire types become JSON values and back: plain dataclasses, no third-party model library.

`plain` leaves out absent and default members; `build` skips members that this version does not
know.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gateway.errors import InvalidRequest

JsonObject = dict[str, Any]

_SCALARS = frozenset({str, int, float, bool, types.NoneType})


class Wire:
    """Base of everything on the wire: unknown members are refused where the server validates."""

    __slots__ = ()
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic on the server)


def plain(value: Any) -> Any:
    """Return `value` as JSON values; members at their default are left out."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Wire):
        return _plain_members(value)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def _plain_members(value: Wire) -> JsonObject:
    kind: Any = type(value)
    members: JsonObject = {}
    for name, default in _defaults(kind):
        member = getattr(value, name)
        if member is not default and member != default:
            members[name] = member if type(member) in _SCALARS else plain(member)
    return members


_T = TypeVar("_T")


def build(cls: type[_T], values: JsonObject) -> _T:
    """Return a `cls` made of trusted JSON values; members this version does not know are skipped.

    Raises InvalidRequest when a member is missing or does not fit.
    """
    try:
        kind: Any = cls
        fitters = _fitters(kind)
        known = {}
        for name, value in values.items():
            if name in fitters:
                fit = fitters[name]
                known[name] = value if fit is None else fit(value)
        return cls(**known)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidRequest(f"not a valid {cls.__name__}: {error}") from error


_Fitter = Callable[[Any], Any]


@lru_cache(maxsize=64)
def _fitters(cls: Any) -> dict[str, _Fitter | None]:
    """Return the members of a class, each with what makes it of a JSON value."""
    hints = get_type_hints(cls)
    return {member.name: _fitter(hints[member.name]) for member in dataclasses.fields(cls)}


def _fitter(hint: Any) -> _Fitter | None:
    """Return what makes such a member of a JSON value, None when the value is taken as it is."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        arms = [arm for arm in get_args(hint) if arm is not types.NoneType]
        return _optional(_fitter(arms[0])) if len(arms) == 1 else None
    if origin is tuple:
        inner = _fitter(get_args(hint)[0])
        return (lambda value: tuple(map(inner, value))) if inner else tuple
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    if isinstance(hint, type) and issubclass(hint, Wire):
        return partial(build, hint)
    return None


def _optional(fit: _Fitter | None) -> _Fitter | None:
    return (lambda value: None if value is None else fit(value)) if fit else None


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
