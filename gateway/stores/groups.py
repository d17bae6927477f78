"""Who waits behind whom, and who asks nobody for now."""

from __future__ import annotations

from gateway.domain.policy_document import Budget
from gateway.domain.records import AgentLoad, Paused, Record, crowd_of, likeness
from gateway.models import RiskLevel
from gateway.stores.record_codec import dumps
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script


class RedisGroups:
    """A `gateway.approvals.grouping.GroupStore` over one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis, self._keys, self._now = store.redis, store.keys, store.now
        self._promote_next, self._release = (
            Script("promote_next", store.at),
            Script("release", store.at),
        )
        self._resume_agent, self._place = (
            Script("resume_agent", store.at),
            Script("place", store.at),
        )

    async def behind(self, what: str) -> list[str]:
        """Return the ids that wait behind a request or a digest card, oldest first."""
        ids: list[str] = await self._redis.zrange(self._keys.behind(what), 0, -1)
        return ids

    async def promote_next(self, record: Record, budget: Budget, *, posts: bool) -> None:
        """Have those behind a request that leads no more wait behind their next."""
        keys, agent = self._keys, record.holder
        await self._promote_next.run(
            self._redis,
            [
                keys.record(record.id),
                keys.behind(record.id),
                keys.load(agent),
                keys.events,
                keys.dirty(""),
                keys.record(""),
                keys.behind(""),
            ],
            [record.id, agent, likeness(record), budget.card_ms if posts else "", budget.cards],
        )

    async def place(self, record: Record, budget: Budget, *, posts: bool, alone: bool) -> None:
        """Find the place of a request that was reviewed. See `grouping.GroupStore`."""
        keys, agent = self._keys, record.holder
        alone = alone or record.risk.level is RiskLevel.HIGH
        await self._place.run(
            self._redis,
            [
                keys.record(record.id),
                keys.load(agent),
                keys.dirty(""),
                keys.record(""),
                keys.behind(""),
            ],
            [
                record.id,
                agent,
                "" if alone else likeness(record),
                budget.card_ms if posts else "",
                budget.cards,
                " ".join(record.queues),
            ],
        )

    async def release(self, agent: str, budget: Budget) -> float | None:
        """Give cards to those behind the digest card. See `grouping.GroupStore`."""
        keys = self._keys
        wait = await self._release.run(
            self._redis,
            [
                keys.behind(crowd_of(agent)),
                keys.load(agent),
                keys.events,
                keys.dirty(""),
                keys.record(""),
            ],
            [agent, budget.card_ms, budget.cards],
        )
        return None if wait < 0 else max(1, int(wait)) / 1000

    async def load(self, agent: str) -> AgentLoad:
        """Return what an agent's digest card must say beside who waits behind it."""
        wanted = ("rev", "until", "last")
        revision, until, last = await self._redis.hmget(self._keys.load(agent), wanted)
        if until is None or int(until) <= await self._now():
            return AgentLoad(revision=int(revision or 0))
        return AgentLoad(revision=int(revision or 0), paused=int(until), denied=last)

    async def list_paused(self) -> list[Paused]:
        """Return the agents that ask nobody for now."""
        now = await self._now()
        rows = await self._redis.hgetall(self._keys.breakers)
        every = (Paused(agent=agent, until=int(until)) for agent, until in rows.items())
        return sorted((one for one in every if one.until > now), key=lambda one: one.agent)

    async def resume_agent(self, agent: str, *, by: str) -> bool:
        """Let an agent ask again; return whether it was paused."""
        keys = self._keys
        resumed = await self._resume_agent.run(
            self._redis,
            [keys.load(agent), keys.breakers, keys.events, keys.dirty(""), keys.record("")],
            [agent, dumps({"by": by})],
        )
        return bool(resumed)
