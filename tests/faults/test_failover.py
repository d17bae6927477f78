"""The invariants over a Sentinel trio and a cluster that fail over while an agent is at work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from redis.crc import key_slot

from gateway.stores.keys import Keys
from tests.faults.invariants import problems
from tests.faults.nodes import Servers, cluster, sentinel_trio
from tests.faults.site import Site
from tests.waiting import moment

NAMESPACE = "gw"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.xdist_group("nodes")]


@pytest.fixture(params=["sentinel", "cluster"])
async def servers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Servers]:
    """Yield several servers, and the URL that leads to them."""
    folder = tmp_path / "servers"
    folder.mkdir()
    made: AbstractAsyncContextManager[Servers] = (
        sentinel_trio(folder)
        if request.param == "sentinel"
        else cluster(folder, key_slot(Keys(NAMESPACE).events.encode()))
    )
    async with made as running:
        yield running


async def hand_over(servers: Servers) -> None:
    """Have a replica take over in order: nothing is written meanwhile, so nothing is lost."""
    before = await servers.primary()
    if "cluster" in servers.url:
        assert await (await servers.replica()).says("CLUSTER", "FAILOVER")
    else:
        await before.says("CLIENT", "PAUSE", "3000", "WRITE")
        await servers.replica()
        watcher = servers.watcher  # type: ignore[attr-defined]
        while not await watcher.says("SENTINEL", "FAILOVER", "main"):
            await moment()
    while await servers.primary() is before:
        await moment()


async def kill(servers: Servers) -> None:
    """kill -9 the primary, and wait until another is."""
    before = await servers.primary()
    await servers.replica()
    await before.kill()
    while await servers.primary() is before:
        await moment()


@pytest.mark.parametrize("fail_over", [hand_over, kill])
async def test_everything_holds_while_another_server_takes_over(
    servers: Servers, tmp_path: Path, fail_over: Callable[[Servers], Awaitable[None]]
) -> None:
    """While an agent asks over both ways: nothing is lost, doubled or wrongly told.

    In order it happens twice. A primary that is killed had handed everything on a moment before:
    what it acknowledges in the moment itself may be lost, as docs/growing.md says.
    """
    async with Site(servers.url, NAMESPACE, tmp_path) as site:
        gateway = await site.gateway()
        await site.add_approver()
        async with asyncio.timeout(50), site.agent_at_work() as agent:
            approving = asyncio.create_task(site.approve())
            for event in ("submitted", "approved")[: 1 + (fail_over is hand_over)]:
                await site.until(event)
                await fail_over(servers)
            assert await agent.ended() == 0
            approving.cancel()
            await site.deny_the_rest()
            await site.until_shown()
        await site.stopped(gateway)
        assert problems(await site.export(), site.logs(), site.cards()) == []
