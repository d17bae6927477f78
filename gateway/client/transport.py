"""What a client needs from the way to its gateway: the five verbs, and a wait.

Transports retry lost connections themselves, for as long as the caller waits: the caller's
cancellation (its deadline) is what ends a wait. Every verb may be sent twice without harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from gateway.models import ApprovalRequest, Reason, Report, State


class Transport(Protocol):
    """One process's way to the gateway. Used by one event loop; closed by leaving its context.

    `agent` is the name the credential belongs to. All verbs raise Unauthorized, NotFound, Conflict
    or InvalidRequest as the gateway says, and Unreachable when it cannot be asked.
    """

    agent: str

    async def __aenter__(self) -> Self:
        """Return the transport, which connects when it is first used."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> State:
        """Hand in the request; return how it stands. With `detached` this process does not wait.

        What comes after an answer of pending is kept for `wait`, until that or `cancel` is called.
        """

    async def wait(self, request_id: str) -> State:
        """Return the state once it is final; attaches this process when it did not submit."""

    async def sync(self, ids: Sequence[str]) -> list[State]:
        """Attach this process to requests; return how they stand, unknown ones left out."""

    async def cancel(self, request_id: str, reason: Reason, message: str = "") -> State:
        """Withdraw a request, also one that has not arrived yet."""

    async def consume(self, request_id: str) -> State:
        """Take the approval for this process."""

    async def report(self, request_id: str, report: Report) -> State:
        """Say what became of the action."""

    async def end_session(self, session: str) -> None:
        """End the session, and cancel what waits in it."""
