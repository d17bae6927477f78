"""What one replica does for all: who has the duty, and what the others still hear of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from gateway.domain.policy_document import Route
from gateway.errors import Conflict
from gateway.models import Action, Status
from gateway.server.app import Gateway, run_gateway
from gateway.server.settings import Settings
from gateway.stores.event_feed import RedisFeed
from tests.waiting import moment
from tests.world import World, assembled, click, policy

Start = Callable[[str], AbstractAsyncContextManager[Gateway]]


@pytest.fixture
async def world(server_url: str, namespace: str) -> AsyncIterator[World]:
    """Yield a namespace with an agent, and nobody who works on it."""
    async with assembled(server_url, namespace) as made:
        yield made


@pytest.fixture
def start(
    server_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    """Return what starts a whole replica on it, by name. Nothing is slow, and nobody lingers."""
    monkeypatch.setattr("gateway.stores.ingress._TICK_SECONDS", 0.1)
    quick = partial(RedisFeed, linger=0.0, block_ms=50)
    monkeypatch.setattr("gateway.server.app.RedisFeed", quick)

    @asynccontextmanager
    async def starting(name: str) -> AsyncIterator[Gateway]:
        settings = Settings(
            data_dir=tmp_path / name,
            port=0,
            adapters=("web",),
            namespace=namespace,
            REDIS_URL=SecretStr(server_url),
        )
        async with run_gateway(settings) as gateway:
            yield gateway

    return starting


async def follows(gateway: Gateway, wanted: bool) -> None:
    """Wait until a replica follows all events, or does not."""
    feed = gateway.core.feed
    assert isinstance(feed, RedisFeed)
    while feed.follows_all != wanted:
        await moment()


async def test_one_replica_has_the_duty_and_the_next_takes_it(world: World, start: Start) -> None:
    """The idle one follows nothing; when the first one stops, it seals what happened."""
    async with start("second") as second, start("first") as first:
        await follows(second, True)
        await follows(first, False)
        record = await world.submit()
        await world.core.requests.decide(click(record))
    async with start("third") as third:
        await follows(third, True)
        await world.submit()
        last = (await world.events())[-1].id
        while await world.store.redis.hget(world.store.keys.meta, "sealed") != last:
            await moment()


async def test_the_duty_moves_when_its_replica_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has it as long as it lives; the next takes it, and who comes back learns that."""
    monkeypatch.setattr("gateway.stores.ingress._TICK_SECONDS", 0.05)
    redis, keys = world.store.redis, world.store.keys
    first, second = world.ingress(), world.ingress()
    async with asyncio.timeout(40), second.running():
        assert second.duty.taken.is_set()
        async with first.running():
            assert not first.duty.taken.is_set()
            names = {*await redis.zrange(keys.replicas, 0, -1)}
            other = names - {await redis.hget(keys.owners, "duty")}
            await redis.hset(keys.owners, "duty", other.pop())  # as after a long silence
            await asyncio.gather(second.duty.lost.wait(), first.duty.taken.wait())
        await second.duty.taken.wait()


async def test_an_idle_replica_follows_while_somebody_waits_there(
    world: World, start: Start
) -> None:
    """It hears of what a person answers elsewhere, and lets go afterwards."""
    async with start("busy") as busy, start("idle") as idle:
        await follows(busy, True)
        await follows(idle, False)
        record = await world.submit()
        async with idle.core.feed.watch(record.id) as wait:
            await world.core.requests.decide(click(record))
            assert await wait(20)
        await follows(idle, False)
        async with idle.core.feed.changes() as events:
            await world.core.requests.decide(click(await world.submit()))
            while (await anext(events)).type != "approved":
                pass
        await follows(idle, False)


async def test_an_idle_replica_hears_of_the_policy(world: World, start: Start) -> None:
    """Its next request, and the votes it counts, are under the new one."""
    async with start("busy"), start("idle") as idle:
        await follows(idle, False)
        before = await idle.core.writer.policy()
        await policy(world.store, Route(approvers=("ann",)))
        while (await idle.core.writer.policy()).generation == before.generation:
            await moment()
        await follows(idle, False)


async def test_an_idle_replica_obeys_revocation_and_the_kill_switch(
    world: World, start: Start
) -> None:
    """A token that was taken back is refused there, and what is stopped is not approved."""
    async with start("busy"), start("idle") as idle, aiohttp.ClientSession() as http:
        await follows(idle, False)
        token = (await world.credentials.add_agent("agent9")).token

        async def status() -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with http.get(f"{idle.url}/v1/requests", headers=headers) as answer:
                return answer.status

        assert await status() == 200
        await world.credentials.revoke_agent("agent9")
        while await status() != 401:
            await moment()
        record = await world.submit()
        await world.store.set_stopped(True, by="ann")
        with pytest.raises(Conflict):
            await idle.core.requests.decide(click(record, Action.APPROVE))
        assert (await idle.core.requests.get(record.id)).status is not Status.APPROVED
