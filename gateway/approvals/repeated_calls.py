"""A person's plain denial answers the same call for a few minutes, so that asking again and again
wears nobody down."""

from __future__ import annotations

from gateway.approvals.grant_lifecycle import grant_id_of
from gateway.domain.records import Record
from gateway.models import Action, Reason, Status
from gateway.policy.authorization import Approver
from gateway.policy.grants.grant import Effect, Grant, GrantVoter, Match, Shape

_MINUTE_MS = 60_000


def repeated_denial(
    after: Record, who: Approver, nonce: str, *, minutes: int, now: int
) -> Grant | None:
    """Return the grant by which a denial answers the same call in the same session.

    None for every other answer, for feedback, which asks for another plan, for questions, and once
    the minutes are over. It is listed and revoked like any grant, and has no card in chats.
    """
    decision = after.decision
    if decision is None or after.request.questions:
        return None
    how = (decision.status, decision.action, decision.reason)
    until = decision.decided_at + minutes * _MINUTE_MS
    if how != (Status.DENIED, Action.DENY, Reason.PERSON) or until <= now:
        return None
    request = after.request
    words = f"exactly this, denied for {minutes} minute{'s' if minutes > 1 else ''}"
    return Grant(
        id=grant_id_of(after.id, nonce),
        effect=Effect.DENY,
        agent=request.agent,
        session=request.session,
        # What was asked, also where people edited it before they denied it.
        match=Match(shape=Shape.EXACT, tool=request.tool, kind=request.kind, digest=request.digest),
        made_by=who.name,
        made_at=decision.decided_at,
        expires_at=until,
        from_request=after.id,
        words=words,
        told=f"{words}: {after.hide(decision.message)}" if decision.message else words,
        backers=(GrantVoter(person=who.name, via=(who.via,)),),
    )
