"""Write a policy as a short TOML file that `read_policy` can read. Start reading at
`write_policy`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gateway.domain.policy_document import PolicyDocument
from gateway.policy.policy_file_reader import LOGIN
from gateway.wire.codec import JsonObject, plain

_HEAD = """\
# The policy of an approval gateway, written by `gateway policy export`.
# Members at their default are left out. To apply it: gateway apply FILE
"""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def write_policy(policy: PolicyDocument) -> str:
    """Return a document as the text of a policy file, without its generation and without group
    members, who are in no file."""
    values = plain(replace(policy, people=policy.listed, generation=0))
    for person in values.get("people", ()):
        identities = person.pop("identities", [])
        if identities[:1] == [f"{LOGIN}:{person['name']}"]:  # `read_policy` puts it there
            del identities[0]
        if identities:
            person["identities"] = identities
    return f"{_HEAD}\n{write_tables(values)}\n"


def write_tables(values: JsonObject) -> str:
    """Return the members of a policy file as TOML."""
    return "\n".join(_write_members(values)).lstrip("\n")


def _write_members(values: JsonObject, path: str = "") -> Iterator[str]:
    """Yield the lines of a table, plain members first, because in TOML they must precede
    subtables."""
    tables = {name: value for name, value in values.items() if _has_tables(value)}
    for name, value in values.items():
        if name not in tables:
            yield f"{_write_key(name)} = {_write_value(value)}"
    for name, value in tables.items():
        inner, several = f"{path}{_write_key(name)}", isinstance(value, list)
        for table in value if several else [value]:
            lines = list(_write_members(table, f"{inner}."))
            if several or lines[:1] != [""]:  # a table of tables alone needs no line of its own
                yield from ("", f"[[{inner}]]" if several else f"[{inner}]")
            yield from lines


def _has_tables(value: Any) -> bool:
    return isinstance((value or [""])[0] if isinstance(value, list) else value, dict)


def _write_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _write_value(name)


def _write_value(value: Any) -> str:
    """Return a value as TOML on one line, with escapes for characters that do not print."""
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    if isinstance(value, float) and value.is_integer() and value < 2**53:  # the most as an integer
        return str(int(value))
    if not isinstance(value, str):
        return repr(value).lower()
    return f'"{"".join(map(_write_character, value))}"'


def _write_character(one: str) -> str:
    return _ESCAPES.get(one) or (one if one.isprintable() else f"\\U{ord(one):08x}")
