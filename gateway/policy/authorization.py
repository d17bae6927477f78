"""Check who may decide a request, again at every click. If in doubt, refuse. Start reading at
`approver`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from gateway.domain.absences import Absence
from gateway.domain.policy_document import GROUP, PolicyDocument, Route, Ruling
from gateway.domain.records import (
    AUDITOR,
    Approvers,
    Identity,
    Person,
    ScopeQuorum,
    StoredRequest,
)
from gateway.domain.risk import StepUp, is_named
from gateway.errors import Unauthorized
from gateway.models import RiskLevel
from gateway.policy.grants.grant import OF_ALL_TOOLS, Effect, Grant, GrantVoter, Match, Scope

NO_STEP_UP = "it needs a verification code, but nobody waits where the agent runs to show one"

REMEMBERED = (RiskLevel.LOW, RiskLevel.MEDIUM)
"""Risk levels at which an approval may be remembered."""

ADMIN = "admin:"
"""Marks the `via` of an admin's own grant. No person's name and no identity looks like this."""


class Approver(NamedTuple):
    """Someone who may decide a request, and the entry of the `route` (`via`) that admits them."""

    name: str
    via: str
    route: Route


def approver(ruling: Ruling, record: StoredRequest, identity: Identity) -> Approver:
    """Return the person to whom an identity belongs and who may decide this request. Raises
    Unauthorized.

    Someone who is in a platform's group, but not among the policy's people, is known only by their
    identity. They may not decide on a route that bars requesters or needs a quorum, because the
    identity could be the second account of another person.
    """
    if record.unreviewed:
        raise Unauthorized("policy hooks are still reviewing this request; try again in a moment")
    policy, route = ruling.policy, ruling.route_at(record)
    refuse_auditor(policy, identity)
    names = policy.names_of(identity)
    via = matching_approver(route, names)
    if via is None:
        unknown = policy.person_of(identity) is None
        who = f"; the policy does not know {identity.written}" if unknown else ""
        raise Unauthorized(f"you are not an approver for this request{who}")
    if _bars_requesters(route, record):
        refuse_requester(policy, record, identity, "another person must decide this request")
    if max(record.quorum, ruling.quorum(record)) > 1:
        refuse_unknown(policy, identity)
    return Approver(names[0], via, route)


def may_approve(ruling: Ruling, record: StoredRequest, identity: Identity) -> bool:
    """Return whether an identity is an approver on a request's route, at the request's risk."""
    names = ruling.policy.names_of(identity)
    return matching_approver(ruling.route_at(record), names) is not None


def _bars_requesters(route: Route, record: StoredRequest) -> bool:
    return not route.self_approval or record.risk.level is RiskLevel.HIGH


def refuse_requester(
    policy: PolicyDocument, record: StoredRequest, identity: Identity, instead: str
) -> None:
    """Raise Unauthorized if an identity is the requester, or an unknown person who could be the
    requester."""
    asked = requesters(policy, record)
    if policy.name_of(identity) in asked:
        raise Unauthorized(f"you submitted this request yourself; {instead}")
    if asked:
        refuse_unknown(policy, identity)
    person = policy.person_of(identity)
    # A chat account that nobody has may belong to any group member.
    if person and person.groups and not asked <= {one.name for one in policy.people}:
        raise Unauthorized(f"the policy does not know who submitted this request; {instead}")


def refuse_unknown(policy: PolicyDocument, identity: Identity) -> None:
    """Raise Unauthorized for accounts that belong to nobody in the policy, for auditors, and for
    group members who could be a listed person."""
    refuse_auditor(policy, identity)
    person = policy.person_of(identity)
    if person is None:
        raise Unauthorized(
            "only people in the policy may do this: an admin can add "
            f"{identity.written} to your identities there"
        )
    if person.groups and (other := find_possible_double(policy)):
        raise Unauthorized(
            f"you could be {other}, whose entry in the policy has no `oidc:SUBJECT`: an admin "
            "can add it there"
        )


def refuse_auditor(policy: PolicyDocument, identity: Identity) -> None:
    """Raise Unauthorized for an auditor, who reads everything and changes nothing."""
    if policy.is_auditor(identity):
        raise Unauthorized(AUDITOR)


def find_possible_double(policy: PolicyDocument) -> str:
    """Return the name of a listed person who could also be a group member, or "". A person whose
    `oidc:` identity is a subject cannot. An e-mail address proves nothing, because it changes."""
    for one in policy.listed:
        known = (own for own in one.identities if own.startswith("oidc:") and "@" not in own)
        if not any(known):
            return one.name
    return ""


def requesters(policy: PolicyDocument, record: StoredRequest) -> set[str]:
    """Return the people who count as requesters: the credential's owner, and the sender that the
    request names."""
    origin = record.request.origin
    names = {record.owner} if record.owner else set()
    if origin.sender:
        names.add(policy.name_of(Identity(platform=origin.channel or "", id=origin.sender)))
    return names


def with_valid_votes(ruling: Ruling, record: StoredRequest) -> StoredRequest:
    """Return the record with only the votes that are still valid, and the quorum that is required
    now.

    A vote counts only if its person is still in the policy by this name and still an approver. If
    each vote requires a step-up now, a vote without a step-up does not count. If the quorum was
    raised after the submission, the new quorum applies; if it was lowered, the old one applies.
    """
    votes = record.votes
    if votes:
        known = _find_countable(ruling.policy)
        route, asked = ruling.route_at(record), ruling.step_up(record).asked
        each = bool(asked) and StepUp.PERSON not in asked
        votes = tuple(
            vote
            for vote in votes
            if matching_approver(route, (vote.via,))
            and vote.person in known
            and _admits(vote.via, known[vote.person])
            and not (each and vote.stepped is None)
        )
    quorum = max(record.quorum, ruling.quorum(record))
    if (votes, quorum) == (record.votes, record.quorum):
        return record
    return replace(record, votes=votes, quorum=quorum)


def _find_countable(policy: PolicyDocument) -> dict[str, Person]:
    """Return the people who can be told apart from all others, by name."""
    doubtful = bool(find_possible_double(policy))
    return {one.name: one for one in policy.people if not (one.groups and doubtful)}


def _present(policy: PolicyDocument, voices: tuple[GrantVoter, ...]) -> tuple[GrantVoter, ...]:
    """Return the makers of a grant who are still members of the groups that admitted them. Those
    who became auditors are admitted by nothing."""
    people = {one.name: one for one in policy.people}
    return tuple(
        replace(one, via=tuple(via for via in one.via if _admits(via, people.get(one.person))))
        for one in voices
    )


def _admits(via: str, person: Person | None) -> bool:
    """Whether an earlier vote of this person through this entry may still count."""
    if person is not None and person.auditor:
        return False
    return not via.startswith(GROUP) or (person is not None and via in person.groups)


def who_may_approve(ruling: Ruling, record: StoredRequest) -> Approvers:
    """Return who may approve a request now. For display only: `approver` decides again at the
    click."""
    policy, route = ruling.policy, ruling.route_at(record)
    if not route.approvers:
        return Approvers(nobody="its route has no approvers")
    steps = ruling.step_up(record)
    if steps.asked and not steps.able:
        return Approvers(nobody=NO_STEP_UP, step_up=steps.asked)
    people = {one: person.name for person in policy.people for one in person.identities}
    names = dict.fromkeys(people.get(one, one) for one in route.approvers)
    if _bars_requesters(route, record):
        asked = requesters(policy, record)
        names = dict.fromkeys(one for one in names if one not in asked)
    known = {person.name for person in policy.people}
    # Any other entry is an identity or a platform's group, whose members only the platform knows.
    may = tuple(one for one in names if one in known or ":" in one)
    nobody = "" if may else "none of the approvers of its route may decide it"
    return Approvers(names=may, nobody=nobody, step_up=steps.able)


def find_absent(
    ruling: Ruling, record: StoredRequest, absences: Iterable[Absence]
) -> tuple[Absence, ...]:
    """Return the absences that count for a request: the delegate is asked instead of the person.

    The delegate must be an approver of this request, and must neither be away nor have requested
    it. The others must be enough for the quorum. The route must allow it at high risk.
    """
    if record.risk.level is RiskLevel.HIGH and not ruling.route.high_risk_delegates:
        return ()
    gone, voted = {one.person: one for one in absences}, {vote.person for vote in record.votes}
    names = who_may_approve(ruling, record).names
    able = {*names} - gone.keys() - requesters(ruling.policy, record)
    known = (gone[name] for name in names if name in gone and name not in voted)
    away = tuple(one for one in known if one.delegate in able)
    asked = {*names, *voted} - {one.person for one in away}
    # An entry with a colon may be a group, whose members only the platform knows.
    enough = len(asked) >= max(record.quorum, ruling.quorum(record))
    return away if enough or any(":" in one for one in asked) else ()


def answers_for(policy: PolicyDocument, agent: str, identity: Identity) -> bool:
    """Return whether an identity is an admin, or an approver on any route of this agent."""
    names = policy.names_of(identity)
    routes = (one for route in _routes_of(policy, agent) for _, one in route.levels())
    return policy.is_admin(identity) or any(matching_approver(one, names) for one in routes)


def matching_approver(route: Route, names: tuple[str, ...]) -> str | None:
    """Return the first of these names that is among a route's approvers, or None."""
    for name in names:
        if name in route.approvers:
            return name
    return None


