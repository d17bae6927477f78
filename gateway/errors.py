"""The errors that agents and callers of the gateway see.

    GatewayError
    ├── InvalidRequest          the gateway refused the message itself (never shown to anyone)
    │   ├── Unconfirmed         high risk, and the person has not confirmed it
    │   │   └── StepUpNeeded    an approval takes a step-up, and this click brings none
    │   └── Conflict            the id is taken by another request
    │       ├── WrongNumber     the number is not the one that is shown where the agent waits
    │       ├── Used            the approval is handed out no more: it was used, or given up
    │       ├── BatchRefused    one of several requests stopped them all; none was decided
    │       └── NotRemembered   the answer was recorded; what was to follow it failed
    ├── Misconfigured           a setting of the gateway or an adapter is missing or wrong
    ├── Unauthorized            the credential is unknown, revoked, or not allowed to do this
    ├── NotFound                no such request
    ├── Unreachable             the gateway or Redis did not answer; nothing was approved
    │   └── Busy                the gateway takes no more calls of this agent just now
    ├── OverBudget              too many requests of this agent are pending; nobody was asked
    ├── Unverified              an answer is not for this request, or not signed by the pinned key
    ├── Pending                 still waiting; picklable, for `wait` in another process
    └── NotApproved             the request ended without an approval
        ├── Denied              a person, rule, grant or hook said no
        │   └── Aborted         ... and the turn (or the whole agent) must stop
        ├── Expired             nobody answered in time
        ├── Cancelled           the request was withdrawn
        └── AlreadyUsed         the approval was used before; the action may already have run

Each class has an HTTP status, a stable code for machines, and an exit code for `gateway ask`.
No text says that a person denied unless a person did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.wire.schema import GatewayError, InvalidRequest, Unverified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.models import ApprovalRequest, Decision

__all__ = [
    "Aborted",
    "AlreadyUsed",
    "BatchRefused",
    "Busy",
    "Cancelled",
    "Conflict",
    "Denied",
    "Expired",
    "GatewayError",
    "InvalidRequest",
    "Misconfigured",
    "NotApproved",
    "NotFound",
    "NotRemembered",
    "OverBudget",
    "Pending",
    "StepUpNeeded",
    "Unauthorized",
    "Unconfirmed",
    "Unreachable",
    "Unverified",
    "Used",
    "WrongNumber",
]


class Unconfirmed(InvalidRequest):
    """The request is high risk, and the person has not confirmed it."""


class StepUpNeeded(Unconfirmed):
    """An approval of this request takes a step-up, and this click brings none."""

    code = "step_up_needed"


class Misconfigured(GatewayError):
    """A setting is missing, or cannot be used."""

    code = "bad_settings"
    exit_code = 2


class Conflict(InvalidRequest):
    """The request was decided already, the revision is old, or the id is taken."""

    code = "conflict"
    exit_code = 10
    status = 409


class Used(Conflict):
    """The approval was used or given up before, and is not handed out again."""

    code = "approval_used"


class WrongNumber(Conflict):
    """A wrong number was typed; that is counted."""

    code = "wrong_number"


class BatchRefused(Conflict):
    """No request of a batch was decided. `reasons` has the reason by request id."""

    code = "batch_refused"

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(reasons)
        self.reasons = dict(reasons)

    def __str__(self) -> str:
        """Name the requests that stopped the batch."""
        alike: dict[str, list[str]] = {}
        for name, why in self.reasons.items():
            alike.setdefault(why, []).append(name[:8])
        problems = (
            f"{names[0] if len(names) == 1 else f'{len(names)} requests'}: {why}"
            for why, names in alike.items()
        )
        return f"nothing was decided; {'; '.join(problems)}"


class NotRemembered(Conflict):
    """The answer was recorded, as `record` says; what was to follow it failed."""

    code = "not_remembered"

    def __init__(self, why: str, record: Any = None) -> None:
        super().__init__(why)
        self.record = record


class Unauthorized(GatewayError):
    """The credential is missing, unknown or revoked, or does not allow this."""

    code = "unauthorized"
    status = 403
    exit_code = 9


class NotFound(GatewayError):
    """There is no such request for this credential."""

    code = "not_found"
    status = 404
    exit_code = 8


class Unreachable(GatewayError):
    """The gateway or its Redis did not answer."""

    code = "unreachable"
    status = 503
    exit_code = 5


class Busy(Unreachable):
    """The gateway takes no more calls of this agent just now. `retry_after` is in seconds."""

    code = "too_many_requests"
    status = 429
    retry_after: float = 1.0


class OverBudget(GatewayError):
    """Too many requests of this agent are pending; nobody was asked."""

    code = "over_budget"
    status = 429
    exit_code = 7


class Pending(GatewayError):
    """The request still waits. Pickle it, and call `wait(pending)` later, in any process."""

    code = "pending"
    status = 202
    exit_code = 5

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__(request)
        self.request = request

    def __str__(self) -> str:
        """Say which request waits."""
        return f"request {self.request.id} still waits for an answer"


class NotApproved(GatewayError):
    """The request ended without an approval. `decision` says how."""

    code = "not_approved"
    status = 409
    exit_code = 1

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision

    def __str__(self) -> str:
        """Say who or what ended the request, and the message for the agent."""
        return self.decision.sentence()


class Denied(NotApproved):
    """A person, a rule, a grant or a hook said no."""

    code = "denied"


class Aborted(Denied):
    """Denied, and the turn or the agent must stop; `decision.abort` says which."""

    code = "aborted"

    def __str__(self) -> str:
        """Say what must stop, for readers of the text alone."""
        return f"{super().__str__()} (the {self.decision.abort} must stop)"


class Expired(NotApproved):
    """Nobody answered before the deadline."""

    code = "expired"
    exit_code = 3


class Cancelled(NotApproved):
    """The request was withdrawn before anyone decided."""

    code = "cancelled"
    exit_code = 4


class AlreadyUsed(NotApproved):
    """The approval was handed out before: the action may already have run."""

    code = "already_used"

    def __str__(self) -> str:
        """Say that this is neither an approval nor a denial, and who approved."""
        return (
            f"this approval was already used ({super().__str__()}): the action may have run "
            "already, so take it neither as done nor as denied, and look before you ask again"
        )
