"""Handle requests that share a card: duplicates of a request, and requests on an overflow card.

Scripts store the groups; `Grouping` decides what happens to them.
"""

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

_GRANT_MS = 1000  # so that a grant from an approval decides the others before one of them is shown
_AT_ONCE = 100
_SOON = 0.05
_RETRY = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """Content of an agent's overflow card: the requests that it covers, oldest first, and when a
    cool-down ends (`paused`, in ms since the epoch).

    `revision` increases when a request joins or leaves, and when a cool-down begins or ends.
    `denied` is the request whose denial caused the cool-down, if known.
    """

    agent: str
    revision: int
    records: tuple[StoredRequest, ...]
    paused: int | None = None
    denied: StoredRequest | None = None

    @property
    def id(self) -> str:
        """The ID of the overflow in queues and of its posted cards."""
        return overflow_of(self.agent)

    @property
    def final(self) -> bool:
        """Whether the card covers no request any more and the agent is in no cool-down."""
        return not self.records and self.paused is None


class GroupStore(Protocol):
    """Stores which requests share a card. Each method runs one script."""

    async def behind(self, what: str) -> list[str]:
        """Return the IDs of the requests that share a request's card or an overflow card, oldest
        first."""

    async def promote_next(self, record: StoredRequest, budget: Budget, *, posts: bool) -> None:
        """Choose which request gets the card after the request that had it no longer needs it."""

    async def place(
        self, record: StoredRequest, budget: Budget, *, posts: bool, alone: bool
    ) -> None:
        """Choose the card for a request after its review, by the rules for a new request. With
        `alone`, it does not share another request's card."""

    async def release(self, agent: str, budget: Budget) -> float | None:
        """Give separate cards to requests on the overflow card, within the budget. Return the
        seconds until the next request gets one, or None if none is left."""

    async def load(self, agent: str) -> AgentLoad:
        """Return the state that an agent's overflow card shows in addition to the covered
        requests."""

    async def list_paused(self) -> list[Paused]:
        """Return the agents in a cool-down."""

    async def resume_agent(self, agent: str, *, by: str) -> bool:
        """End an agent's cool-down. Return whether the agent was in one."""


class Grouping:
    """Handles requests that share a card. Every method is idempotent."""

    def __init__(self, store: Store, groups: GroupStore, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._groups = groups

    async def settle(self, leader: StoredRequest, now: int) -> float | None:
        """Handle the requests that share the card of a request that ended. Return the seconds until
        the next check.

        A person's denial applies to these requests too. After any other ending, the next of them
        gets the card.
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
        shown = posts(policy.ruling_on(leader.request), leader)
        await self._groups.promote_next(leader, budget, posts=shown)
        return None

    async def release(self, agent: str) -> float | None:
        """Give separate cards to requests on an agent's overflow card, within the agent's
        budget."""
        policy = await self._writer.policy()
        return await self._groups.release(agent, policy.budget_for(agent))

    async def overflow(self, agent: str) -> Overflow:
        """Return the content of an agent's overflow card."""
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
        """Return whether any request that the denial applies to is still pending."""
        left = await self._store.load_many(await self._groups.behind(leader.id))
        return any(one is not None and shares(policy, leader, one) for one in left)

    async def _deny(self, leader: StoredRequest, decision: Decision, known: StoredRequest) -> None:
        """Apply the denial of one request to another request that shares its card."""
        step = partial(self._take_over, leader, outcome_of(decision))
        with suppress(NotFound, Overtaken):
            await self._writer.update(known.id, step, known=known)

    async def _take_over(
        self, leader: StoredRequest, ending: RequestOutcome, follower: StoredRequest, ruling: Ruling
    ) -> Transition | None:
        if not shares(ruling.policy, leader, follower):
            return None
        note = f"denied together with {leader.id}, which requested the same"
        return self._writer.plan_end(follower, ending, ruling, note=note)


def shares(policy: PolicyDocument, leader: StoredRequest, follower: StoredRequest) -> bool:
    """Return whether a person's denial of one request applies to another request that shares its
    card.

    Both requests must have the same call, the same route and the same possible approvers.
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
