"""What can go wrong, as agents and callers of the gateway see it.

    GatewayError
    ├── InvalidRequest          the gateway refused the message itself (never shown to anyone)
    │   └── Conflict            the id is taken by another request
    │       ├── BatchRefused    one of several requests stopped them all; none was decided
    │       └── WasCanary       it was a test of whether people look; nothing was going to run
    ├── Misconfigured           a setting of the gateway or an adapter is missing or wrong
    ├── Unauthorized            the credential is unknown, revoked, or not allowed to do this
    ├── NotFound                no such request
    ├── Unreachable             the gateway or Redis did not answer; nothing was approved
    │   └── Busy                the gateway takes no more of this agent's calls just now
    ├── OverBudget              too much of this agent waits already; nobody was asked
    ├── Unverified              an answer is not for what was asked, or the pinned key signed it not
    ├── Pending                 still waiting; picklable, for `wait` in another process
    └── NotApproved             the request ended without leave to run
        ├── Denied              a person, rule, grant or hook said no
        │   └── Aborted         ... and the turn (or the whole agent) must stop
        ├── Expired             nobody answered in time
        ├── Cancelled           the request was withdrawn
        └── AlreadyUsed         the approval was used before; the action may already have run

Each class carries an HTTP status, a stable code for machines, and an exit code for `gateway ask`.
Nothing here says "the user denied" unless a person did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.wire.errors import GatewayError, InvalidRequest, Unverified

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
    "OverBudget",
    "Pending",
    "Unauthorized",
    "Unconfirmed",
    "Unreachable",
    "Unverified",
    "WasCanary",
]


class Unconfirmed(InvalidRequest):
    """It is high risk, and the person has not confirmed that they know."""


class Misconfigured(GatewayError):
    """A setting is missing, or cannot be used."""

    code = "bad_settings"
    exit_code = 2


class Conflict(InvalidRequest):
    """It was decided already, the revision seen is old, or the id is taken."""

    code = "conflict"
    status = 409


class BatchRefused(Conflict):
    """Nothing of a batch was decided. `reasons` says by request id why not."""

    code = "batch_refused"

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(reasons)
        self.reasons = dict(reasons)

    def __str__(self) -> str:
        """Name what stopped the batch."""
        told = (f"{name[:8]}: {why}" for name, why in self.reasons.items())
        return f"nothing was decided; {'; '.join(told)}"


class WasCanary(Conflict):
    """It was a test by the gateway of whether people look. Nothing was going to run."""

    code = "canary"


class Unauthorized(GatewayError):
    """The credential is missing, unknown or revoked, or does not allow this."""

    code = "unauthorized"
    status = 403
    exit_code = 2


class NotFound(GatewayError):
    """There is no such request for this credential."""

    code = "not_found"
    status = 404
    exit_code = 2


class Unreachable(GatewayError):
    """The gateway or its Redis did not answer."""

    code = "unreachable"
    status = 503
    exit_code = 5


class Busy(Unreachable):
    """The gateway takes no more of this agent's calls just now. `retry_after` is in seconds."""

    code = "too_many_requests"
    status = 429
    retry_after: float = 1.0


class OverBudget(GatewayError):
    """Too much of this agent waits for an answer already; nobody was asked."""

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
    """The request ended without leave to run. `decision` says how."""

    code = "not_approved"
    status = 409
    exit_code = 1

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision)
        self.decision = decision

    def __str__(self) -> str:
        """Say who or what ended the request, and the words meant for the agent."""
        return self.decision.sentence()


class Denied(NotApproved):
    """A person, a rule, a grant or a hook said no."""

    code = "denied"


class Aborted(Denied):
    """Denied, and the turn or the agent must stop; `decision.abort` says which."""

    code = "aborted"

    def __str__(self) -> str:
        """Say so to who reads the text alone."""
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
        """Say that it is neither leave to run nor a denial, and who approved."""
        return (
            f"this approval was already used ({super().__str__()}): the action may have run "
            "already, so take it neither as done nor as denied, and look before you ask again"
        )
