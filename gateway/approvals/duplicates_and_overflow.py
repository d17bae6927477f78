"""Requests that wait without a card of their own: behind one that asks the same, or behind the
overflow card of their agent. Scripts keep who waits behind whom; here it is decided what becomes of
them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from gateway.approvals.request_writer import Overtaken, Writer, posts
from gateway.domain.policy_document import Budget, PolicyDocument, Ruling
from gateway.domain.records import (
    AgentLoad,
    Paused,
    RequestOutcome,
    StoredRequest,
    outcome_of,
    overflow_of,
)
from gateway.domain.store import Store, Transition
from gateway.errors import NotFound
from gateway.models import DeciderKind, Decision, RiskLevel, Status
from gateway.policy.authorization import requesters

_GRANT_MS = 1000  # for a grant made with an approval to settle the others, before one is asked
_AT_ONCE = 100
_SOON = 0.05
_RETRY = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """What an agent's overflow card is about: the requests that wait behind it, the oldest first,
    and until when the agent is `paused`, in ms since the epoch.

    `revision` rises whenever one joins or leaves them, and when the agent is paused or lifted.
    `denied` is the request whose denial paused it, as long as it is known.
    """

    agent: str
    revision: int
    records: tuple[StoredRequest, ...]
    paused: int | None = None
    denied: StoredRequest | None = None

    @property
    def id(self) -> str:
        """What stands for it in queues, and where its copies are kept."""
        return overflow_of(self.agent)

    @property
    def final(self) -> bool:
        """Whether none waits any more, and the agent may ask."""
        return not self.records and self.paused is None


class GroupStore(Protocol):
    """Who waits behind whom, changed by one script for each step."""

    async def behind(self, what: str) -> list[str]:
        """Return the ids that wait behind a request or an overflow card, oldest first."""

    async def promote_next(self, record: StoredRequest, budget: Budget, *, posts: bool) -> None:
        """Have those behind a request that leads no more wait behind their next."""

    async def place(
        self, record: StoredRequest, budget: Budget, *, posts: bool, alone: bool
    ) -> None:
        """Find the place of a request that was reviewed, as a new one without hooks finds its own.
        One that stands `alone` is behind no other."""

    async def release(self, agent: str, budget: Budget) -> float | None:
        """Give cards to those behind the overflow card, as far as the budget goes; return in how
        many seconds there is more, None when none waits there."""

    async def load(self, agent: str) -> AgentLoad:
        """Return what an agent's overflow card must say beside who waits behind it."""

    async def list_paused(self) -> list[Paused]:
        """Return the agents that ask nobody for now."""

    async def resume_agent(self, agent: str, *, by: str) -> bool:
        """Let an agent ask again; return whether it was paused."""


class Grouping:
    """Takes the steps of requests that wait without a card. Every step may be taken twice."""

    def __init__(self, store: Store, groups: GroupStore, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._groups = groups

    async def settle(self, leader: StoredRequest, now: int) -> float | None:
        """Resolve the requests grouped behind a former leader; return seconds until the next check.

        They take over the denial of a person; else the next of them is asked.
        """
        decision, policy = leader.decision, await self._writer.policy()
        if decision is not None and decision.status is Status.APPROVED:
            rest = decision.decided_at + _GRANT_MS - now
            if 0 < rest <= _GRANT_MS:
                return rest / 1000
        if decision is not None and _is_denied(leader):
            ids = await self._groups.behind(leader.id)
            for follower in await self._store.load_many(ids[:_AT_ONCE]):
                if follower is not None and shares(policy, leader, follower):
                    await self._deny(leader, decision, follower)
            if len(ids) > _AT_ONCE:
                return _SOON
            if await self._has_undecided(leader, policy):
                return _RETRY
        budget = policy.budget_for(leader.request.agent)
        shown = posts(policy.ruling_on(leader.request))
        await self._groups.promote_next(leader, budget, posts=shown)
        return None

    async def release(self, agent: str) -> float | None:
        """Give cards to those behind an agent's overflow card, as far as its budget goes."""
        policy = await self._writer.policy()
        return await self._groups.release(agent, policy.budget_for(agent))

    async def overflow(self, agent: str) -> Overflow:
        """Return what an agent's overflow card is about."""
        load = await self._groups.load(agent)
        found = await self._store.load_many(await self._groups.behind(overflow_of(agent)))
        return Overflow(
            agent=agent,
            revision=load.revision,
            records=tuple(one for one in found if one is not None and not one.final),
            paused=load.paused,
            denied=await self._store.load(load.denied) if load.denied else None,
        )

    async def _has_undecided(self, leader: StoredRequest, policy: PolicyDocument) -> bool:
        """Whether one still waits that should have taken over the denial."""
        left = await self._store.load_many(await self._groups.behind(leader.id))
        return any(one is not None and shares(policy, leader, one) for one in left)

    async def _deny(self, leader: StoredRequest, decision: Decision, known: StoredRequest) -> None:
        """Have a request that waits behind another take over its denial."""
        step = partial(self._take_over, leader, outcome_of(decision))
        with suppress(NotFound, Overtaken):
            await self._writer.update(known.id, step, known=known)

    async def _take_over(
        self, leader: StoredRequest, ending: RequestOutcome, follower: StoredRequest, ruling: Ruling
    ) -> Transition | None:
        if not shares(ruling.policy, leader, follower):
            return None
        note = f"denied together with {leader.id}, which asked the same"
        return self._writer.plan_end(follower, ending, ruling, note=note)


def shares(policy: PolicyDocument, leader: StoredRequest, follower: StoredRequest) -> bool:
    """Whether a person's denial of one request holds for another that waits behind it.

    The same would run, on the same route, and whoever might decide the one might decide the other.
    """
    one, other = leader.request, follower.request
    return (
        not follower.final
        and (one.agent, one.session, leader.digest) == (other.agent, other.session, follower.digest)
        and RiskLevel.HIGH not in (leader.risk.level, follower.risk.level)
        and policy.route_for(one.agent, one.tool) == policy.route_for(other.agent, other.tool)
        and requesters(policy, leader) == requesters(policy, follower)
    )


def _is_denied(record: StoredRequest) -> bool:
    decision = record.decision
    return (
        decision is not None
        and decision.status is Status.DENIED
        and decision.decided_by.kind is DeciderKind.PERSON
    )
