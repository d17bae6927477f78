"""The check between an answer and the action: about what was asked, by the pinned key, in time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gateway.errors import Aborted, Cancelled, Denied, Expired, NotApproved, Unverified
from gateway.models import (
    Action,
    ApprovalRequest,
    DecidedBy,
    DeciderKind,
    Decision,
    Reason,
    State,
    Status,
    digest_of,
)

if TYPE_CHECKING:
    from gateway.signatures import Verifier

MARGIN_SECONDS = 0.5
"""The gateway's deadline comes this much earlier than our own, which refuses whatever is later."""


def verifier_for(public_key: str | None) -> Verifier | None:
    """Return what checks signatures, None when no key is pinned.

    Raises Unverified when the key cannot be used: without it nothing may be believed.
    """
    if not public_key:
        return None
    from gateway.signatures import Verifier  # noqa: PLC0415 (only where a key is pinned)

    try:
        return Verifier(public_key)
    except ImportError as error:
        raise Unverified(
            "a public key is pinned, but the library that checks signatures is missing: "
            "install approval-gateway-agent[verify]"
        ) from error
    except ValueError as error:
        raise Unverified(f"the pinned public key cannot be used: {error}") from error


def decision_in(state: State, request_id: str, verifier: Verifier | None) -> Decision:
    """Return the decision of a final state about this request, signed if a key is pinned.

    Raises Unverified when it is missing, about another request, or contradicts its own state.
    """
    decision = state.decision
    if decision is None:
        raise Unverified(f"request {request_id} is {state.status}, but no decision came with that")
    if request_id not in (state.id, decision.request_id) or state.id != decision.request_id:
        raise Unverified("the gateway answered something else than was asked")
    if decision.status is not state.status or decision.status is Status.PENDING:
        raise Unverified(f"the request is {state.status}, its decision says {decision.status}")
    if verifier is not None:
        verifier.verify(decision.signed_bytes(), decision.signature)
    return decision


def check_approval(request: ApprovalRequest, decision: Decision) -> None:
    """Return when an approval covers exactly what would run; raise Unverified otherwise."""
    if request.digest != digest_of(request):
        raise Unverified("the request was changed after it was asked")
    edited = decision.arguments
    expected = request.digest if edited is None else digest_of(request, edited)
    if decision.digest != expected:
        raise Unverified("the decision is about other arguments than those that would run")
    used = {decision.action} if edited is None else {decision.action, Action.EDIT}
    if not used <= {*request.allowed}:
        raise Unverified(f"the request does not allow to {decision.action}")


def in_time(decision: Decision) -> bool:
    """Whether an approval may still be used, by this host's clock."""
    return now_ms() <= decision.expires_at + MARGIN_SECONDS * 1000


def now_ms() -> int:
    """Return the host's milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000  # noqa: TID251 (gateway.clock is no part of the agent side)


def refusal(decision: Decision) -> NotApproved | None:
    """Return the exception that tells how a decision says no, None for an approval."""
    if decision.status is Status.APPROVED:
        return None
    if decision.status is Status.DENIED:
        return Aborted(decision) if decision.abort else Denied(decision)
    return Expired(decision) if decision.status is Status.EXPIRED else Cancelled(decision)


def expired_here(request_id: str, digest: str) -> Expired:
    """Return the expiry that our own clock decides, when no answer came that may still be used."""
    now = now_ms()
    return Expired(
        Decision(
            request_id=request_id,
            revision=0,
            status=Status.EXPIRED,
            action=None,
            reason=Reason.TIMEOUT,
            digest=digest,
            decided_by=DecidedBy(kind=DeciderKind.SYSTEM, name="client"),
            decided_at=now,
            expires_at=now,
        )
    )
