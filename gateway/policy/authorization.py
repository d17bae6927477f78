"""Who may decide: read fresh at every click, fail closed."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from gateway.domain.policy_document import PolicyDocument, Route, Ruling
from gateway.domain.records import Approvers, Identity, ScopeQuorum, StoredRequest
from gateway.domain.risk import StepUp, is_named
from gateway.errors import Unauthorized
from gateway.models import RiskLevel
from gateway.policy.grants.grant import OF_ALL_TOOLS, Effect, Grant, GrantVoter, Match, Scope

NO_STEP_UP = (
    "it takes a number that is shown where its agent waits, and it was given none, as nobody waits "
    "for it where it would be seen"
)

REMEMBERED = (RiskLevel.LOW, RiskLevel.MEDIUM)
"""The levels of risk at which approvals may be remembered."""

ADMIN = "admin:"
"""By what an admin's own grant is admitted. No person's name, and no identity, is written so."""


class Approver(NamedTuple):
    """Someone who may decide a request. `via` is the entry of the `route` that admits them."""

    name: str
    via: str
    route: Route


def approver(ruling: Ruling, record: StoredRequest, identity: Identity) -> Approver:
    """Return the person behind an identity, if they may decide this request; raises
    Unauthorized.

    Someone whom only a platform's group admits, and the people file does not know, goes by their
    identity. Where people are told apart, they may not decide: they could be anybody, in a second
    account.
    """
    if record.unreviewed:
        raise Unauthorized("policy hooks are still asked about this; it is nobody's to decide yet")
    policy, route = ruling.policy, ruling.route_at(record)
    names = policy.names_of(identity)
    via = matching_approver(route, names)
    if via is None:
        unknown = policy.person_of(identity) is None
        who = f"; the policy does not know {identity.written}" if unknown else ""
        raise Unauthorized(f"you are not an approver for this request{who}")
    if _bars_requesters(route, record):
        refuse_requester(policy, record, identity, "someone else must decide")
    if max(record.quorum, ruling.quorum(record)) > 1:
        refuse_unknown(policy, identity)
    return Approver(names[0], via, route)


def may_approve(ruling: Ruling, record: StoredRequest, identity: Identity) -> bool:
    """Whether the route of a request names an identity as approver, at the request's risk."""
    names = ruling.policy.names_of(identity)
    return matching_approver(ruling.route_at(record), names) is not None


def _bars_requesters(route: Route, record: StoredRequest) -> bool:
    return not route.self_approval or record.risk.level is RiskLevel.HIGH


def refuse_requester(
    policy: PolicyDocument, record: StoredRequest, identity: Identity, instead: str
) -> None:
    """Raise Unauthorized for who asked, and for who could be the same human in another account."""
    asked = requesters(policy, record)
    if policy.name_of(identity) in asked:
        raise Unauthorized(f"you asked for this yourself; {instead}")
    if asked:
        refuse_unknown(policy, identity)


def refuse_unknown(policy: PolicyDocument, identity: Identity) -> None:
    """Raise Unauthorized for an account that no person is known to have."""
    if policy.person_of(identity) is None:
        raise Unauthorized(
            "this takes somebody whom the policy knows as a person: an admin can add "
            f"{identity.written} to your identities there"
        )


def requesters(policy: PolicyDocument, record: StoredRequest) -> set[str]:
    """Return the people behind a request: the credential's owner, and whom the agent names."""
    origin = record.request.origin
    names = {record.owner} if record.owner else set()
    if origin.sender:
        names.add(policy.name_of(Identity(platform=origin.channel or "", id=origin.sender)))
    return names


def with_valid_votes(ruling: Ruling, record: StoredRequest) -> StoredRequest:
    """Return the record with the votes of those who may still decide.

    A removed one's is void, and one of a name that is nobody's now: a person who was renamed could
    vote twice. So is one without a step-up that each vote takes now. A quorum that was raised
    meanwhile holds for what waits, too; one that was lowered does not.
    """
    votes = record.votes
    if votes:
        known = {person.name for person in ruling.policy.people}
        route, asked = ruling.route_at(record), ruling.step_up(record).asked
        each = bool(asked) and StepUp.PERSON not in asked
        votes = tuple(
            vote
            for vote in votes
            if vote.person in known
            and matching_approver(route, (vote.via,))
            and not (each and vote.stepped is None)
        )
    quorum = max(record.quorum, ruling.quorum(record))
    if (votes, quorum) == (record.votes, record.quorum):
        return record
    return replace(record, votes=votes, quorum=quorum)


