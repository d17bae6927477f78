"""Writes the policy file that would produce a policy: TOML, short, read by `read_policy`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Person
from gateway.policy.policy_file_reader import LOGIN
from gateway.wire.codec import JsonObject, plain

_HEAD = """\
# The policy of an approval gateway, written by `gateway policy export`.
# Members at their default are left out. Put it in force: gateway apply FILE
"""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def write_policy(policy: PolicyDocument) -> str:
    """Return the policy file of a document, without its generation."""
    people = tuple(map(_without_login, policy.people))
    return f"{_HEAD}\n{write_tables(plain(replace(policy, people=people, generation=0)))}\n"


def write_tables(values: JsonObject) -> str:
    """Return the members of a policy file as TOML."""
    return "\n".join(_write_members(values)).lstrip("\n")


def _without_login(person: Person) -> Person:
    """Leave out the login that `read_policy` puts first."""
    first, *others = person.identities or ("",)
    added = first == f"{LOGIN}:{person.name}"
    return replace(person, identities=tuple(others)) if added else person


def _write_members(values: JsonObject, path: str = "") -> Iterator[str]:
    """Yield the lines of a table: members of one line first, because a table ends them."""
    for name, value in values.items():
        if not _has_tables(value):
            yield f"{_write_key(name)} = {_write_value(value)}"
    for name, value in values.items():
        if not _has_tables(value):
            continue
        inner, several = f"{path}{_write_key(name)}", isinstance(value, list)
        for table in value if several else [value]:
            lines = list(_write_members(table, f"{inner}."))
            if several or lines[:1] != [""]:  # a table of tables alone needs no line of its own
                yield from ("", f"[[{inner}]]" if several else f"[{inner}]")
            yield from lines


def _has_tables(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(one, dict) for one in value)
    )


def _write_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _write_text(name)


def _write_value(value: Any) -> str:
    if isinstance(value, str):
        return _write_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value).removesuffix(".0")


def _write_text(text: str) -> str:
    """Return a text in quotes. What a terminal does not show, or would act on, is escaped."""
    return '"' + "".join(map(_write_character, text)) + '"'


def _write_character(one: str) -> str:
    if escape := _ESCAPES.get(one):
        return escape
    return one if one.isprintable() else f"\\U{ord(one):08x}"
