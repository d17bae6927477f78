"""Declare the arguments of a tool from a card. Start reading at `open_values`, `dangers_of` and
`with_word`.

A declaration cannot weaken the built-in minimum, which `gateway.policy.calls` enforces. If a
declaration frees a value whose name means a command, an action or a path, an admin must confirm it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from gateway.domain.policy_document import PolicyDocument, ToolRow
from gateway.domain.records import StoredRequest
from gateway.domain.risk import is_named
from gateway.errors import InvalidRequest
from gateway.models import Kind
from gateway.policy.calls.argument_roles import (
    FREE,
    HELD,
    VARYING,
    RoleSource,
    SiblingContext,
    bare_name,
    family_of,
    looks_like,
    narrowing_roles,
    plain_name,
    role_of_name,
)
from gateway.policy.calls.call_arguments import Leaf
from gateway.policy.calls.call_effects import effects_of
from gateway.wire.roles import LONGEST_ADDRESS, MOST_ROLES, Role, role_mistakes
from gateway.wire.schema import TOOL_NAME

ON_CARDS: dict[Role, str] = {
    Role.DATA: "text or values that are only kept, sent or read; may change freely",
    Role.PART: "which part of something, such as a line or a page; may change, come and go",
    Role.REMARK: "words about the call that change nothing; may change, come and go",
    Role.READ: "a path that is read",
    Role.WRITE: "a path that is written",
    Role.DELETE: "a path that is deleted",
    Role.DESTINATION: "a second path, which is written",
    Role.FOLDER: "a folder",
    Role.COMMAND: "one command, as text that a shell reads",
    Role.ACTION: "text that is the action: code, a query, a prompt; the same each time",
    Role.URL: "an address of the web; the same each time",
    Role.RECIPIENT: "who receives something; the same each time",
    Role.ID: "the name of one thing, such as an order or a branch; the same each time",
    Role.FLAG: "a switch that changes what is done; the same each time",
    Role.AMOUNT: "how much; the same each time",
}
"""The roles to choose from on a card, each with its meaning."""

_OPEN_SOURCES = frozenset(
    {RoleSource.KIND, RoleSource.NAME, RoleSource.LOOK, RoleSource.NOBODY}
)  # sources of a role that are no declaration
_NAMES = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|([^.\[\]]+)')


@dataclass(frozen=True, slots=True)
class OpenValue:
    """A value of a call that a grant fixes because its role is not declared.

    `held` is the restrictive role (a command, an action, a path …) that its role or form suggests.
    """

    address: str
    role: Role
    why: str
    held: Role | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolWord:
    """An admin's declaration of a tool: roles by address and, if stated, whether the tool is
    harmless.

    `agents` names the agents whose calls it applies to; `*` in a name matches anything. If `agents`
    is empty, it applies to all agents; None keeps the agents of the existing row.
    """

    tool: str
    arguments: Mapping[str, str]
    harmless: bool | None = None
    agents: tuple[str, ...] | None = None


def open_values(record: StoredRequest) -> tuple[OpenValue, ...]:
    """Return the values of a record's call that an admin could declare, one per address."""
    if record.erased or record.request.kind in (Kind.PLAN, Kind.CALLS, Kind.QUESTION):
        return ()
    leaves = effects_of(record)[0].leaves
    found: dict[str, OpenValue] = {}
    for leaf in filter(_is_open, leaves):
        known = found.get(leaf.address)
        if known is None or known.held is None:  # if one of several looks like a path, it counts
            found[leaf.address] = OpenValue(leaf.address, leaf.role, leaf.why, _held_role(leaf))
    return tuple(found.values())[:MOST_ROLES]


def _held_role(leaf: Leaf) -> Role | None:
    role = leaf.role if leaf.role in HELD else looks_like(leaf.value)
    return role if role in HELD else None


