"""The table of tools that are known, `tools.toml`: what each argument of each does.

A row speaks only for a call whose every argument it has, with its type. Of a call that does not fit
it only narrows.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from gateway.models import Kind
from gateway.policy.calls.roles import FREE, VARYING, bare_name, plain_name, type_of
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.roles import Role

MAX_DEPTH = 16
_TYPES = frozenset({"text", "number", "boolean", "list", "object", "any"})
_MOST_PARTS = 512
_STEP = re.compile(r"(?<=.)(?:\.|\[\])")


@dataclass(frozen=True, slots=True)
class KnownArgument:
    """What the table says of one address."""

    role: Role
    type: str
    optional: bool = False  # to its host null is the same as no value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownTool:
    """One row: a tool of one host."""

    names: tuple[str, ...]
    host: str
    checked: str
    kind: Kind
    harmless: bool
    arguments: Mapping[str, KnownArgument]
    containers: frozenset[str]  # addresses that only lead to others
    fingerprint: str

    def fits(self, arguments: Mapping[str, Any]) -> bool:
        """Whether every argument sent is in the row and has its type."""
        left = [_MOST_PARTS]
        return len(arguments) <= _MOST_PARTS and all(
            isinstance(key, str) and self._has(key, value, left, 1)
            for key, value in arguments.items()
        )

    def _has(self, address: str, value: Any, left: list[int], depth: int) -> bool:
        left[0] -= 1
        if left[0] < 0 or depth > MAX_DEPTH:
            return False
        known = self.arguments.get(address)
        if known is not None:
            return value is None or known.type in ("any", type_of(value).value)
        if address not in self.containers or not isinstance(value, dict | list):
            return False
        if len(value) > left[0]:
            return False
        if isinstance(value, dict):
            return all(
                isinstance(key, str) and self._has(f"{address}.{key}", part, left, depth + 1)
                for key, part in value.items()
            )
        return all(self._has(f"{address}[]", part, left, depth + 1) for part in value)


def find_known_tools(tool: str) -> tuple[KnownTool, ...]:
    """Return the rows of a tool of this whole name."""
    return tools_by_name().get(tool, ())


@lru_cache(maxsize=1024)
def rows_of_any_name(tool: str) -> tuple[KnownTool, ...]:
    """Return the rows of a tool by its name as sent, and without the prefixes of dispatchers."""
    return tuple(dict.fromkeys((*find_known_tools(tool), *find_known_tools(bare_name(tool)))))


@lru_cache(maxsize=1024)
def narrowing_roles(tool: str) -> Mapping[str, Role]:
    """Return what the rows of a tool, by any of its names, hold fixed: by address, in the spelling
    of `plain_name`."""
    return {
        plain_name(address): known.role
        for row in rows_of_any_name(tool)
        for address, known in row.arguments.items()
        if known.role not in FREE | VARYING | {Role.UNKNOWN}
    }


@lru_cache(maxsize=1)
def known_tools() -> tuple[KnownTool, ...]:
    """Return all rows, in the order of the file."""
    text = (files("gateway.policy.calls") / "tools.toml").read_text(encoding="utf-8")
    return tuple(map(_read_row, tomllib.loads(text).get("tool", [])))


@lru_cache(maxsize=1)
def tools_by_name() -> dict[str, tuple[KnownTool, ...]]:
    """Return all rows by each name of their tool."""
    found: dict[str, tuple[KnownTool, ...]] = {}
    for row in known_tools():
        for name in row.names:
            found[name] = (*found.get(name, ()), row)
    return found


def _read_row(row: dict[str, Any]) -> KnownTool:
    arguments = {address: _read_argument(text) for address, text in row["arguments"].items()}
    return KnownTool(
        names=tuple(row["names"]),
        host=row["host"],
        checked=row["checked"],
        kind=Kind(row["kind"]),
        harmless=row.get("harmless", False),
        arguments=arguments,
        containers=frozenset(part for address in arguments for part in _addresses_above(address)),
        fingerprint=sha256_hex(canonical(row))[:32],
    )


def _read_argument(text: str) -> KnownArgument:
    role, _, named = text.partition(" ")
    optional, named = named.endswith("?"), named.removesuffix("?")
    if named not in _TYPES:
        raise ValueError(f"{text!r} is not a role and a type")
    return KnownArgument(Role(role), named, optional)


def _addresses_above(address: str) -> list[str]:
    """Return the addresses above one: `a`, `a[]` of `a[].b`."""
    marks = [
        at for at in range(1, len(address)) if address[at] == "." or address[at : at + 2] == "[]"
    ]
    return [address[:at] for at in marks]
