"""Clients that stop waiting: what they asked is withdrawn, or waits for nobody; it never runs."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client import AsyncClient
from gateway.client.redis_transport import RedisTransport
from tests.world import AGENT, World


@pytest.mark.parametrize("turns", range(0, 16, 3))
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
        async with asyncio.timeout(5):
            await asyncio.wait({asking})
        assert asking.cancelled()
    await world.handled()
    types = [event.type for event in await world.events(request.id)]
    assert types in ([], ["submitted", "cancelled"])
