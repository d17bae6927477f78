"""End expired requests, processes and sessions (`Sweeper`), and the requests of revoked agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from gateway.approvals.services import Core
from gateway.domain.store import MessageContext, Store
from gateway.models import Reason

log = logging.getLogger("gateway.approvals")

_BATCH = 500


class Sweeper:
    """Checks every `tick` seconds for expired requests, processes and sessions. Several replicas
    may run it, because it is idempotent."""

    def __init__(
        self,
        core: Core,
        store: Store,
        *,
        session_idle_hours: float,
        tick: float = 1.0,
    ) -> None:
        self._tick = tick
        self._core = core
        self._store = store
        self._idle_ms = int(session_idle_hours * 3_600_000)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.sweep()
            except Exception:
                # Deadlines must fire after any error.
                log.exception("sweep failed", extra={"event": "sweep_failed"})
            await asyncio.sleep(self._tick)

    async def sweep(self) -> None:
        """Handle everything that is due. A failed step is logged and tried again; the other steps
        continue."""
        due = await self._store.due(idle_ms=self._idle_ms, limit=_BATCH)
        approvals = self._core.approvals
        work: list[tuple[dict[str, str], Awaitable[object]]] = [
            ({}, self._core.grants.sweep(due.now, _BATCH)),
            *(({"request": one}, approvals.expire(one)) for one in due.expired),
            *(({"request": one}, approvals.stop(one)) for one in due.stopped),
            *(({"agent": one}, self._store.expire_process(one, lost)) for one, lost in due.lapsed),
            *(({"agent": one}, self._core.sessions.end_idle(one, idle)) for one, idle in due.idle),
        ]
        results = await asyncio.gather(*(step for _, step in work), return_exceptions=True)
        for (about, _), result in zip(work, results, strict=True):
            if isinstance(result, Exception):
                known = {"event": "sweep_item_failed", **about}
                log.error("not settled: %r", result, extra=known)


# Revoked agents.


async def dismiss(core: Core, store: Store, agent: str) -> list[str]:
    """Cancel the pending requests of a revoked agent and return their IDs. Its sessions and
    approving grants end too, so that a later holder of its name inherits nothing."""
    gone, reason = MessageContext(agent=agent), Reason.CANCELLED_BY_OPERATOR
    waiting = await store.pending_of(agent)
    for request_id in waiting:
        await core.approvals.cancel(
            request_id, gone, reason=reason, message="the agent was revoked"
        )
    for session in await store.sessions(agent):
        await core.sessions.end(session.name, gone, reason=reason)
    await core.grants.dismiss(agent)
    return waiting
