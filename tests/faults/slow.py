"""A decider that wants every request stored before it is asked, and then has no opinion."""

from __future__ import annotations

from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.policy.verdict import Verdict


class Slow:
    """Leaves everything to people."""

    name = "slow"
    priority = 500
    after_storing = True

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Return no answer."""
        return None
