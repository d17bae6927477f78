"""Requests, and the grants that an approver would make of them."""

from __future__ import annotations

from typing import Any

from gateway.domain.records import StoredRequest
from gateway.models import Context, Kind, new_id
from gateway.policy.calls.call_effects import effects_of
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import (
    Answer,
    Effect,
    Grant,
    GrantVoter,
    Match,
    MatchResult,
    Rule,
    Scope,
    Shape,
)
from gateway.policy.grants.offers import Offer, offers
from tests.unit.test_transitions import record
from tests.world import AGENT, request

CWD = "/ws"


def asked(
    tool: str = "lookup", *, risk: Any = None, harmless: Any = False, **changes: Any
) -> StoredRequest:
    """Return a pending request for a tool, working in /ws."""
    values = {"context": Context(cwd=CWD), **changes}
    more = {} if risk is None else {"risk": risk}
    return record(request=request(tool=tool, **values), harmless=harmless, **more)


def command(text: Any, **changes: Any) -> StoredRequest:
    """Return a pending request to run a command in /ws."""
    values = {"kind": Kind.COMMAND, "arguments": {"command": text}, **changes}
    return asked("shell", **values)


def granted(match: Match, effect: Effect = Effect.ALLOW, **changes: Any) -> Grant:
    """Return a grant of ann's."""
    ann = GrantVoter(person="ann", via=("ann",))
    values = {"id": new_id(), "agent": AGENT, "made_by": "ann", "made_at": 0, "backers": (ann,)}
    return Grant(effect=effect, match=match, **{**values, **changes})


def remembered(
    record: StoredRequest, shape: Shape = Shape.PATTERN, effect: Effect = Effect.ALLOW
) -> Grant:
    """Return the widest grant of this shape that is offered for a request."""
    return granted(offer_of(record, shape, effect).match, effect)


def offer_of(
    record: StoredRequest, shape: Shape = Shape.PATTERN, effect: Effect = Effect.ALLOW
) -> Offer:
    """Return the widest offer of this shape; that of a whole tool is a pattern of its own."""
    whole = [offer for offer in offers(record, effect) if offer.match.scope is Scope.TOOL]
    if shape is Shape.TOOL:
        return whole[-1]
    made = [offer for offer in offers(record, effect) if offer.match.shape is shape]
    return [offer for offer in made if offer not in whole][-1]


def handmade(record: StoredRequest, answer: Answer, *rules: Rule) -> Match:
    """Return a pattern for a request that nobody is offered."""
    effects, context = effects_of(record)[0], record.request.context
    return Match(
        shape=Shape.PATTERN,
        tool=record.request.tool,
        kind=record.request.kind,
        rules=rules,
        cwd=context.cwd,
        host=context.host,
        answer=answer,
        base=effects.base,
        fingerprint=effects.fingerprint,
    )


def allowed(grants: list[Grant], record: StoredRequest) -> bool:
    """Whether any of the grants covers the request."""
    return any(covers(grant, record) is MatchResult.YES for grant in grants)


def patterns_of(text: str) -> list[Match]:
    """Return all patterns offered for a command."""
    found = offers(command(text))
    return [offer.match for offer in found if offer.match.shape is Shape.PATTERN]
