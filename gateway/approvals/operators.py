"""Handle operators' calls: the kill switch, cool-downs, declarations about tools, the report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from gateway.approvals.duplicates_and_overflow import GroupStore
from gateway.approvals.request_service import SessionService
from gateway.approvals.request_writer import Writer
from gateway.approvals.search_and_report import read_report
from gateway.cards.shared_texts import KillSwitch
from gateway.domain.health_and_metrics import Health
from gateway.domain.policy_document import Budget, PolicyDocument, ToolRow
from gateway.domain.records import Identity, Session, StoredRequest
from gateway.domain.statistics import PeriodReport
from gateway.domain.store import MessageContext, Store
from gateway.errors import Conflict, NotFound, Unauthorized, Unconfirmed
from gateway.models import Reason
from gateway.policy.authorization import answers_for
from gateway.policy.declared_tools import ToolWord, check_word, dangers_of, with_word
from gateway.ports.adapter_api import GatewayStatus
from gateway.ports.operations import Operations

_TRIES = 8


class OperatorService:
    """Implements `gateway.ports.OperatorCalls`. Reads the policy again before checking rights."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        groups: GroupStore,
        sessions: SessionService,
        health: Health,
    ) -> None:
        self._store = store
        self._writer = writer
        self._groups = groups
        self._sessions = sessions
        self._health = health
        self.measure: Callable[[], Awaitable[Operations]] | None = None  # set by the server

    async def status(self, identity: Identity | None = None) -> GatewayStatus:
        """Return the state of the gateway."""
        found = await self._store.stopped_by()
        by, at = found or ("", 0)
        waiting = await self._store.count_pending()
        admin = identity is not None and (await self._writer.policy()).may_read_all(identity)
        return GatewayStatus(
            switch=KillSwitch(on=found is not None, by=by, at=at, waiting=waiting),
            paused=tuple(await self._groups.list_paused()),
            troubles=self._health.readiness.problems if admin else (),
        )

    async def stop_all(self, identity: Identity, *, on: bool) -> None:
        """Turn the kill switch on or off."""
        policy = await self._writer.current_policy()
        if not policy.is_admin(identity):
            await self._refuse(identity, "only an admin may use the kill switch")
            raise Unauthorized("only an admin may use the kill switch")
        if await self._store.is_stopped() != on:
            await self._store.set_stopped(on, by=policy.name_of(identity))

    async def budget_of(self, agent: str) -> Budget:
        """Return an agent's limits for pending requests and for denials before a cool-down."""
        return (await self._writer.policy()).budget_for(agent)

    async def lift(self, agent: str, identity: Identity) -> bool:
        """End an agent's cool-down. Return whether the agent was in one."""
        policy = await self._writer.fresh_policy()
        if not answers_for(policy, agent, identity):
            why = "only an admin or an approver of this agent may end its cool-down"
            await self._refuse(identity, why)
            raise Unauthorized(why)
        return await self._groups.resume_agent(agent, by=policy.name_of(identity))

    async def list_sessions(self, agent: str | None) -> list[Session]:
        """Return the active sessions of one agent, or of all agents."""
        return await self._store.sessions(agent)

    async def end_session(self, identity: Identity, agent: str, session: str) -> list[str]:
        """End an agent's session for a person. Return the IDs of the cancelled requests."""
        if not answers_for(await self._writer.fresh_policy(), agent, identity):
            raise Unauthorized("only an admin or an approver of this agent may end its sessions")
        origin, reason = MessageContext(agent=agent), Reason.CANCELLED_BY_OPERATOR
        return await self._sessions.end(session, origin, reason=reason)

    async def report(
        self, identity: Identity, *, since: int | None = None, until: int | None = None
    ) -> PeriodReport:
        """Return statistics of decisions in a period."""
        if not (await self._writer.fresh_policy()).may_read_all(identity):
            raise Unauthorized("only an admin or auditor may see how people decide")
        return await read_report(self._store, self._writer.now(), since=since, until=until)

    async def inspect(self, identity: Identity) -> Operations:
        """Return the state of all gateways."""
        if not (await self._writer.fresh_policy()).may_read_all(identity):
            raise Unauthorized("only an admin or auditor may see the state of the gateways")
        if self.measure is None:
            raise NotFound("this process does not measure the gateways")
        return await self.measure()

    async def list_declared(self) -> tuple[ToolRow, ...]:
        """Return the declarations of operators."""
        return (await self._writer.current_policy()).tools

    async def declare(
        self,
        identity: Identity,
        word: ToolWord,
        *,
        confirmed: bool = False,
        about: StoredRequest | None = None,
    ) -> None:
        """Save a declaration in the policy."""
        for _ in range(_TRIES):
            policy = await self._writer.fresh_policy()
            by = await self._check_admin(policy, identity)
            check_word(word)
            after = with_word(policy, word, by=by, at=self._now())
            if after is policy:
                return
            dangers = dangers_of(policy, word, about)
            if dangers and not confirmed:
                raise Unconfirmed(f"{' '.join(dangers)} Confirm the declaration to save it anyway.")
            try:
                await self._store.apply(after, by=by)
            except Conflict:  # somebody else changed the policy: read it again
                continue
            self._writer.forget_policy()
            await self._note(word, by)
            return
        raise Conflict("the policy keeps changing: try again")

    async def _check_admin(self, policy: PolicyDocument, identity: Identity) -> str:
        if not policy.is_admin(identity):
            why = "only an admin may declare the roles of a tool's arguments"
            await self._refuse(identity, why)
            raise Unauthorized(why)
        return policy.name_of(identity)

    async def _refuse(self, identity: Identity, why: str) -> None:
        await self._store.note("refused", agent=identity.written, data={"why": why})

    async def _note(self, word: ToolWord, by: str) -> None:
        """Audit the declaration; the event of the policy change contains the rest."""
        said = [{"address": one, "role": role} for one, role in word.arguments.items()]
        if word.harmless is not None:
            said.append({"address": "", "role": "harmless" if word.harmless else "not harmless"})
        for one in said:
            await self._store.note("tool_declared", data={"tool": word.tool, **one, "by": by})

    def _now(self) -> str:
        now = datetime.fromtimestamp(self._writer.now() / 1000, UTC)
        return now.isoformat(timespec="seconds")