def _is_open(leaf: Leaf) -> bool:
    if not leaf.read or leaf.free or len(leaf.address) > LONGEST_ADDRESS:
        return False
    unknown = leaf.role is Role.UNKNOWN and leaf.source is not RoleSource.OPERATOR
    return unknown or leaf.source in _OPEN_SOURCES


def check_word(word: ToolWord) -> None:
    """Raise InvalidRequest unless a policy can hold this declaration."""
    if not TOOL_NAME.fullmatch(word.tool) or "*" in word.tool:
        raise InvalidRequest("write the whole name of one tool, as agents send it")
    if not word.arguments and word.harmless is None:
        raise InvalidRequest(
            "declare the role of at least one argument, or declare the tool harmless"
        )
    for mistake in role_mistakes(word.arguments).values():
        raise InvalidRequest(mistake)


def row_of(policy: PolicyDocument, tool: str) -> ToolRow | None:
    """Return the policy's row for a tool, or None."""
    return next((row for row in policy.tools if row.name == tool), None)


def with_word(policy: PolicyDocument, word: ToolWord, *, by: str, at: str) -> PolicyDocument:
    """Return the policy with this declaration added, or the same object if nothing changes.

    Raises InvalidRequest if the tool would have too many declared arguments.
    """
    known = row_of(policy, word.tool)
    row = known or ToolRow(name=word.tool, harmless=False, agents=word.agents or ())
    merged = replace(
        row,
        arguments={**row.arguments, **word.arguments},
        harmless=row.harmless if word.harmless is None else word.harmless,
        agents=_join_agents(row.agents, word.agents),
    )
    if merged == known:
        return policy
    if len(merged.arguments) > MOST_ROLES:
        raise InvalidRequest(f"at most {MOST_ROLES} arguments of a tool can be declared")
    merged = replace(merged, declared_by=by, declared_at=at)
    if known is None:
        return replace(policy, tools=(*policy.tools, merged))
    return replace(policy, tools=tuple(merged if one is known else one for one in policy.tools))


def _join_agents(known: tuple[str, ...], new: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the agents of a row that is extended by the agents `new`; empty means all agents."""
    if new is None or not known:
        return known
    if not new:
        return ()
    return (*known, *(one for one in new if not is_named(known, one)))


def dangers_of(
    policy: PolicyDocument, word: ToolWord, record: StoredRequest | None = None
) -> tuple[str, ...]:
    """Return the risks of a declaration that an admin must confirm: restricted values that it
    frees, and more agents that it applies to.

    If the card's `record` is given, the form of its values counts too.
    """
    looks = {one.address: one.held for one in open_values(record)} if record else {}
    said = list(_find_freed(word, looks))
    if word.harmless:
        said.append("A grant may then cover every call of this tool, whatever its arguments.")
    known = row_of(policy, word.tool)
    if known is not None and _join_agents(known.agents, word.agents) != known.agents:
        said.append("Earlier declarations of this tool will then apply to more agents.")
    return tuple(said)


def _find_freed(word: ToolWord, looks: Mapping[str, Role | None]) -> Iterator[str]:
    for address, said in word.arguments.items():
        role = Role(said)
        held = held_as(word.tool, address) or looks.get(address)
        if held is not None and (role in FREE or (role in VARYING and held not in VARYING)):
            yield (
                f"By its name or its look, {json.dumps(address)} is {_article(held)}. "
                f"As {role} it may change without a new approval."
            )


def held_as(tool: str, address: str) -> Role | None:
    """Return the restrictive role that a name in an address, or the table of known tools, gives to
    a value. Freeing such a value is a risk. None if neither gives one."""
    known = narrowing_roles(tool).get(plain_name(address))
    if known in HELD:
        return known
    family = family_of(bare_name(tool))
    for name in (a or b for a, b in _NAMES.findall(address)):
        for command, url in product((False, True), repeat=2):
            beside = SiblingContext(family=family, command=command, url=url)
            role = role_of_name(name, "", beside)
            if role in HELD:
                return role
    return None


def _article(role: Role) -> str:
    words = role.value.replace("_", " ")
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
