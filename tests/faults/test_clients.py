"""Clients that stop waiting: what they asked is withdrawn, or waits for nobody; it never runs."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from gateway.client import AsyncClient
from gateway.client.redis_transport import RedisTransport
from tests.faults import roles
from tests.faults.invariants import ended_as, problems
from tests.faults.processes import child
from tests.faults.site import Site
from tests.world import AGENT, World


@pytest.mark.parametrize("turns", range(0, 32, 3))
async def test_cancelled_while_it_connects(
    world: World, server_url: str, namespace: str, turns: int
) -> None:
    """However far the first message has come, a cancelled task ends and withdraws it."""
    async with AsyncClient(RedisTransport(server_url, AGENT, namespace)) as client:
        request = client.request("shell", {})
        asking = asyncio.create_task(client.send(request))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        async with asyncio.timeout(40):
            await asyncio.wait({asking})
        assert asking.cancelled()
    await world.handled()
    types = [event.type for event in await world.events(request.id)]
    assert types in ([], ["submitted", "cancelled"])


@pytest.mark.parametrize("way", ["redis", "http"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_process_that_was_killed_waits_for_nobody(
    server_url: str, namespace: str, tmp_path: Path, way: str, number: signal.Signals
) -> None:
    """It cannot say goodbye: its lease runs out, the card says so, and a late yes runs nothing."""
    async with Site(server_url, namespace, tmp_path) as site:
        gateway = await site.gateway()
        await site.add_approver()
        async with child(roles.waiter, site.env, tmp_path, way) as waiter:
            process = await waiter.heard()
            await site.until("submitted")
            waiter.signal(number)
            assert await waiter.ended() == -number
        lost = asyncio.create_task(site.until("waiter_lost"))
        # What it sent last may be handled still, and renew the lease once more.
        while not lost.done():
            processes = site.store.keys.processes
            await site.store.redis.zadd(processes, {f"{site.agent} {process}": 0})
            await asyncio.wait({lost}, timeout=0.2)
        (left,) = await site.pending()
        await site.decide(left, {"action": "approve"})
        await site.stopped(gateway)
        assert problems(await site.export(), site.logs()) == []
        assert [*ended_as(await site.export()).values()] == ["approved"]
        assert not any('"ran"' in line for log in site.logs() for line in log)


@pytest.mark.parametrize("way", ["redis", "http"])
async def test_an_interrupted_process_withdraws_what_it_asked(
    server_url: str, namespace: str, tmp_path: Path, way: str
) -> None:
    """Ctrl-C cancels the waiting task, which says goodbye on its way out."""
    async with Site(server_url, namespace, tmp_path) as site:
        gateway = await site.gateway()
        await site.add_approver()
        async with child(roles.waiter, site.env, tmp_path, way) as waiter:
            await waiter.heard()
            await site.until("submitted")
            waiter.signal(signal.SIGINT)
            await waiter.ended()
        await site.until("cancelled")
        await site.stopped(gateway)
        assert problems(await site.export(), site.logs()) == []
