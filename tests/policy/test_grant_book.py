"""What was read of remembered decisions serves one generation of the policy, while it lasts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from gateway.models import new_id
from gateway.policy.grant_book import GrantBook
from gateway.policy.grants.grant import Effect, Grant, Shape
from gateway.stores.grants import RedisGrants
from tests.clocks import StandingClock
from tests.grants.making import asked, granted, remembered
from tests.world import World


class Overtaken(RedisGrants):
    """A store of which an answer arrives after something else happened, once."""

    between: Callable[[], Awaitable[None]] | None = None

    async def about(self, agent: str, tool: str, digest: str) -> tuple[int, list[Grant]]:
        """Return what there was before it happened."""
        found = await super().about(agent, tool, digest)
        happen, self.between = self.between, None
        if happen is not None:
            await happen()
        return found


async def test_what_expired_is_neither_used_nor_named(world: World) -> None:
    """No script looks again where it only makes people decide, or only tells why they do."""
    record, grants = asked(), RedisGrants(world.store)
    grant = replace(remembered(record, Shape.EXACT), expires_at=2_000)
    await grants.add(grant)
    book = GrantBook(grants, clock := StandingClock(1_999))
    book.at(await world.store.policy())
    assert [one.id for one in await book.about(record)] == [grant.id]
    clock.now = 2_000
    assert await book.about(record) == ()


async def test_an_answer_that_was_overtaken_serves_its_own_generation_alone(world: World) -> None:
    """The policy is read anew while the store answers: a denial made meanwhile is found."""
    record, grants = asked(), Overtaken(world.store)
    denial = granted(remembered(record, Shape.EXACT).match, Effect.DENY, id=new_id())
    await grants.add(remembered(record, Shape.EXACT))
    book = GrantBook(grants, StandingClock(0))
    book.at(await world.store.policy())

    async def deny() -> None:
        await grants.add(denial)
        book.at(await world.store.policy())

    grants.between = deny
    assert denial.id not in [one.id for one in await book.about(record)]
    assert denial.id in [one.id for one in await book.about(record)]
