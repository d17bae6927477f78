"""What the scripts of the store refuse by themselves, whoever calls them and however often."""

from __future__ import annotations

from collections import Counter

from gateway.domain.policy_document import Budget, Mode, Route
from gateway.models import Action
from gateway.stores.requests import RedisGroups
from gateway.stores.scripts import Script
from gateway.wire.codec import plain
from tests.delivery.test_outbox import Office, route
from tests.world import World, click, policy, request

OTHER = "q" * 16


async def test_an_approval_is_told_to_no_second_process(world: World) -> None:
    """A process that asks about it afterwards learns that it is approved, and cannot run it."""
    record = await world.submit()
    await world.core.requests.decide(click(record))
    await world.send("sync", {"ids": [record.id]}, process=OTHER)
    await world.handled()
    state = (await world.reply(process=OTHER))["state"]
    assert state["status"] == "approved"
    assert "decision" not in state


async def test_an_approval_that_nobody_waits_for_is_told_without_its_decision(
    world: World,
) -> None:
    """Policy approves it at once: whoever consumes it first may run it, and nobody before."""
    await policy(world.store, Route(approvers=("ann",), mode=Mode.AUTO_APPROVE))
    asked = request()
    await world.send("submit", plain(asked), detached="1")
    await world.handled()
    state = (await world.reply())["state"]
    assert state["status"] == "approved"
    assert "decision" not in state
    await world.send("consume", {"id": asked.id})
    await world.handled()
    assert (await world.reply())["state"]["decision"]["digest"] == asked.digest


async def test_an_end_without_a_decision_is_told_as_such(world: World) -> None:
    """A record that somebody else wrote may have none; what is told stays one JSON object."""
    record = await world.submit()
    await world.core.requests.decide(click(record, Action.DENY))
    await world.store.redis.hset(world.store.keys.record(record.id), "decision", "")
    await world.send("sync", {"ids": [record.id]})
    await world.handled()
    state = (await world.reply())["state"]
    assert state["status"] == "denied"
    assert "decision" not in state


async def test_a_live_replica_keeps_its_shard(world: World) -> None:
    """Another one takes none that is read, nor the duty, and both when the first one is gone."""
    keys, lease = world.store.keys, Script("share_streams")
    places = [keys.agents, keys.replicas, keys.owners]
    redis = world.store.redis
    held = await lease.run(redis, places, ["first", 60_000])
    assert held[0]
    assert held[1] == 1
    assert await lease.run(redis, places, ["second", 60_000]) == [[], 0]
    await redis.zrem(keys.replicas, "first")
    shards, duty = await lease.run(redis, places, ["second", 60_000])
    assert set(held[0]) <= set(shards)
    assert duty == 1


async def test_two_replicas_share_two_agents(world: World) -> None:
    """Each reads the stream of one agent; the empty shard after them counts for nobody."""
    await world.credentials.add_agent("second-agent")
    keys, lease, redis = world.store.keys, Script("share_streams"), world.store.redis
    places = [keys.agents, keys.replicas, keys.owners]
    shards = [int(shard) for _, shard in await redis.zrange(keys.agents, 0, -1, withscores=True)]
    assert shards == [0, 1]
    shares = [
        (who, sorted((await lease.run(redis, places, [who, 60_000]))[0]))
        for who in ("first", "second") * 2
    ]
    assert shares == [("first", [0, 1, 2]), ("second", []), ("first", [0, 2]), ("second", [1])]


async def test_many_agents_fill_one_shard_after_the_other(world: World) -> None:
    """The first 400 agents share eight shards. No shard has more than fifty."""
    for number in range(409):
        await world.store.register_agent(f"a{number}")
    rows = await world.store.redis.zrange(world.store.keys.agents, 0, -1, withscores=True)
    counts = Counter(int(shard) for _, shard in rows)
    assert counts == {**dict.fromkeys(range(8), 50), 8: 10}


async def test_a_leader_that_still_waits_keeps_its_followers(world: World) -> None:
    """Whoever asks for its next too early changes nothing."""
    leader, follower = await world.submit(), await world.submit()
    groups = RedisGroups(world.store)
    await groups.promote_next(leader, Budget(), posts=False)
    assert await groups.behind(leader.id) == [follower.id]


async def test_no_copy_is_kept_of_what_is_forgotten(world: World) -> None:
    """A card that is posted late leaves nothing behind that nobody would delete."""
    await route(world)
    office = Office(world)
    record = await world.submit()
    await office.settle()
    (copy,) = (await office.outbox.copies(record.id)).values()
    assert not await office.outbox.put_copy("0" * 32, copy, before=None)
    assert await office.outbox.copies("0" * 32) == {}


async def test_the_chain_takes_one_seal_for_each_head(world: World) -> None:
    """A replica that read an older head writes nothing."""
    keys, seal = world.store.keys, Script("seal_events")
    for head, taken in (("1" * 64, 1), ("2" * 64, 0)):
        words: list[str | int] = ["0" * 64, head, "1-0", "{}", "submitted", 2]
        names = [keys.seals, keys.meta, keys.counts]
        assert await seal.run(world.store.redis, names, words) == taken
    assert await world.store.redis.xlen(keys.seals) == 1
    assert await world.store.redis.hget(keys.meta, "head") == "1" * 64
    assert await world.store.event_counts() == {"submitted": 2}


async def test_an_entry_of_ordinary_size_is_not_dropped_unread(world: World) -> None:
    """Another replica dropped the large one, and what stands first now is somebody's request."""
    keys, drop = world.store.keys, Script("drop_oversized")
    stream = keys.ingress("agent")
    await world.store.redis.xadd(stream, {"body": "{}"})
    assert await drop.run(world.store.redis, [stream, keys.events], [10_000, "agent", "{}"]) == 0
    assert await world.store.redis.xlen(stream) == 1
    assert await drop.run(world.store.redis, [stream, keys.events], [1, "agent", "{}"]) == 1
    assert not await world.store.redis.exists(stream)
