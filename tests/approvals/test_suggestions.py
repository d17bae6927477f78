"""What people approved before says which offer is chosen first, and what is suggested."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.records import Remember, StoredRequest
from gateway.models import Action, Context, Kind
from gateway.policy.grants.offers import Offer, offers
from tests.world import World, click

HERE = Context(cwd="/srv/app", host="laptop")


async def asked(world: World, command: str = "git log -n 5", **more: Any) -> StoredRequest:
    """Return a waiting command."""
    values = {"kind": Kind.COMMAND, "context": HERE, **more}
    return await world.submit(arguments={"command": command}, **values)


async def decided(
    world: World, command: str = "git log -n 5", action: Action = Action.APPROVE, **how: Any
) -> StoredRequest:
    """Return a command that ann answered."""
    return await world.core.requests.decide(click(await asked(world, command), action, **how))


async def usual(world: World, record: StoredRequest) -> Offer | None:
    """Return the offer that is chosen first, None for the narrowest by default."""
    found = await world.core.requests.find_usual(record.id)
    return next((one for one in offers(record) if one.id == found), None)


@pytest.mark.parametrize(
    ("commands", "at"),
    [(["git log -n 5"] * 10, 0), ([f"git log -n {n}" for n in range(10)], 1),
     ([*["git log -n 5"] * 9, "git log --stat"], 2)],
)  # fmt: skip
async def test_the_narrowest_that_covers_the_last_ten_comes_first(
    world: World, commands: list[str], at: int
) -> None:
    """Exactly this where all were the same, wider only as far as they differed."""
    for command in commands:
        await decided(world, command)
    record = await asked(world)
    assert await usual(world, record) == offers(record)[at]


async def test_nine_say_nothing(world: World) -> None:
    """Nor do requests that no offer covers: they are not similar."""
    for _ in range(9):
        await decided(world, "git log -n 7")
    await decided(world, "make")
    record = await asked(world)
    assert await usual(world, record) is None
    await decided(world, "git log -n 7")
    assert await usual(world, record) == offers(record)[1]


@pytest.mark.parametrize("action", [Action.DENY, Action.EDIT, Action.RESPOND])
async def test_one_that_was_not_approved_as_asked_says_nothing(
    world: World, action: Action
) -> None:
    """Until it is not among the last ten any more."""
    for _ in range(10):
        await decided(world, "git log -n 7")
    how: dict[Action, Any] = {
        Action.EDIT: {"arguments": {"command": "ls"}},
        Action.RESPOND: {"result": "none"},
    }
    await decided(world, "git log -n 8", action, **how.get(action, {}))
    assert await usual(world, await asked(world)) is None
    for _ in range(10):
        await decided(world, "git log -n 7")
    assert await usual(world, await asked(world)) is not None


async def test_only_people_count(world: World) -> None:
    """What a grant lets through, however often, is no approval; nor is another agent's."""
    await decided(world, "git log -n 7", remember=Remember(lifetime="1d"))
    for _ in range(12):
        passed = await asked(world, "git log -n 7")
        assert passed.final
    record = await asked(world)
    assert await usual(world, record) is None
    ids = await world.store.list_decided("bot", "shell", limit=99)
    assert len(ids) == 1 and await world.store.list_decided("bot", "other", limit=99) == []


async def test_what_is_older_than_two_weeks_or_gone_is_not_known(world: World) -> None:
    """The index forgets what is old, and what was erased speaks for nothing."""
    records = [await decided(world) for _ in range(10)]
    key = world.store.keys.decided("bot", "shell")
    waits = await asked(world)
    assert await usual(world, waits) is not None
    erased = await world.core.approvals.erase(records[0].id, by="ann")
    assert erased and await usual(world, waits) is None
    old = await world.store.now() - 14 * 86_400_000 - 1
    await world.store.redis.zadd(key, {one.id: old for one in records})
    assert await world.store.list_decided("bot", "shell", limit=99) == []
    fresh = await decided(world)
    assert await world.store.redis.zrange(key, 0, -1) == [fresh.id]
    assert 0 < await world.store.redis.pttl(key) <= 14 * 86_400_000


async def test_nothing_is_chosen_where_nothing_may_be_remembered(world: World) -> None:
    """High risk has no offers, so there is no usual one."""
    for _ in range(10):
        await decided(world)
    record = await asked(world, "rm -rf /")
    assert await usual(world, record) is None
