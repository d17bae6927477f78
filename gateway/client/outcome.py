"""How a request ended, as a value: for hosts that tell a model, and do not raise."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.client.approval import Approval
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
from gateway.models import Action, Decision
from gateway.wire.codec import JsonObject


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
