"""Runs the policy chain for a request, and derives the outcome."""

from __future__ import annotations

from dataclasses import replace

from gateway.domain.json_schema import check_schema
from gateway.domain.outcome import Outcome
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import REVIEWS, Record
from gateway.errors import InvalidRequest
from gateway.models import Action, Status, digest_of
from gateway.policy.chain import ALLOW, ASK, DENY, LATER, MODIFY, RESPOND, Chain
from gateway.policy.decider import Verdict
from gateway.policy.guardrails import assess


async def judge(
    chain: Chain, record: Record, policy: PolicyDocument, *, stored: bool = True
) -> tuple[Record, Outcome | None]:
    """Return the record, changed where a hook wants that, and how it ends; None asks people.

    Before it is `stored`, what slow deciders have to say first is left to `approvals.hook_reviews`.
    """
    route = policy.route_for(record.request.agent, record.request.tool)
    verdict = await chain.decide(record, route, stored=stored)
    if verdict is not None and verdict.effect == LATER:
        return replace(record, queues=(REVIEWS,)), None
    if verdict is not None and verdict.effect == MODIFY:
        try:
            record = _modify(record, verdict, policy)
        except InvalidRequest as error:
            # What the hook wanted changed must not run as it was.
            return record, _outcome_of(record, replace(verdict, effect=DENY, message=str(error)))
        verdict = await chain.decide(record, route)
    return record, None if verdict is None else _outcome_of(record, verdict)


def _modify(record: Record, verdict: Verdict, policy: PolicyDocument) -> Record:
    """Return the record as a hook changed it: another digest, other risk, and people see it."""
    request, arguments = record.request, verdict.arguments or {}
    if Action.EDIT not in request.allowed:
        raise InvalidRequest("changed by a policy hook, and the agent takes no changed arguments")
    check_schema(request.schema, arguments)
    changed = replace(record, edited=arguments, digest=digest_of(request, arguments))
    return assess(changed, policy)


def _outcome_of(record: Record, verdict: Verdict) -> Outcome | None:
    """Return how a verdict of the policy ends a waiting request, None when people decide."""
    if verdict.effect in (ASK, MODIFY):
        return None
    allows = verdict.effect == ALLOW
    # What cannot be approved, such as a question, no rule can answer: it may only refuse it.
    if allows and Action.APPROVE not in record.request.allowed:
        return None
    if verdict.effect == RESPOND and Action.RESPOND not in record.request.allowed:
        return None
    approves = Action.APPROVE if record.edited is None else Action.EDIT
    denies = Action.ABORT if verdict.abort else Action.DENY
    return Outcome(
        status=Status.APPROVED if allows or verdict.effect == RESPOND else Status.DENIED,
        action=Action.RESPOND if verdict.effect == RESPOND else approves if allows else denies,
        reason=verdict.reason,
        by=verdict.by,
        message=verdict.message,
        arguments=record.edited if allows else None,
        result=verdict.result if verdict.effect == RESPOND else None,
        abort=verdict.abort if verdict.effect == DENY else None,
    )
