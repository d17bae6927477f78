"""The sessions of agents: who lists and ends them."""

from __future__ import annotations

from dataclasses import replace

from gateway.approvals.grant_lifecycle import GrantLifecycle
from gateway.approvals.service import Approvals, is_own
from gateway.approvals.writer import Writer
from gateway.domain.records import Identity, Session
from gateway.domain.store import MessageContext, Store
from gateway.errors import Unauthorized
from gateway.models import Reason
from gateway.policy.authorization import answers_for


class SessionDesk:
    """A `gateway.ports.SessionCalls`. Ending a session cancels what waits in it."""

    def __init__(
        self, store: Store, writer: Writer, approvals: Approvals, grants: GrantLifecycle
    ) -> None:
        self._store = store
        self._writer = writer
        self._approvals = approvals
        self._grants = grants

    async def open(self, agent: str | None) -> list[Session]:
        """Return the sessions that have not ended, of one agent or of all."""
        return await self._store.sessions(agent)

    async def end_as(self, identity: Identity, agent: str, session: str) -> list[str]:
        """End an agent's session for a person; return the ids of what was cancelled.

        Raises Unauthorized unless they are an admin, or an approver of the agent.
        """
        if not answers_for(await self._writer.fresh_policy(), agent, identity):
            raise Unauthorized("only an admin or an approver of this agent may end its sessions")
        return await self.end(
            session, MessageContext(agent=agent), reason=Reason.CANCELLED_BY_OPERATOR
        )

    async def end(
        self, session: str, origin: MessageContext, *, reason: Reason = Reason.CANCELLED_BY_AGENT
    ) -> list[str]:
        """End an agent's session and cancel what waits in it; return the ids."""
        waiting = await self._waiting_in(session, origin)
        inner = replace(origin, entry=None)
        for request_id in waiting:
            await self._approvals.cancel(request_id, inner, reason=reason, message="session ended")
        await self._close(session, origin.agent, waiting)
        await self._store.answer(origin, state={})
        return waiting

    async def end_idle(self, agent: str, session: str) -> None:
        """End a session in which nothing was asked for long. One in which something still waits is
        not idle, however long ago it was asked: it begins its idle time anew."""
        if await self._waiting_in(session, MessageContext(agent=agent)):
            await self._store.touch_session(agent, session)
        else:
            await self._close(session, agent, [])

    async def _waiting_in(self, session: str, origin: MessageContext) -> list[str]:
        records = await self._store.load_many(await self._store.pending_of(origin.agent))
        mine = (record for record in records if record and is_own(record, origin))
        return [record.id for record in mine if record.request.session == session]

    async def _close(self, session: str, agent: str, cancelled: list[str]) -> None:
        await self._grants.end_session(agent, session)
        if await self._store.end_session(agent, session):
            told = {"session": session, "cancelled": cancelled}
            await self._store.note("session_ended", agent=agent, data=told)
