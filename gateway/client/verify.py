"""The check between an answer and the action: only what was asked, by the pinned key, in time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gateway.client.suspended import Suspended
from gateway.errors import (
    Aborted,
    Cancelled,
    Denied,
    Expired,
    NotApproved,
    Pending,
    Unverified,
)
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
from gateway.signatures import Verifier

MARGIN = 0.5  # seconds after the gateway's deadline, in which its own answer may still arrive

Waiting = ApprovalRequest | Pending | str


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a request when its answer comes: the whole, its digest, or its id alone."""

    id: str
    digest: str | None = None
    request: ApprovalRequest | None = None

    @classmethod
    def of(cls, waiting: Waiting) -> Asked:
        """Return what this handle tells."""
        if isinstance(waiting, Suspended):
            waiting = waiting.request
        if isinstance(waiting, ApprovalRequest):
            return cls(waiting.id, waiting.digest, waiting)
        if isinstance(waiting, Pending):
            return cls(waiting.request_id, waiting.digest)
        return cls(waiting)


def now_ms() -> int:
    """Return the host's milliseconds since the Unix epoch, to hold against `expires_at`."""
    return time.time_ns() // 1_000_000  # noqa: TID251 (gateway.clock is no part of the agent side)


def verifier_for(public_key: str | None) -> Verifier | None:
    """Return what checks signatures, None when no key is pinned.

    Raises Unverified when the key cannot be used: without it nothing may be believed.
    """
    if public_key is None:
        return None
    try:
        return Verifier(public_key)
    except ImportError as error:
        raise Unverified(
            "a public key is pinned, but the library that checks signatures is missing: "
            "install approval-gateway-agent[verify]"
        ) from error
    except ValueError as error:
        raise Unverified(f"the pinned public key cannot be used: {error}") from error


def checked(asked: Asked, state: State, verifier: Verifier | None) -> Decision:
    """Return the decision of a final state once it is proved to answer what was asked.

    Raises Unverified for any mismatch. Whether it came in time is `in_time`'s business.
    """
    decision = state.decision
    if decision is None:
        raise Unverified(f"request {asked.id} is {state.status}, but no decision came with it")
    if state.id != asked.id or decision.request_id != asked.id:
        raise Unverified(f"an answer to {decision.request_id[:40]!r} came for request {asked.id}")
    if decision.status is not state.status or decision.status is Status.PENDING:
        raise Unverified(f"the state says {state.status}, its decision {decision.status}")
    if verifier is not None:
        verifier.verify(decision.signed_bytes(), decision.signature)
    if decision.status is Status.APPROVED:
        _check_approved(asked, state, decision)
    return decision


def _check_approved(asked: Asked, state: State, decision: Decision) -> None:
    if decision.digest != _right_digest(asked, state, decision):
        raise Unverified("the approval names another digest than that of what would run")
    if asked.request is None:
        return
    used = {decision.action} | ({Action.EDIT} if decision.arguments is not None else set())
    if not used <= set(asked.request.allowed):
        raise Unverified(f"the approval does {decision.action}, which the request does not allow")


def _right_digest(asked: Asked, state: State, decision: Decision) -> str:
    if decision.arguments is None:
        return asked.digest or state.digest
    if asked.request is None:
        raise Unverified(
            "the arguments were edited, and only the whole request tells whether the digest fits: "
            "wait with the Suspended or the request instead of its id"
        )
    return digest_of(asked.request, decision.arguments)


def in_time(decision: Decision) -> bool:
    """Whether an approval may still be used, by this host's clock."""
    return now_ms() <= decision.expires_at + MARGIN * 1000


def refusal(decision: Decision) -> NotApproved | None:
    """Return the exception that tells how a decision says no; None for an approval."""
    if decision.status is Status.APPROVED:
        return None
    if decision.status is Status.EXPIRED:
        return Expired(decision)
    if decision.status is Status.CANCELLED:
        return Cancelled(decision)
    if decision.abort is not None or decision.action is Action.ABORT:
        return Aborted(decision)
    return Denied(decision)


def expired_here(asked: Asked, state: State, message: str) -> Expired:
    """Return the expiry that this process decides by itself, when no valid answer came in time."""
    decision = Decision(
        request_id=asked.id,
        revision=state.revision,
        status=Status.EXPIRED,
        action=None,
        reason=Reason.TIMEOUT,
        digest=state.digest,
        decided_by=DecidedBy(kind=DeciderKind.SYSTEM, name="client"),
        decided_at=now_ms(),
        expires_at=state.deadline,
        message=message,
    )
    return Expired(decision)
