"""How a request ends for the agent: an approval, an exception, or an outcome as a value."""

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


# How a request ended, as a value: for hosts that tell a model, and do not raise.


class OutcomeKind(StrEnum):
    """What became of a request. Only `approved` and `edited` may run."""

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
    """How a request ended.

    `arguments` are what may run, None where nothing may. `result` is what stands in place of a run:
    a person's result, or the answers to a question. `message` is a sentence for the model. `abort`
    is `turn` or `agent` where that must stop. `decision` is there where the gateway gave one.
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
        """Whether `arguments` may run, once."""
        return self.kind in (OutcomeKind.APPROVED, OutcomeKind.EDITED)


_APPROVED = {
    Action.APPROVE: OutcomeKind.APPROVED,
    Action.EDIT: OutcomeKind.EDITED,
    Action.RESPOND: OutcomeKind.RESPONDED,
    Action.ANSWER: OutcomeKind.ANSWERED,
}
# The first that fits counts, so a subclass stands before its base.
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
    """Return how an asked request ends. Raises what is no outcome: a mistake in the call, or a
    credential that does not allow it."""
    try:
        return approved(await asking)
    except _ENDINGS as error:
        return ended(error)


def approved(approval: Approval) -> Outcome:
    """Return the outcome of an approval."""
    decision = approval.decision
    kind = _APPROVED.get(decision.action, OutcomeKind.UNVERIFIED) if decision.action else None
    if kind is None or kind is OutcomeKind.UNVERIFIED:
        return Outcome(kind=OutcomeKind.UNVERIFIED, message="the approval names no known action")
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
    """Return the outcome that an exception stands for; raises the error when it is none."""
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
    """Return the outcome of a request that its own agent withdrew."""
    return Outcome(kind=OutcomeKind.CANCELLED, message=message)