def is_backed(policy: PolicyDocument, grant: Grant) -> bool:
    """Return whether enough of the people who made a grant may still approve on its routes.

    A deny grant needs no such people, because it allows nothing. An admin's own grant stays active
    while they are an admin.
    """
    if grant.effect is Effect.DENY or _by_admin(policy, grant.backers):
        return True
    voices = _present(policy, grant.backers)
    routes = [policy.route_for(grant.agent, grant.match.tool)]
    if grant.match.shape in OF_ALL_TOOLS:
        routes = _routes_of(policy, grant.agent)
    return bool(routes) and all(
        any(_speaks(route.at(level), grant, voices) for level in REMEMBERED) for route in routes
    )


def holds_at_risk(
    policy: PolicyDocument, grant: Grant, record: StoredRequest, route: Route
) -> bool:
    """Return whether a grant may decide a request at its risk. Its makers must still be enough for
    the quorum at this risk, and no step-up may be required. Deny grants and admins' own grants
    always may."""
    if grant.effect is Effect.DENY or _by_admin(policy, grant.backers):
        return True
    if route.step_up(record.risk.level):
        return False
    there = route.at(record.risk.level)
    return there is route or _speaks(there, grant, _present(policy, grant.backers))


def _routes_of(policy: PolicyDocument, agent: str) -> list[Route]:
    return [route for route in policy.routes if is_named(route.agents, agent)]