def who_may_approve(ruling: Ruling, record: StoredRequest) -> Approvers:
    """Return who may approve a request as it stands. It is for what people see: at the click
    `approver` has the last word."""
    policy, route = ruling.policy, ruling.route_at(record)
    if not route.approvers:
        return Approvers(nobody="its route names no approvers")
    steps = ruling.step_up(record)
    if steps.asked and not steps.able:
        return Approvers(nobody=NO_STEP_UP, step_up=steps.asked)
    people = {one: person.name for person in policy.people for one in person.identities}
    names = dict.fromkeys(people.get(one, one) for one in route.approvers)
    if _bars_requesters(route, record):
        asked = requesters(policy, record)
        names = dict.fromkeys(one for one in names if one not in asked)
    known = {person.name for person in policy.people}
    # Any other entry is an identity or a group of a platform, and the platform knows who is in it.
    may = tuple(one for one in names if one in known or ":" in one)
    nobody = "" if may else "its route names nobody who may decide it"
    return Approvers(names=may, nobody=nobody, step_up=steps.able)


def answers_for(policy: PolicyDocument, agent: str, identity: Identity) -> bool:
    """Whether an identity is an admin's, or may approve anything of this agent."""
    names = policy.names_of(identity)
    routes = (one for route in _routes_of(policy, agent) for _, one in route.levels())
    return policy.is_admin(identity) or any(matching_approver(one, names) for one in routes)


def matching_approver(route: Route, names: tuple[str, ...]) -> str | None:
    """Return the entry of a route's approvers that admits someone of these names, or None."""
    for name in names:
        if name in route.approvers:
            return name
    return None


def is_backed(policy: PolicyDocument, grant: Grant) -> bool:
    """Whether a grant still speaks for as many people who may approve there as it takes.

    A denial always does: that somebody was removed allows nothing. An admin's own grant does as
    long as they are an admin.
    """
    if grant.effect is Effect.DENY or _by_admin(policy, grant.backers):
        return True
    routes = [policy.route_for(grant.agent, grant.match.tool)]
    if grant.match.shape in OF_ALL_TOOLS:
        routes = _routes_of(policy, grant.agent)
    return bool(routes) and all(
        any(_speaks(route.at(level), grant, grant.backers) for level in REMEMBERED)
        for route in routes
    )


def holds_at_risk(
    policy: PolicyDocument, grant: Grant, record: StoredRequest, route: Route
) -> bool:
    """Whether a grant may decide a request of this risk: who made it may approve there, as many as
    it takes, and no step-up is asked for. A denial always may, and an admin's own."""
    if grant.effect is Effect.DENY or _by_admin(policy, grant.backers):
        return True
    if route.step_up(record.risk.level):
        return False
    there = route.at(record.risk.level)
    return there is route or _speaks(there, grant, grant.backers)


def _routes_of(policy: PolicyDocument, agent: str) -> list[Route]:
    return [route for route in policy.routes if is_named(route.agents, agent)]


def lets_through(policy: PolicyDocument, grant: Grant, record: StoredRequest, route: Route) -> bool:
    """Whether a pass speaks for those who may decide this very request, which nobody has seen.

    On a route without self-approval that is none of those who asked.
    """
    voices = grant.backers
    asked = set() if route.self_approval else requesters(policy, record)
    if asked:
        others = {one.name for one in policy.people} - asked
        voices = tuple(one for one in voices if one.person in others)
    return _by_admin(policy, voices) or _speaks(route.at(record.risk.level), grant, voices)


def _by_admin(policy: PolicyDocument, voices: tuple[GrantVoter, ...]) -> bool:
    names = {one.person for one in voices if ADMIN in one.via}
    return bool(names) and any(one.admin and one.name in names for one in policy.people)


def _speaks(route: Route, grant: Grant, voices: tuple[GrantVoter, ...]) -> bool:
    everywhere = grant.session is None
    needs = count_needed(route.quorum, route.scope_quorum, grant.match, everywhere=everywhere)
    return sum(matching_approver(route, one.via) is not None for one in voices) >= needs


def count_needed(quorum: int, wider: ScopeQuorum, match: Match, *, everywhere: bool) -> int:
    """Return how many people must vote for remembering an approval so."""
    own = {
        Scope.PATTERN: wider.pattern,
        Scope.FOLDER: wider.folder,
        Scope.TOOL: wider.tool,
        Scope.LOOKS: wider.tool,
        Scope.PASS: wider.tool,
    }
    return max(quorum, own.get(match.scope, 1), wider.everywhere if everywhere else 1)
