"""What operators do: the kill switch, paused agents, declarations about tools, the report."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.approvals.duplicates_and_overflow import GroupStore
from gateway.approvals.search_service import ReportQuery
from gateway.approvals.writer import Writer
from gateway.cards.words import KillSwitch
from gateway.domain.health_and_metrics import Health
from gateway.domain.policy_document import Budget, PolicyDocument, ToolRow
from gateway.domain.records import Identity, Paused, Record
from gateway.domain.statistics import PeriodReport
from gateway.domain.store import Store
from gateway.errors import Conflict, Unauthorized, Unconfirmed
from gateway.policy.authorization import answers_for
from gateway.policy.declared_tools import ToolWord, check_word, dangers_of, with_word


class OperatorService:
    """A `gateway.ports.OperatorCalls`: rights are checked under the policy read anew."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        held: GroupStore,
        reporting: ReportQuery,
        health: Health,
    ) -> None:
        self._store = store
        self._writer = writer
        self._held = held
        self._reporting = reporting
        self._health = health

    async def list_troubles(self, identity: Identity) -> tuple[str, ...]:
        """Return what is wrong with the gateway just now, for admins; for others nothing."""
        policy = await self._writer.policy()
        return self._health.readiness.problems if policy.is_admin(identity) else ()

    async def kill_switch(self) -> KillSwitch:
        """Return whether the kill switch is on, since when and by whom, and how many wait."""
        found = await self._store.stopped_by()
        by, at = found or ("", 0)
        waiting = await self._store.count_pending()
        return KillSwitch(on=found is not None, by=by, at=at, waiting=waiting)

    async def stop_all(self, identity: Identity, *, on: bool) -> None:
        """Turn the kill switch on or off. See `gateway.ports.OperatorCalls` for what it raises."""
        policy = await self._writer.current_policy()
        if not policy.is_admin(identity):
            await self._refuse(identity, "only an admin may use the kill switch")
            raise Unauthorized("only an admin may stop everything, or lift that")
        if await self._store.is_stopped() != on:
            await self._store.set_stopped(on, by=policy.name_of(identity))

    async def list_paused(self) -> list[Paused]:
        """Return the agents that ask nobody for now, as people denied too much of them in a row."""
        return await self._held.list_paused()

    async def budget_of(self, agent: str) -> Budget:
        """Return how much of an agent may wait, and how often it may be denied before a pause."""
        return (await self._writer.policy()).budget_for(agent)

    async def lift(self, agent: str, identity: Identity) -> bool:
        """Let an agent ask again; return whether it was paused.

        Raises Unauthorized unless the person is an admin, or an approver of the agent. That others
        tried is audited.
        """
        policy = await self._writer.fresh_policy()
        if not answers_for(policy, agent, identity):
            why = "only an admin or an approver of this agent may let it ask again"
            await self._refuse(identity, why)
            raise Unauthorized(why)
        return await self._held.resume_agent(agent, by=policy.name_of(identity))

    async def report(
        self, identity: Identity, *, since: int | None = None, until: int | None = None
    ) -> PeriodReport:
        """Return how people decided, in the last 30 days where no period is given.

        Raises Unauthorized for all but admins.
        """
        if not (await self._writer.fresh_policy()).is_admin(identity):
            raise Unauthorized("only an admin may see how people decide")
        return await self._reporting.read(since=since, until=until)

    async def _refuse(self, identity: Identity, why: str) -> None:
        await self._store.note("refused", agent=identity.written, data={"why": why})


# What admins declare about tools while the gateway runs: rows of the policy.

_TRIES = 8


class ToolDeclarations:
    """A `gateway.ports.ToolCalls`: writes rows of the policy; rights are checked each time."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    async def rows(self) -> tuple[ToolRow, ...]:
        """Return what operators have declared."""
        return (await self._writer.current_policy()).tools

    async def declare(
        self,
        identity: Identity,
        word: ToolWord,
        *,
        confirmed: bool = False,
        about: Record | None = None,
    ) -> None:
        """Write a declaration into the policy. See `gateway.ports.ToolCalls` for what it raises.

        Saying the same again changes nothing.
        """
        for _ in range(_TRIES):
            policy = await self._writer.fresh_policy()
            by = await self._check_admin(policy, identity)
            check_word(word)
            after = with_word(policy, word, by=by, at=self._now())
            if after is policy:
                return
            dangers = dangers_of(policy, word, about)
            if dangers and not confirmed:
                raise Unconfirmed(f"{' '.join(dangers)} Confirm it to declare it all the same.")
            try:
                await self._store.apply(after, by=by)
            except Conflict:  # somebody else changed the policy: look at what stands now
                continue
            self._writer.forget_policy()
            await self._note(word, by)
            return
        raise Conflict("the policy keeps changing: try again")

    async def _check_admin(self, policy: PolicyDocument, identity: Identity) -> str:
        if not policy.is_admin(identity):
            why = "only an admin may declare what a tool's arguments are"
            await self._store.note("refused", agent=identity.written, data={"why": why})
            raise Unauthorized(why)
        return policy.name_of(identity)

    async def _note(self, word: ToolWord, by: str) -> None:
        """Write down what was said; the policy's own event says the rest."""
        said = [{"address": one, "role": role} for one, role in word.arguments.items()]
        if word.harmless is not None:
            said.append({"address": "", "role": "harmless" if word.harmless else "not harmless"})
        for one in said:
            await self._store.note("tool_declared", data={"tool": word.tool, **one, "by": by})

    def _now(self) -> str:
        now = datetime.fromtimestamp(self._writer.now() / 1000, UTC)
        return now.isoformat(timespec="seconds")
