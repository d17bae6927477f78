"""Whether anybody could approve, or act as an admin, after a policy is put in force."""

from __future__ import annotations

from collections.abc import Collection

from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Person
from gateway.domain.step_up import StepUp
from gateway.models import RiskLevel
from gateway.policy.policy_file import LOGIN


def find_lockout(policy: PolicyDocument, tokens: Collection[str]) -> str:
    """Say why nobody could approve anything under this policy, and what to do; empty when somebody
    could. `tokens` are the names of the people who have a token to log in with."""
    levels = [one for route in policy.routes for _, one in route.levels()]
    if any(_is_answerable(policy, route, tokens) for route in levels):
        return ""
    named = {name for route in levels for name in route.approvers}
    missing = sorted(p.name for p in policy.people if p.name in named and p.name not in tokens)
    if missing:
        remedy = "give them a token first: " + "; ".join(
            f"gateway approver add {name}" for name in missing
        )
    else:
        remedy = "add [[people]], and approvers to [[routes]], as in docs/routes.md"
    return f"after this nobody could approve anything; {remedy}"


def find_no_admin(policy: PolicyDocument, tokens: Collection[str]) -> str:
    """Say that nobody would be an admin who can log in, and what to do; empty when somebody is."""
    admins = {person.name: person for person in policy.people if person.admin}
    if any(_can_log_in(person, tokens) for person in admins.values()):
        return ""
    if admins:
        remedy = "give one of them a token first: " + "; ".join(
            f"gateway approver add {name}" for name in sorted(admins)
        )
    else:
        remedy = "add `admin = true` to somebody in [[people]]"
    return (
        "after this nobody could act as an admin (`explain`, `tool declare`, the kill switch in a "
        f"chat); {remedy}"
    )


def unanswerable_levels(policy: PolicyDocument, tokens: Collection[str]) -> list[str]:
    """Say at which levels of risk a route has nobody who could approve, though it has at others."""
    found = []
    for route in policy.routes:
        able = {level: _is_answerable(policy, one, tokens) for level, one in route.levels()}
        if any(able.values()):
            found += [
                f"nobody could approve {level} risk on route {route.name}: its approvers there are "
                "too few, or have no login"
                for level, can in able.items()
                if not can
            ]
    return found


def unprovable_levels(policy: PolicyDocument, why_no_passkeys: str) -> list[str]:
    """Say at which levels of risk a route takes nothing but a passkey, where none can be used:
    then nothing is approved there. An empty reason means that they can."""
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
    """Say who could no longer answer where they can now, and the line that would keep it."""
    stays = {person.name: person.identities for person in after.people}
    found = []
    for person in before.people:
        kept = stays.get(person.name)
        gone = [] if kept is None else [one for one in person.identities if one not in kept]
        for identity in gone:
            found.append(
                f"{person.name} could no longer answer as {identity}; "
                f'to keep it, add it to their identities: "{identity}"'
            )
    return found


def _is_answerable(policy: PolicyDocument, route: Route, tokens: Collection[str]) -> bool:
    """Whether enough people of a route can log in somewhere; a chat's group counts as enough."""
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
    """Whether a person has a token, or an identity somewhere else."""
    own = f"{LOGIN}:{person.name}"
    return person.name in tokens or any(one != own for one in person.identities)
