"""Convert wire types to JSON values with `plain`, and back with `build`.

`plain` leaves out absent and default members and keeps the declared order of the others, because
some results are compared as text. `build` skips members that this version does not know.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import MISSING
from enum import StrEnum
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gateway.wire.schema import InvalidRequest

JsonObject = dict[str, Any]

_SCALARS = frozenset({str, int, float, bool, types.NoneType})


class Wire:
    """Base class of all wire types. When the server validates a message, it rejects unknown
    members."""

    __slots__ = ()
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic on the server)


def plain(value: Any) -> Any:
    """Return `value` as JSON values, without members that have their default value."""
    kind: Any = type(value)
    return value if kind in _SCALARS else _writer(kind)(value)


@lru_cache(maxsize=256)
def _writer(kind: Any) -> Callable[[Any], Any]:
    """Return the function that converts a type to JSON values."""
    if issubclass(kind, Wire):
        return partial(_plain_members, _readers(kind))
    if issubclass(kind, StrEnum):
        return str.__str__
    if issubclass(kind, list | tuple):
        return lambda value: [plain(item) for item in value]
    if issubclass(kind, dict):
        return lambda value: {key: plain(item) for key, item in value.items()}
    return lambda value: value


def _plain_members(readers: _Readers, value: Wire) -> JsonObject:
    names, defaults, read = readers
    members: JsonObject = {}
    for name, default, member in zip(names, defaults, read(value), strict=True):
        if member is not default and (default is MISSING or member != default):
            kind: Any = type(member)
            members[name] = member if kind in _SCALARS else _writer(kind)(member)
    return members


_T = TypeVar("_T")


def build(cls: type[_T], values: JsonObject) -> _T:
    """Return a `cls` built from trusted JSON values. Unknown members are skipped.

    Raises InvalidRequest if a member is missing or has the wrong type.
    """
    try:
        kind: Any = cls
        fitters = fitters_of(kind)
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
def fitters_of(cls: Any) -> dict[str, _Fitter | None]:
    """Return, for each member of a class, the function that builds it from JSON, or None if its
    JSON value is used unchanged."""
    hints = get_type_hints(cls)
    return {member.name: _fitter(hints[member.name]) for member in dataclasses.fields(cls)}


def _fitter(hint: Any) -> _Fitter | None:
    """Return the function that builds a member from JSON, or None if the JSON value is used
    unchanged."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        arms = [arm for arm in get_args(hint) if arm is not types.NoneType]
        return _optional(_fitter(arms[0])) if len(arms) == 1 else None
    if origin is tuple:
        inner = _fitter(get_args(hint)[0])
        return (lambda value: tuple(map(inner, value))) if inner else tuple
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _member_of(hint)
    if isinstance(hint, type) and issubclass(hint, Wire):
        return partial(build, hint)
    return None


def _member_of(kind: type[StrEnum]) -> _Fitter:
    known: dict[str, StrEnum] = {member.value: member for member in kind}
    return lambda value: known.get(value) or kind(value)  # calling the enumeration is slow


def _optional(fit: _Fitter | None) -> _Fitter | None:
    return (lambda value: None if value is None else fit(value)) if fit else None


_Readers = tuple[tuple[str, ...], tuple[Any, ...], Callable[[Any], tuple[Any, ...]]]


def _readers(cls: Any) -> _Readers:
    """Return the names and defaults of a class's members, and a function that reads them all."""
    members = dataclasses.fields(cls)
    names = tuple(member.name for member in members)
    return names, tuple(map(default_of, members)), _reader(names)


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)  # returns a tuple only for two or more names
    return lambda value: tuple(getattr(value, name) for name in names)


def default_of(member: dataclasses.Field[Any]) -> Any:
    """Return the default of a member, or MISSING."""
    make = member.default_factory
    return member.default if make is MISSING else make()
