"""Values of a call by the name of an argument, and what one may be compared with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from gateway.domain.risk_rules import is_named
from gateway.errors import InvalidRequest
from gateway.policy.calls.roles import PATHS, Surroundings, plain_name, role_of_name
from gateway.policy.calls.tool_names import Family
from gateway.policy.calls.touches import Touches
from gateway.wire.canonical_json import canonical

_LONGEST = 4096
_NOTHING_BESIDE = Surroundings(family=Family.FILE)


def values_named(touches: Touches, name: str) -> Iterator[Any]:
    """Yield what a call has under an argument's name, however it is spelled, or at an address."""
    wanted = plain_name(name)
    for argument, value in touches.call.arguments.items():
        if plain_name(argument) == wanted:
            yield value
    for leaf in touches.leaves:
        if leaf.address == name and leaf.owner:
            yield leaf.value


def names_path(name: str) -> bool:
    """Whether a name says that a path stands there, whatever stands there instead."""
    return role_of_name(name, "", _NOTHING_BESIDE) in PATHS


def is_same(wanted: Any, value: Any) -> bool:
    """Whether two values are the same JSON."""
    try:
        return canonical(wanted) == canonical(value)
    except InvalidRequest:
        return False


def fits_text(wanted: str, value: Any) -> bool:
    """Whether a text, a number or a truth value is what a pattern with `*` says."""
    if isinstance(value, str):
        return is_named((wanted,), value)
    plain = isinstance(value, bool | int | float)
    return plain and is_named((wanted,), canonical(value).decode())


def is_at_most(most: Any, value: Any) -> bool:
    """Whether a value is a number from 0 to `most`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return bool(number and 0 <= value <= most)


def is_within(prefix: Any, value: Any) -> bool | None:
    """Whether a URL or a name with slashes lies at or below another, component by component; None
    where readers differ on that."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    outer, inner = _place(prefix), _place(value)
    return None if inner is None else outer is not None and inner[: len(outer)] == outer


def _place(text: str) -> tuple[str, ...] | None:
    """Return scheme and host, if any, and the components; None where readers differ."""
    if any(char in text for char in "\\%?#@ ;") or not (text.isascii() and text.isprintable()):
        return None
    try:
        parts = urlsplit(text)
        place = (parts.scheme, parts.hostname or "", str(parts.port or ""))
    except ValueError:
        return None
    names = tuple(parts.path.split("/"))
    named = names[1:] if names[:1] == ("",) else names
    last = named[:-1] if named[-1:] == ("",) else named
    if any(name in ("", ".", "..") for name in last):
        return None
    return (*place, str(names[:1] == ("",)), *last)
