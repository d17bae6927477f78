"""Turn decisions into approvals, exceptions and outcomes. Start at `Approval` and `Outcome`."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.errors import (
    Aborted,
    AlreadyUsed,
    Cancelled,
    Denied,
    Expired,
    GatewayError,
    NotApproved,
    OverBudget,
    Pending,
    Unreachable,
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
)
from gateway.wire.codec import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A checked approval. Run exactly its `arguments`, once."""

    request: ApprovalRequest
    decision: Decision
    secrets: JsonObject | None = None

    @property
    def arguments(self) -> JsonObject:
        """The arguments that may run. They differ from the request's if a person or a policy hook
        edited them."""
        edited = self.decision.arguments
        return self.request.arguments if edited is None else edited

    @property
    def answers(self) -> JsonObject:
        """The answers to a question, secret ones included."""
        return {**(self.decision.answers or {}), **(self.secrets or {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A step of a request. `name` is `confirmation_required` before the wait and `decided` after
    it.

    An event `decided` has the `approval`, the other event has None.
    """

    name: str
    request: ApprovalRequest
    approval: Approval | None = None


def exception_for(decision: Decision) -> NotApproved:
    """Return the exception to raise for a decision that is not an approval."""
    if decision.status is Status.DENIED:
        return Aborted(decision) if decision.abort else Denied(decision)
    return Expired(decision) if decision.status is Status.EXPIRED else Cancelled(decision)


def local_expiry(request: ApprovalRequest) -> Decision:
    """Return the decision that the client itself makes if the gateway sends no decision in time."""
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
    """Return the decision that the client itself makes for a superseded approval."""
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


# How a request ended, as a value: for frameworks that inform a model instead of raising.


class OutcomeKind(StrEnum):
    """How a request ended. Only `approved` and `edited` let the call run."""

    APPROVED = "approved"
    EDITED = "edited"
    RESPONDED = "responded"
    ANSWERED = "answered"
    DENIED = "denied"
    ABORTED = "aborted"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    ALREADY_USED = "already_used"
    PENDING = "pending"
    OVER_BUDGET = "over_budget"
    UNREACHABLE = "unreachable"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a request ended, as a value.

    `arguments` are what may run, None if nothing may run. `result` replaces the tool's result: a
    person gave it, or it is the answers to a question. `message` is a sentence for the model.
    `abort` is `turn` or `agent` if that must stop. `decision` is the gateway's reply, or None
    without one.
    """

    kind: OutcomeKind
    message: str
    arguments: JsonObject | None = None
    result: Any = None
    abort: str | None = None
    decision: Decision | None = None
    approval: Approval | None = None

    @property
    def runs(self) -> bool:
        """Whether the call may run, once, with these `arguments`."""
        return self.kind in (OutcomeKind.APPROVED, OutcomeKind.EDITED)


_APPROVED = {
    Action.APPROVE: OutcomeKind.APPROVED,
    Action.EDIT: OutcomeKind.EDITED,
    Action.RESPOND: OutcomeKind.RESPONDED,
    Action.ANSWER: OutcomeKind.ANSWERED,
}
# The first match counts, so a subclass comes before its base.
_ENDED: tuple[tuple[type[GatewayError], OutcomeKind], ...] = (
    (Aborted, OutcomeKind.ABORTED),
    (Denied, OutcomeKind.DENIED),
    (Expired, OutcomeKind.EXPIRED),
    (AlreadyUsed, OutcomeKind.ALREADY_USED),
    (Cancelled, OutcomeKind.CANCELLED),
    (Pending, OutcomeKind.PENDING),
    (OverBudget, OutcomeKind.OVER_BUDGET),
    (Unreachable, OutcomeKind.UNREACHABLE),
    (Unverified, OutcomeKind.UNVERIFIED),
)
_ENDINGS = tuple(kind for kind, _ in _ENDED)


async def outcome_of(asking: Awaitable[Approval]) -> Outcome:
    """Wait for an approval, and return how its request ended. Raises InvalidRequest for a mistake
    in the request, Unauthorized or NotFound for a rejected credential."""
    try:
        return approved(await asking)
    except _ENDINGS as error:
        return ended(error)


def approved(approval: Approval) -> Outcome:
    """Return an approval as an outcome."""
    decision = approval.decision
    kind = _APPROVED.get(decision.action, OutcomeKind.UNVERIFIED) if decision.action else None
    if kind is None or kind is OutcomeKind.UNVERIFIED:
        return Outcome(kind=OutcomeKind.UNVERIFIED, message="the approval names an unknown action")
    runs = kind in (OutcomeKind.APPROVED, OutcomeKind.EDITED)
    answered = kind is OutcomeKind.ANSWERED
    return Outcome(
        kind=kind,
        message=decision.sentence(),
        arguments=approval.arguments if runs else None,
        result=approval.answers if answered else decision.result,
        decision=decision,
        approval=approval,
    )


def ended(error: GatewayError) -> Outcome:
    """Return an exception as an outcome. An exception that does not end a request is raised."""
    for base, kind in _ENDED:
        if isinstance(error, base):
            decision = error.decision if isinstance(error, NotApproved) else None
            return Outcome(
                kind=kind,
                message=str(error),
                abort=decision.abort if decision and kind is OutcomeKind.ABORTED else None,
                decision=decision,
            )
    raise error


def withdrawn(message: str) -> Outcome:
    """Return the outcome of a request that was cancelled by its own agent."""
    return Outcome(kind=OutcomeKind.CANCELLED, message=message)
