"""A request that waits while its process does something else, or ends."""

from __future__ import annotations

from typing import Any

from gateway.errors import Pending
from gateway.models import ApprovalRequest


class Suspended(Pending):
    """The request still waits. Pickle it, and go on with `resume` or `wait` later, in any process.

    `request` is the whole request, so that the answer can be checked against it then.
    """

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__(request.id, request.digest)
        self.request = request

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the request alone: an exception's own way would call with other arguments."""
        return type(self), (self.request,)
