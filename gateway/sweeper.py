"""What only the clock brings about: deadlines, lapsed waiters, idle sessions."""

from __future__ import annotations

import asyncio
import logging

from gateway.approvals import Approvals
from gateway.errors import GatewayError
from gateway.ports import Due, Origin, Store

log = logging.getLogger("gateway.sweeper")

TICK_SECONDS = 1.0
_BATCH = 200


class Sweeper:
    """Asks the server once a second what is due. Several replicas may do so: all of it is
    idempotent."""

    def __init__(self, approvals: Approvals, store: Store, *, session_idle_hours: float) -> None:
        self._approvals = approvals
        self._store = store
        self._idle_ms = int(session_idle_hours * 3_600_000)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                more = await self.sweep()
            except (GatewayError, OSError) as error:
                log.warning("sweep failed: %s", error, extra={"event": "sweep_failed"})
                more = False
            await asyncio.sleep(0 if more else TICK_SECONDS)

    async def sweep(self) -> bool:
        """Settle what is due now; return whether there may be more."""
        due = await self._store.due(idle_ms=self._idle_ms, limit=_BATCH)
        await asyncio.gather(*(self._approvals.expire(request_id) for request_id in due.expired))
        for agent, process in due.lapsed:
            await self._approvals.lapse(agent, process)
        for agent, session in due.idle:
            await self._approvals.end_session(session, Origin(agent=agent))
        return _full(due)


def _full(due: Due) -> bool:
    return max(len(due.expired), len(due.lapsed), len(due.idle)) >= _BATCH
