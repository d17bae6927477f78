"""Processes that stop renewing their lease: nobody waits, until they are heard of again."""

from __future__ import annotations

from tests.world import AGENT, PROCESS, World


async def test_a_lapsed_waiter_is_said_and_may_come_back(world: World) -> None:
    """The card says that nobody waits; the request can still be decided; sync takes it back."""
    record = await world.submit()
    await world.store.redis.zadd(world.store.keys.processes, {f"{AGENT} {PROCESS}": 1})
    await world.sweeper.sweep()
    assert not (await world.core.requests.get(record.id)).waiting
    await world.send("sync", {"ids": [record.id]})
    await world.handled()
    back = await world.core.requests.get(record.id)
    assert back.waiting
    assert back.revision > record.revision
    kinds = [event.type for event in await world.events(record.id)]
    assert kinds == ["submitted", "waiter_lost", "attached"]


async def test_a_heartbeat_takes_back_what_a_lapsed_process_waits_for(world: World) -> None:
    """A sync without ids is enough: the process does not know that it was told off as gone."""
    mine, others = await world.submit(), await world.submit()
    sync = {"ids": [others.id]}
    await world.send("sync", sync, process="q" * 16)
    await world.handled()
    await world.store.redis.zadd(world.store.keys.processes, {f"{AGENT} {PROCESS}": 1})
    await world.sweeper.sweep()
    assert not (await world.core.requests.get(mine.id)).waiting
    nonce = await world.send("sync", {})
    await world.handled()
    assert (await world.reply())["nonce"] == nonce
    assert (await world.core.requests.get(mine.id)).waiting
    assert (await world.core.requests.get(others.id)).waiting
    await world.send("sync", {})
    await world.handled()
    kinds = [event.type for event in await world.events(mine.id)]
    assert kinds == ["submitted", "waiter_lost", "attached"]


async def test_another_process_takes_nothing_back(world: World) -> None:
    """A heartbeat speaks for its own process alone."""
    record = await world.submit()
    await world.store.redis.zadd(world.store.keys.processes, {f"{AGENT} {PROCESS}": 1})
    await world.sweeper.sweep()
    await world.send("sync", {}, process="q" * 16)
    await world.handled()
    assert not (await world.core.requests.get(record.id)).waiting


async def test_only_what_a_process_itself_asked_is_given_up_and_once(world: World) -> None:
    """Neither another process, nor another agent, nor a second look says that nobody waits."""
    record = await world.submit()
    store, keys = world.store, world.store.keys
    for agent, process, told in (
        (AGENT, "q" * 16, []),
        ("eve", PROCESS, []),
        (AGENT, PROCESS, [record.id]),
        (AGENT, PROCESS, []),
    ):
        await store.redis.zrem(keys.processes, f"{AGENT} {PROCESS}")
        await store.redis.sadd(keys.waiting(agent, process), record.id)
        assert await store.expire_process(agent, process) == told, (agent, process)
    kinds = [event.type for event in await world.events(record.id)]
    assert kinds == ["submitted", "waiter_lost"]
