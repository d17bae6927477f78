"""Gives waiting requests the places that a new policy adds, and what it declares of their tools.

The script that replaces the policy puts every waiting request on this queue, so that none is missed
when the gateway dies just then.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.approvals.core import Core
from gateway.approvals.writer import queues_of
from gateway.domain.policy_document import adapters_of
from gateway.errors import NotFound

_SOON = 0.05
_AGAIN_SECONDS = 30.0  # an adapter may not know of the new policy yet, or not run yet


class Rerouting:
    """Looks at one waiting request at a time."""

    def __init__(self, core: Core) -> None:
        self._requests = core.requests
        self._writer = core.writer
        self._outbox = core.outbox

    async def look(self, request_id: str) -> float | None:
        """Have what lacks posted; return in how many seconds to look again, or None."""
        try:
            record = await self._requests.get(request_id)
        except NotFound:
            return None
        if record.final:
            return None
        policy = await self._writer.current_policy()
        route = policy.route_for(record.request.agent, record.request.tool)
        wanted = queues_of(route, record.owner, policy)
        if new := [queue for queue in wanted if queue not in record.queues]:
            # From now on they hear of the request, and first of all of this change.
            after = replace(record, queues=(*record.queues, *new))
            await self._requests.progress(record, after, "rerouted", {"queues": new})
            return _SOON
        declared = policy.declare(record)
        if declared != record:  # what its card offers to remember changes with it
            await self._requests.progress(record, declared, "redeclared", {})
            return _SOON
        if record.behind:  # it has no card yet, and gets it where it then belongs
            return None
        copies = await self._outbox.copies(request_id)
        lacking = adapters_of(place for place in route.places(record.tier) if place not in copies)
        for adapter in lacking:
            await self._outbox.mark(adapter, request_id)
        return _AGAIN_SECONDS if lacking else None
