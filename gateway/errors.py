"""Define the exceptions that agents and callers of the gateway catch. Start at GatewayError.

    GatewayError
    ├── InvalidRequest          the gateway rejected the message; no person saw it
    │   ├── Unconfirmed         high risk, and the person has not confirmed it
    │   │   └── StepUpNeeded    the approval needs extra verification, and the click had none
    │   └── Conflict            the state changed meanwhile, or the id belongs to another request
    │       ├── WrongNumber     the verification code differs from the one that the agent shows
    │       ├── Used            the approval was already claimed, or is no longer valid
    │       ├── BatchRefused    one request blocked its batch; none was decided
    │       └── NotRemembered   the decision was saved, but the step after it failed
    ├── Misconfigured           a setting of the gateway or an adapter is missing or wrong
    ├── Unauthorized            the credential is unknown, revoked, or not allowed to do this
    ├── NotFound                no such request
    ├── Unreachable             the gateway or Redis did not answer; nothing was approved
    │   └── Busy                the gateway limits this agent's calls; try again later
    ├── OverBudget              too many requests of this agent are pending; nobody was asked
    ├── Unverified              a decision is not for this request, or its signature is wrong
    ├── Pending                 still pending; picklable, for `wait` in another process
    └── NotApproved             the request ended without an approval
        ├── Denied              a person, rule, grant or hook denied it
        │   └── Aborted         ... and the turn (or the whole agent) must stop
        ├── Expired             nobody answered in time
        ├── Cancelled           the agent, an operator or the gateway cancelled it
        └── AlreadyUsed         the approval was used before; the action may already have run

Each class has an HTTP status, a stable code for machines, and an exit code for `gateway ask`. An
error text reports a person's denial only if a person denied.
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
    """This request needs extra verification, and the approval came without it."""

    code = "step_up_needed"


class Misconfigured(GatewayError):
    """A setting of the gateway or an adapter is missing or unusable."""

    code = "bad_settings"
    exit_code = 2


class Conflict(InvalidRequest):
    """The request was decided already, the revision is old, or the id is taken."""

    code = "conflict"
    exit_code = 10
    status = 409


class Used(Conflict):
    """The approval was already claimed or cancelled; nobody can claim it again."""

    code = "approval_used"


class WrongNumber(Conflict):
    """The typed verification code is wrong; the gateway counts wrong codes."""

    code = "wrong_number"


class BatchRefused(Conflict):
    """No request of the batch was decided; `reasons` maps request ids to the reason."""

    code = "batch_refused"

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(reasons)
        self.reasons = dict(reasons)

    def __str__(self) -> str:
        """Return the requests that blocked the batch, grouped by reason."""
        alike: dict[str, list[str]] = {}
        for name, why in self.reasons.items():
            alike.setdefault(why, []).append(name[:8])
        problems = (
            f"{names[0] if len(names) == 1 else f'{len(names)} requests'}: {why}"
            for why, names in alike.items()
        )
        return f"nothing was decided; {'; '.join(problems)}"


class NotRemembered(Conflict):
    """The decision was saved as `record`, but a follow-up step failed."""

    code = "not_remembered"

    def __init__(self, why: str, record: Any = None) -> None:
        super().__init__(why)
        self.record = record


class Unauthorized(GatewayError):
    """The credential is missing, unknown or revoked, or does not permit this call."""

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
    """The gateway limits this agent's calls; try again after `retry_after` seconds."""

    code = "too_many_requests"
    status = 429
    retry_after: float = 1.0


class OverBudget(GatewayError):
    """Too many requests of this agent are pending; nobody was asked."""

    code = "over_budget"
    status = 429
    exit_code = 7


class Pending(GatewayError):
    """The request is still pending. Pickle this, and call `wait(pending)` later in any process."""

    code = "pending"
    status = 202
    exit_code = 5

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__(request)
        self.request = request

    def __str__(self) -> str:
        """Return a sentence with the id of the pending request."""
        return f"request {self.request.id} is still pending"


class NotApproved(GatewayError):
    """The request ended without an approval; `decision` says how and by whom."""

    code = "not_approved"
    status = 409
    exit_code = 1

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision

    def __str__(self) -> str:
        """Return who or what ended the request, and the message for the agent."""
        return self.decision.sentence()


class Denied(NotApproved):
    """A person, a rule, a grant or a hook denied the request."""

    code = "denied"


class Aborted(Denied):
    """Denied, and the turn or the agent must stop; `decision.abort` says which."""

    code = "aborted"

    def __str__(self) -> str:
        """Return the text of a denial and what must stop, for a model that reads only this text."""
        return f"{super().__str__()} (the {self.decision.abort} must stop)"


class Expired(NotApproved):
    """Nobody answered before the deadline."""

    code = "expired"
    exit_code = 3


class Cancelled(NotApproved):
    """The agent, an operator or the gateway cancelled the request before anyone decided."""

    code = "cancelled"
    exit_code = 4


class AlreadyUsed(NotApproved):
    """The approval was already used: the action may already have run."""

    code = "already_used"

    def __str__(self) -> str:
        """Return a text that names the approver and says that the action may have run already."""
        return (
            f"this approval was already used ({super().__str__()}): the action may have run "
            "already, so check what happened before you ask again"
        )
