"""Who may decide: read fresh at every click, fail closed."""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import Unauthorized
from gateway.models import RiskLevel
from gateway.records import Identity, PolicyDocument, Record


def approver(policy: PolicyDocument, record: Record, identity: Identity) -> str:
    """Return the person behind an identity, if they may decide this request; raises
    Unauthorized."""
    person = policy.person_of(identity)
    route = policy.route_for(record.request.agent, record.request.tool)
    if person is None or person.name not in route.approvers:
        raise Unauthorized("you are not an approver for this request")
    banned = not route.self_approval or record.risk.level is RiskLevel.HIGH
    if banned and person.name in requesters(policy, record):
        raise Unauthorized("you asked for this yourself; someone else must decide")
    return person.name


def requesters(policy: PolicyDocument, record: Record) -> set[str]:
    """Return the people behind a request: the credential's owner, and whom the agent names."""
    origin = record.request.origin
    claimed = policy.person_of(Identity(platform=origin.channel or "", id=origin.sender or ""))
    return {name for name in (record.owner, claimed and claimed.name) if name}


def standing(policy: PolicyDocument, record: Record) -> Record:
    """Return the record with the votes of those who may still decide; a removed one's is void."""
    approvers = policy.route_for(record.request.agent, record.request.tool).approvers
    votes = tuple(vote for vote in record.votes if vote.person in approvers)
    return replace(record, votes=votes)