def lets_through(policy: PolicyDocument, grant: Grant, record: StoredRequest, route: Route) -> bool:
    """Return whether the people who made a session pass or plan may decide this very request.

    On a route without self-approval, votes of people who requested it, or could be the requester,
    do not count.
    """
    voices = _present(policy, grant.backers)
    asked = set() if route.self_approval else requesters(policy, record)
    if asked:
        others = _find_countable(policy).keys() - asked
        voices = tuple(one for one in voices if one.person in others)
    return _by_admin(policy, voices) or _speaks(route.at(record.risk.level), grant, voices)


def _by_admin(policy: PolicyDocument, voices: tuple[GrantVoter, ...]) -> bool:
    names = {one.person for one in voices if ADMIN in one.via}
    admins = (one.name for one in policy.people if one.admin and not one.auditor)
    return not names.isdisjoint(admins)


def _speaks(route: Route, grant: Grant, voices: tuple[GrantVoter, ...]) -> bool:
    everywhere = grant.session is None
    needs = count_needed(route.quorum, route.scope_quorum, grant.match, everywhere=everywhere)
    return sum(matching_approver(route, one.via) is not None for one in voices) >= needs


def count_needed(quorum: int, wider: ScopeQuorum, match: Match, *, everywhere: bool) -> int:
    """Return how many people must vote to save a grant of this scope."""
    own = {
        Scope.PATTERN: wider.pattern,
        Scope.FOLDER: wider.folder,
        Scope.TOOL: wider.tool,
        Scope.LOOKS: wider.tool,
        Scope.PASS: wider.tool,
    }
    return max(quorum, own.get(match.scope, 1), wider.everywhere if everywhere else 1)
