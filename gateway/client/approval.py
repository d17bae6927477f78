"""How a request ends for the agent: an approval, or an exception for each other outcome."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import Aborted, Cancelled, Denied, Expired, NotApproved
from gateway.models import ApprovalRequest, DecidedBy, DeciderKind, Decision, Reason, State, Status
from gateway.wire.codec import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A checked approval: `arguments` are exactly what may run, edited or not."""

    request: ApprovalRequest
    decision: Decision
    secrets: JsonObject | None = None

    @property
    def arguments(self) -> JsonObject:
        """The arguments that may run: the changed ones where a person or a policy hook changed
        them."""
        edited = self.decision.arguments
        return self.request.arguments if edited is None else edited

    @property
    def answers(self) -> JsonObject:
        """The answers to a question, secret ones included."""
        return {**(self.decision.answers or {}), **(self.secrets or {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A step of a request: `confirmation_required` before the wait, `decided` after it.

    `decided` carries the `approval`.
    """

    name: str
    request: ApprovalRequest
    approval: Approval | None = None


def exception_for(decision: Decision) -> NotApproved:
    """Return the exception for a decision that is not an approval."""
    if decision.status is Status.DENIED:
        return Aborted(decision) if decision.abort else Denied(decision)
    return Expired(decision) if decision.status is Status.EXPIRED else Cancelled(decision)


def local_expiry(request: ApprovalRequest) -> Decision:
    """Return the decision that the client makes itself when no answer came in time."""
    return Decision(
        request_id=request.id,
        revision=0,
        status=Status.EXPIRED,
        action=None,
        reason=Reason.TIMEOUT,
        digest=request.digest,
        decided_by=DecidedBy(kind=DeciderKind.SYSTEM, name="client"),
        decided_at=0,
        expires_at=0,
    )


def local_withdrawal(state: State) -> Decision:
    """Return the decision that the client makes itself for an approval that its agent gave up."""
    return Decision(
        request_id=state.id,
        revision=state.revision,
        status=Status.CANCELLED,
        action=None,
        reason=Reason.SUPERSEDED,
        digest=state.digest,
        decided_by=DecidedBy(kind=DeciderKind.SYSTEM, name="client"),
        decided_at=0,
        expires_at=state.deadline,
    )
