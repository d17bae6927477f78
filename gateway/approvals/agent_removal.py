"""Ends what a revoked agent left behind."""

from __future__ import annotations

from gateway.approvals.core import Core
from gateway.domain.store import MessageContext, Store
from gateway.models import Reason


async def dismiss(core: Core, store: Store, agent: str) -> list[str]:
    """Cancel what waits of an agent that was revoked; return the ids. Its sessions end, and
    nothing that people let it do is left to a later holder of its name."""
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
