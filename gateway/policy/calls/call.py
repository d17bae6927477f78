"""A call as it would run, and what was declared about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gateway.domain.records import Record
from gateway.models import Context, Kind
from gateway.policy.calls.roles import RoleSource
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject
from gateway.wire.roles import Role


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What an operator or a tool's author says: address (or name) to role, and harmless or not.

    What an author says may only narrow unless it is `trusted`; an operator's word always counts.
    """

    by: RoleSource
    roles: Mapping[str, Role] = field(default_factory=dict)
    harmless: bool = False
    trusted: bool = False

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that it says."""
        said = {"by": self.by, "roles": dict(self.roles), "harmless": self.harmless,
                "trusted": self.trusted}  # fmt: skip
        return sha256_hex(json.dumps(said, sort_keys=True).encode())[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What would run. `roles` are the declarations that count for it, in any order.

    A `payload` is read by names and looks alone: no declaration and no row of the table is for it.
    `server` is the server that an inner call names.
    """

    tool: str
    kind: Kind
    arguments: JsonObject
    context: Context = field(default_factory=Context)
    roles: tuple[Declaration, ...] = ()
    payload: bool = False
    server: str | None = None


def calls_of(record: Record) -> tuple[Call, ...]:
    """Return the calls of a record, one for each of its parts: the arguments, then any payload."""
    request, roles = record.request, declarations_of(record)
    return tuple(
        Call(
            tool=request.tool,
            kind=request.kind,
            arguments=part,
            context=request.context,
            roles=() if at else roles,
            payload=bool(at),
        )
        for at, part in enumerate(record.parts)
    )


def declarations_of(record: Record) -> tuple[Declaration, ...]:
    """Return what the operator and the tool's author declared about a record's tool."""
    request = record.request
    operator = Declaration(
        by=RoleSource.OPERATOR, roles=_roles(record.declared), harmless=record.harmless
    )
    # Whether the author's word counts for a whole tool the policy has settled: `record.harmless`.
    author = Declaration(by=RoleSource.AUTHOR, roles=_roles(request.roles), trusted=record.trusted)
    said = (operator, author)
    return tuple(one for one in said if one.roles or one.harmless)


def _roles(words: Mapping[str, str]) -> dict[str, Role]:
    """Return words as roles; one of a newer version is unknown here, which narrows."""
    return {name: _role(word) for name, word in words.items()}


def _role(word: str) -> Role:
    try:
        return Role(word)
    except ValueError:
        return Role.UNKNOWN
