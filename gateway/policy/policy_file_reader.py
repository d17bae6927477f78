"""Read and check the policy file, and find out whether anybody could still approve requests or be
an admin.

Start reading at `read_policy`. `gateway apply` writes the policy to Redis as one document, so that
all replicas use the same policy. If the file has any mistake, the whole file is rejected with a
message.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

from gateway.domain.parsing import parse_message
from gateway.domain.policy_document import (
    ALLOWED_ORIGIN,
    GROUP,
    ORIGIN,
    REQUESTER,
    Budget,
    PolicyDocument,
    PolicyRule,
    Route,
    Rulebook,
    ToolRow,
)
from gateway.domain.records import Person
from gateway.domain.risk import RiskRule, StepUp
from gateway.errors import InvalidRequest
from gateway.models import RiskLevel
from gateway.policy.rules import mistakes
from gateway.wire.codec import plain
from gateway.wire.roles import role_mistakes
from gateway.wire.schema import TOOL_NAME

_DOMAIN = re.compile(r"(?:\*\.)?(?:[a-z0-9-]+\.)+[a-z0-9-]+")
LOGIN = "token"  # platform of people who log in by name, with a credential of the gateway


class BadPolicy(InvalidRequest):
    """The policy file cannot be applied. The active policy stays unchanged."""

    code = "bad_policy"


def read_policy(text: str) -> PolicyDocument:
    """Return the document that a policy file describes. Raises BadPolicy.

    Each person also gets an identity for signing in by name, which requires a credential.
    """
    try:
        values = tomllib.loads(text)
        raw = json.dumps(values, allow_nan=False).encode()
    except (tomllib.TOMLDecodeError, TypeError, ValueError, RecursionError) as error:
        raise BadPolicy(
            f"the file is not valid TOML, or has values of a type that is not allowed: {error}"
        ) from None
    try:
        found = parse_message(Rulebook, raw)
    except InvalidRequest as error:
        raise BadPolicy(str(error)) from None
    members = {one.name: getattr(found, one.name) for one in fields(found)}
    people = tuple(_with_login(person) for person in found.people)
    document = PolicyDocument(**{**members, "people": people})
    if mistakes := [*_mistakes(document), *_role_mistakes(document, text)]:
        raise BadPolicy(" ".join(mistakes))
    return document


def read_policy_file(path: Path) -> PolicyDocument:
    """Return the document that the file at `path` describes; raises BadPolicy."""
    try:
        return read_policy(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadPolicy(f"cannot read {path}: {error}") from None


def differences(before: PolicyDocument, after: PolicyDocument) -> list[str]:
    """Return the changes that a new document makes, one line for each."""
    return [
        *_compare_named("person", before.people, after.people),
        *_compare_named("route", before.routes, after.routes),
        *_compare_named("risk rule", before.risks, after.risks),
        *_compare_named("rule", before.rules, after.rules),
        *_compare_named("budget", before.budgets, after.budgets),
        *_compare_named("tool", before.tools, after.tools),
        *(line for name in _PLAIN for line in _compare_values(name, before, after)),
    ]


_PLAIN = (
    *("groups_claim", "admin_groups", "auditor_groups"),
    *("trust_declarations", "own_domains", "guardrails"),
)


def _compare_values(name: str, before: PolicyDocument, after: PolicyDocument) -> Iterator[str]:
    old, new = getattr(before, name), getattr(after, name)
    if old != new:
        yield f"~ {name}: {_words(_bare(old))} -> {_words(_bare(new))}"


def _with_login(person: Person) -> Person:
    login = f"{LOGIN}:{person.name}"
    if login in person.identities:
        return person
    return replace(person, identities=(login, *person.identities))


def _mistakes(policy: PolicyDocument) -> Iterator[str]:
    yield from _doubles("person", [person.name for person in policy.people])
    yield from _doubles("route", [route.name for route in policy.routes])
    yield from _doubles("risk rule", [rule.name for rule in policy.risks])
    yield from _doubles("rule", [rule.name for rule in policy.rules])
    yield from _doubles("budget", [one.name for one in policy.budgets])
    yield from _doubles("tool", [row.name for row in policy.tools])
    for row in policy.tools:
        if not TOOL_NAME.fullmatch(row.name) or "*" in row.name:
            yield f"Tool {row.name!r}: write the whole name of one tool, as agents send it."
    for one in policy.budgets:
        if (
            min(one.waiting, one.bytes, one.daily, one.cards) < 1
            or one.denials < 0
            or one.pause <= 0
        ):
            yield (
                f"Budget {one.name!r}: write numbers above 0; only denials may be 0, which means "
                f"never."
            )
    for domain in (one for one in policy.own_domains if not _DOMAIN.fullmatch(one)):
        yield f"The own domain {domain!r} must be written like example.com or *.example.com."
    for rule in policy.rules:
        yield from (f"Rule {rule.name!r}: {text}" for text in mistakes(rule))
    written = [one for person in policy.people for one in person.identities]
    yield from _doubles("identity", written)
    for identity in written:
        if not all(identity.partition(":")):
            yield f"The identity {identity!r} must be written platform:id."
    yield from _right_mistakes(policy)
    names = {person.name for person in policy.people}
    for route in policy.routes:
        yield from (f"Route {route.name!r}: {text}" for text in _mistakes_of(route, names))


def _right_mistakes(policy: PolicyDocument) -> Iterator[str]:
    """Yield the mistakes in groups of the identity provider and in the rights of auditors."""
    named = {one for route in policy.routes for one in route.admitted} | {*policy.admin_groups}
    groups = {*policy.admin_groups, *policy.auditor_groups}
    for group in sorted(groups):
        if not group.startswith(GROUP) or group == GROUP:
            yield f"The group {group!r} must be written {GROUP}NAME."
    for group in sorted(named.intersection(policy.auditor_groups)):
        yield f"The group {group!r} of auditors can have no other right."
    groups |= {one for one in named if one.startswith(GROUP)}
    if groups and not policy.groups_claim:
        yield f'The group {min(groups)!r} needs `groups_claim`, such as `groups_claim = "groups"`.'
    for one in policy.people:
        if one.groups or any(identity.startswith(GROUP) for identity in one.identities):
            yield f"The person {one.name!r} cannot have groups: the identity provider names them."
        if one.auditor and (one.admin or named & {one.name, *one.identities}):
            yield f"The auditor {one.name!r} can be neither an admin nor an approver of a route."


def _role_mistakes(policy: PolicyDocument, text: str) -> Iterator[str]:
    for number, row in enumerate(policy.tools):
        for address, said in role_mistakes(row.arguments).items():
            yield f"{_place(text, number, address)}Tool {row.name!r}: {said}."


def _place(text: str, number: int, address: str) -> str:
    """Return the line number of an argument's role as a prefix for a message. If several lines
    define the role, the first counts."""
    lines = text.splitlines(keepends=True)
    written = tomllib.loads(text)["tools"][number]["arguments"][address]
    for count, line in enumerate(lines, 1):
        if written not in line:
            continue
        try:
            found = tomllib.loads("".join(lines[:count]))["tools"][number]["arguments"][address]
        except (tomllib.TOMLDecodeError, LookupError):
            continue
        if found == written:
            return f"Line {count}: "
    return ""


def _mistakes_of(route: Route, people: set[str]) -> Iterator[str]:
    yield from dict.fromkeys(
        said for _, one in route.levels() for said in _approver_mistakes(one, people)
    )
    yield from _level_mistakes(route)
    if route.timeout < 0 or any(after <= 0 for after in route.remind_after):
        yield "timeout and the times in remind_after must be positive numbers of seconds."
    if route.max_timeout is not None and route.max_timeout <= 0:
        yield "max_timeout must be a number of seconds above 0; leave it out for no limit."
    if not route.targets:
        yield "the route has no targets, so nobody would see its requests."
    yield from _mistaken_places(route)


def _approver_mistakes(route: Route, people: set[str]) -> Iterator[str]:
    for name in route.approvers:
        if name not in people and not all(name.partition(":")):
            yield f"the approver {name!r} is neither a person in this file nor written platform:id."
    yield from _quorum_mistakes(route, people)


def _level_mistakes(route: Route) -> Iterator[str]:
    """Yield a mistake for each risk level that requires less than a lower level. An edit that
    raises the risk may not make approval easier."""
    for (lower, below), (level, above) in pairwise(route.levels()):
        if above.quorum < below.quorum:
            yield (
                f"{level} risk needs {above.quorum} people, but {lower} risk needs {below.quorum}."
            )
        if route.step_up(lower) and not route.step_up(level):
            yield f"{lower} risk needs extra verification (`step_up`), but {level} risk does not."


def _mistaken_places(route: Route) -> Iterator[str]:
    steps = [step.after for step in route.escalations]
    if steps != sorted(steps) or list(route.remind_after) != sorted(route.remind_after):
        yield "escalations and reminders must be in the order of their times."
    if ORIGIN in (*route.notify, *(one for step in route.escalations for one in step.targets)):
        yield "`origin` may only be in `targets`."
    if route.origins and not route.agents:
        yield "with `origins`, name the agents in `agents`: each of them may post cards there."
    for place in (one for one in route.origins if not ALLOWED_ORIGIN.fullmatch(one)):
        yield f"the origin {place!r} is not written as slack:TEAM/CHANNEL, or slack:TEAM/ for all."
    for target in (*route.places(len(route.escalations)), *route.notify):
        if target != REQUESTER and not all(part for part in target.split(":", 1)):
            yield f"the target {target!r} must be written adapter:channel."


def _quorum_mistakes(route: Route, people: set[str]) -> Iterator[str]:
    wider = route.scope_quorum
    scopes = (wider.pattern, wider.folder, wider.tool, wider.everywhere)
    if route.quorum < 1 or min(scopes) < 1:
        yield "a quorum must be at least 1."
    groups = any(name not in people for name in route.approvers)
    if not route.approvers or groups:
        return
    there = len(set(route.approvers))
    if route.quorum > there:
        yield f"{route.quorum} people must approve, but only {there} may."
    if max(scopes) > there:
        yield f"{max(scopes)} people must vote for a wide grant, but only {there} may."


def _doubles(what: str, names: Sequence[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"The {what} {name!r} appears twice; remove one."


def _compare_named(what: str, before: Iterable[Any], after: Iterable[Any]) -> Iterator[str]:
    old, new = {one.name: one for one in before}, {one.name: one for one in after}
    for name in {**old, **new}:
        if name not in new:
            yield f"- {what} {name}{_describe_lost(old[name])}"
        elif name not in old:
            members = (f"{member} {text}" for member, text in _describe(new[name]).items())
            yield f"+ {what} {name}: {'; '.join(members) or 'as it comes'}"
        elif old[name] != new[name]:
            yield from _compare_members(f"{what} {name}", old[name], new[name])
    if list(old) != list(new) and old.keys() == new.keys():
        yield f"~ order of the {what}s: {', '.join(new)}"


def _describe_lost(one: Any) -> str:
    """Return what a removed row declares if it was declared on a card, because no file has it; else
    ""."""
    if not isinstance(one, ToolRow) or not one.declared_by:
        return ""
    return ": " + "; ".join(f"{member} {text}" for member, text in _describe(one).items())


def declared_since(before: PolicyDocument, after: PolicyDocument) -> list[str]:
    """Return the tools that were declared on cards and that the new document lacks."""
    kept = {row.name: row for row in after.tools}
    return [
        row.name
        for row in before.tools
        if row.declared_by and not _says_as_much(kept.get(row.name), row)
    ]


def _says_as_much(new: ToolRow | None, old: ToolRow) -> bool:
    if new is None:
        return False
    return new == replace(old, declared_by=new.declared_by, declared_at=new.declared_at)


def _compare_members(name: str, old: Any, new: Any) -> Iterator[str]:
    """Yield a line for each changed member, with its values before and after."""
    for member in (one.name for one in fields(old)):
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            yield f"~ {name}: {member}: {_words(_bare(before))} -> {_words(_bare(after))}"


def _bare(value: Any) -> Any:
    """Return a member's value as plain JSON, defaults included."""
    if is_dataclass(value):
        return {one.name: _bare(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | frozenset):
        return [_bare(one) for one in value]
    return value


def _describe(one: Person | Route | RiskRule | PolicyRule | Budget | ToolRow) -> dict[str, str]:
    """Return the members that differ from their defaults, in words."""
    return {name: _words(value) for name, value in plain(one).items() if name != "name"}


def _words(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Whether anybody could approve, or act as an admin, after a policy is applied.


def find_lockout(policy: PolicyDocument, tokens: Collection[str]) -> str:
    """Return why nobody could approve anything under this policy, and what to do; "" if somebody
    could. `tokens` are the names of the people who have a token to sign in with."""
    levels = [one for route in policy.routes for _, one in route.levels()]
    if any(_is_answerable(policy, route, tokens) for route in levels):
        return ""
    named = {name for route in levels for name in route.approvers}
    missing = sorted(p.name for p in policy.people if p.name in named and p.name not in tokens)
    if missing:
        remedy = "give these people a token first: " + "; ".join(
            f"gateway approver add {name}" for name in missing
        )
    else:
        remedy = "add [[people]], and approvers to [[routes]], as in docs/guides/write-policy.md"
    return f"with this policy nobody could approve anything; {remedy}"


def find_no_admin(policy: PolicyDocument, tokens: Collection[str]) -> str:
    """Return a sentence if no admin could sign in under this policy, and what to do; "" if an admin
    could."""
    admins = {person.name: person for person in policy.people if person.admin}
    if policy.admin_groups or any(_can_log_in(person, tokens) for person in admins.values()):
        return ""
    if admins:
        remedy = "give one of them a token first: " + "; ".join(
            f"gateway approver add {name}" for name in sorted(admins)
        )
    else:
        remedy = "add `admin = true` to somebody in [[people]]"
    return (
        "with this policy nobody could act as an admin (`explain`, `tool declare`, the kill "
        "switch in a "
        f"chat); {remedy}"
    )


def unanswerable_levels(policy: PolicyDocument, tokens: Collection[str]) -> list[str]:
    """Return the risk levels at which nobody could approve, for routes on which somebody could
    approve at other levels."""
    found = []
    for route in policy.routes:
        able = {level: _is_answerable(policy, one, tokens) for level, one in route.levels()}
        if any(able.values()):
            found += [
                f"nobody could approve {level} risk on route {route.name}: "
                "the route has too few approvers for it, or they have no login"
                for level, can in able.items()
                if not can
            ]
    return found


def unprovable_levels(policy: PolicyDocument, why_no_passkeys: str) -> list[str]:
    """Return the risk levels at which nobody can approve, because a route requires a passkey and
    none can be used. `why_no_passkeys` is empty if passkeys work."""
    if not why_no_passkeys:
        return []
    return [
        f"nobody could approve {level} risk on route {route.name}, which takes a passkey: "
        f"{why_no_passkeys}"
        for route in policy.routes
        for level in RiskLevel
        if set(route.step_up(level)) == {StepUp.PASSKEY}
    ]


def lost_logins(before: PolicyDocument, after: PolicyDocument) -> list[str]:
    """Return the identities that people lose with a new document, and how to keep these
    identities."""
    stays = {person.name: person.identities for person in after.people}
    found = []
    for person in before.people:
        kept = stays.get(person.name)
        gone = [] if kept is None else [one for one in person.identities if one not in kept]
        for identity in gone:
            found.append(
                f"{person.name} could no longer decide as {identity}; to keep this account, "
                f'add it to their identities: "{identity}"'
            )
    return found


def _is_answerable(policy: PolicyDocument, route: Route, tokens: Collection[str]) -> bool:
    """Return whether enough approvers of a route can sign in. A group of a chat platform counts as
    enough."""
    people = {person.name: person for person in policy.people}
    able = set()
    for name in route.approvers:
        person = people.get(name)
        if person is None:
            platform, _, who = name.partition(":")
            if platform != LOGIN:
                return True
            if who in tokens:
                able.add(who)
        elif _can_log_in(person, tokens):
            able.add(name)
    return len(able) >= route.quorum


def _can_log_in(person: Person, tokens: Collection[str]) -> bool:
    """Return whether a person has a token, or an identity on another platform."""
    own = f"{LOGIN}:{person.name}"
    return person.name in tokens or any(one != own for one in person.identities)
