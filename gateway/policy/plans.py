"""Read each line of a plan as a separate request. Start reading at `lines_of`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from gateway.domain.plans import plan_of
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import StoredRequest
from gateway.domain.risk import RaisedRisk
from gateway.errors import InvalidRequest
from gateway.models import ApprovalRequest, Kind, PlannedCall, digest_of
from gateway.policy.authorization import count_needed
from gateway.policy.grants.grant import Match
from gateway.policy.grants.offers import plan_line

_ANY_TEXT = "text"  # replaces a text that may vary, while a line is read
_KEPT = "_lines"


class PlanLine(NamedTuple):
    """A line of a plan: its number, from 1, its name for people, its call, and that call as a
    request. `words` and `match` are the scope of the grant that is made from the line."""

    number: int
    name: str
    call: PlannedCall
    record: StoredRequest
    words: str
    match: Match


def lines_of(policy: PolicyDocument, record: StoredRequest) -> tuple[PlanLine, ...]:
    """Return the lines of a plan, with the policy's declarations of their tools. The result is
    empty if the request is not a plan.

    The result is cached on the record. Raises InvalidRequest for an invalid plan, and for a line
    whose call may not be in a plan.
    """
    if record.request.kind is not Kind.CALLS:
        return ()
    rests_on = (policy, record.request, record.edited)
    known, found = record.__dict__.get(_KEPT, ((), ()))
    if not known or any(one is not two for one, two in zip(known, rests_on, strict=True)):
        found = tuple(_lines_of(policy, record))
        record.__dict__[_KEPT] = rests_on, found
    return found  # type: ignore[no-any-return]


def _lines_of(policy: PolicyDocument, record: StoredRequest) -> Iterator[PlanLine]:
    for number, call in enumerate(plan_of(record).calls, 1):
        name = f"line {number}, {json.dumps(call.tool, ensure_ascii=False)}"
        line = _record_of(policy, record, call)
        try:
            words, match = plan_line(line, call.any_text)
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}: {error}") from None
        yield PlanLine(number, name, call, line, words, match)


def risks_of(lines: tuple[PlanLine, ...], policy: PolicyDocument) -> list[RaisedRisk]:
    """Return the risks of the calls in a plan, by the risk rules."""
    found = [(one, policy.risk_of(one.record.request, one.record.arguments)) for one in lines]
    return [
        RaisedRisk(decider="plan", by=line.name, level=risk.level, reasons=risk.reasons)
        for line, risk in found
    ]


def quorum_of(lines: tuple[PlanLine, ...], policy: PolicyDocument) -> int:
    """Return how many people must vote for a plan: the highest number that a grant for any line
    needs."""
    found = [(one, policy.ruling_on(one.record.request).route_at(one.record)) for one in lines]
    return max(
        (
            count_needed(route.quorum, route.scope_quorum, line.match, everywhere=False)
            for line, route in found
        ),
        default=1,
    )


def _record_of(policy: PolicyDocument, record: StoredRequest, call: PlannedCall) -> StoredRequest:
    asked = record.request
    request = ApprovalRequest(
        id=asked.id, agent=asked.agent, session=asked.session, tool=call.tool, kind=call.kind,
        arguments={**call.arguments, **dict.fromkeys(call.any_text, _ANY_TEXT)},
        digest="0" * 64, context=asked.context, origin=asked.origin, roles=call.roles,
    )  # fmt: skip
    request = replace(request, digest=digest_of(request))
    line = StoredRequest(
        request=request, status=record.status, revision=record.revision, digest=request.digest,
        created=record.created, deadline=record.deadline, owner=record.owner,
    )  # fmt: skip
    risk = policy.risk_of(request, request.arguments)
    return policy.declare(line.copy_with(risk=risk))
