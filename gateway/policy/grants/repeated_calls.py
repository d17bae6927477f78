"""A person's plain denial answers the same call for a few minutes, so that asking again and again
wears nobody down. It is kept beside the request that was denied, by keys that expire."""

from __future__ import annotations

from gateway.domain.records import Record
from gateway.models import Action, Reason, Status
from gateway.policy.grants.grant import Effect, Grant, Match, Shape


def is_plain_denial(record: Record) -> bool:
    """Whether a request ended by a denial that answers the same call too: not feedback, which asks
    for another plan, and not a question."""
    decision = record.decision
    if decision is None or record.request.questions or record.canary:
        return False
    how = (decision.status, decision.action, decision.reason)
    return how == (Status.DENIED, Action.DENY, Reason.PERSON)


def denial_of(record: Record, *, minutes: int, until: int) -> Grant | None:
    """Return the denial of a request as it is listed and lifted: like a grant with the request's
    id. It answers the same call in the same session until then, and has no card in chats."""
    decision, request = record.decision, record.request
    if decision is None:
        return None
    words = f"exactly this, denied for {minutes} minute{'s' if minutes > 1 else ''}"
    return Grant(
        id=record.id,
        effect=Effect.DENY,
        agent=request.agent,
        session=request.session,
        # What was asked, also where people edited it before they denied it.
        match=Match(shape=Shape.EXACT, tool=request.tool, kind=request.kind, digest=request.digest),
        made_by=decision.decided_by.name,
        made_at=decision.decided_at,
        expires_at=until,
        from_request=record.id,
        words=words,
        told=f"{words}: {record.hide(decision.message)}" if decision.message else words,
    )
