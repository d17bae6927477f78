"""Create the grants of an approved plan, one for each of its lines (`list_grants`)."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.approvals.grant_lifecycle import grant_id_of
from gateway.domain.plans import plan_of
from gateway.domain.policy_document import Ruling
from gateway.domain.records import Click, StoredRequest
from gateway.errors import InvalidRequest, Unauthorized
from gateway.models import Action, Kind, RiskLevel
from gateway.policy.authorization import approver, holds_at_risk, is_backed, matching_approver
from gateway.policy.grants.grant import Effect, Grant, GrantVoter
from gateway.policy.plans import PlanLine, lines_of

_STRIKE = "remove this line from the plan"


def list_grants(ruling: Ruling, after: StoredRequest, click: Click, now: int) -> tuple[Grant, ...]:
    """Return the grants of a plan that a click approves, or none if the plan needs more votes.

    `now` is in ms. Raises InvalidRequest for calls that cannot be planned, and Unauthorized unless
    the clicking person may approve each of them.
    """
    if after.request.kind is not Kind.CALLS or click.action not in (Action.APPROVE, Action.EDIT):
        return ()
    if after.risk.level is RiskLevel.HIGH:
        raise InvalidRequest(
            "a high-risk plan cannot be approved: remove the lines that raise the risk"
        )
    made = tuple(_grants(ruling, after, click, now))
    return made if after.final else ()


def _grants(ruling: Ruling, after: StoredRequest, click: Click, now: int) -> Iterator[Grant]:
    policy, asked = ruling.policy, after.request
    ends = now + plan_of(after).minutes * 60_000
    for line in lines_of(policy, after):
        backers = _backers(ruling, line, after, click)
        grant = Grant(
            id=grant_id_of(after.id, f"line {line.number}"),
            effect=Effect.ALLOW,
            agent=asked.agent,
            session=asked.session,
            match=line.match,
            made_by=backers[0].person,
            made_at=now,
            expires_at=ends,
            max_uses=line.call.times,
            from_request=after.id,
            words=after.hide(f"line {line.number} of plan {after.id[:8]}: {line.words}"),
            backers=backers,
            line=line.number,
        )
        route = policy.route_for(asked.agent, line.call.tool)
        holds = holds_at_risk(policy, grant, line.record, route) and is_backed(policy, grant)
        if after.final and not holds:
            raise Unauthorized(f"{line.name}: this line needs more approvers; {_STRIKE}")
        yield grant


def _backers(
    ruling: Ruling, line: PlanLine, after: StoredRequest, click: Click
) -> tuple[GrantVoter, ...]:
    """Return the people whose votes back a line: the clicking person, then earlier approvers."""
    policy, record = ruling.policy, line.record
    own = policy.ruling_on(record.request)
    if own.step_up(record).asked:
        raise InvalidRequest(
            f"{line.name}: this line needs extra verification each time; {_STRIKE}"
        )
    try:
        who = approver(own, record, click.identity)
    except Unauthorized as error:
        raise Unauthorized(f"{line.name}: {error}; {_STRIKE}") from None
    found = {who.name: GrantVoter(person=who.name, via=(who.via,))}
    known = {one.name: one.identities for one in policy.people}
    for vote in after.votes:
        names = (vote.person, *known.get(vote.person, ()), vote.via)
        via = matching_approver(own.route_at(record), names)
        if via is not None:
            found.setdefault(vote.person, GrantVoter(person=vote.person, via=(via,)))
    return tuple(found.values())
