"""A pytest plugin to test gated code without a gateway. Start at the fixture `approvals`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gateway.client.in_process import Reply
    from gateway.models import ApprovalRequest, Report


class ScriptedApprovals:
    """Decides gated calls in the scripted order. Denies a call without a scripted decision.

    `requests` lists the submitted requests of the gated code, and `reports` its reports.
    """

    def __init__(self) -> None:
        self._script: deque[Reply] = deque()
        self.requests: list[ApprovalRequest] = []
        self.reports: list[tuple[str, Report]] = []

    def approve(self, **arguments: Any) -> None:
        """Approve the next call. With `arguments`, edit the call to have exactly these
        arguments."""
        self._add("edit" if arguments else "approve", arguments=arguments or None)

    def deny(self, message: str = "", *, feedback: bool = False) -> None:
        """Deny the next call with a `message`. `feedback` lets `replan` change its arguments."""
        self._add("deny", message=message, feedback=feedback)

    def respond(self, result: Any) -> None:
        """Let the next call return `result` instead of running."""
        self._add("respond", result=result)

    def abort(self, message: str = "") -> None:
        """Deny the next call with a `message`, and stop the turn."""
        self._add("abort", message=message)

    def answer(self, **answers: Any) -> None:
        """Answer the next question, with `answers` by field id."""
        self._add("answer", answers=answers)

    def decide(self, request: ApprovalRequest) -> bool | Reply:
        """Return the next scripted decision. The transport calls this for each request."""
        if self._script:
            return self._script.popleft()
        from gateway.client.in_process import Reply  # noqa: PLC0415 (pytest loads us in every run)
        from gateway.models import Action  # noqa: PLC0415 (as above)

        return Reply(action=Action.DENY, message="the test scripted no decision for this call")

    def _add(self, action: str, **details: Any) -> None:
        from gateway.client.in_process import Reply  # noqa: PLC0415 (pytest loads us in every run)
        from gateway.models import Action  # noqa: PLC0415 (as above)

        self._script.append(Reply(action=Action(action), **details))


@pytest.fixture
def approvals() -> Iterator[ScriptedApprovals]:
    """Script the decisions for gated code in this test, in all threads. Calls without one are
    denied."""
    from gateway.client.blocking_client import Client, use_client  # noqa: PLC0415 (as above)
    from gateway.client.in_process import CallableTransport  # noqa: PLC0415 (pytest loads us in every run)

    scripted = ScriptedApprovals()
    transport = CallableTransport(scripted.decide)
    scripted.requests, scripted.reports = transport.requests, transport.reports
    with Client(transport) as client, use_client(client, everywhere=True):
        yield scripted
