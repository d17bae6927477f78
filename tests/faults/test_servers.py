"""Redis killed under waiters, and one of two gateways killed under the other."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.client import AsyncClient
from gateway.client.redis_transport import RedisTransport
from tests.faults import roles
from tests.faults.invariants import problems
from tests.faults.server import Server, own_server
from tests.faults.site import Site
from tests.world import AGENT, assembled, click

pytestmark = pytest.mark.thorough


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Yield a Redis that may be killed. A socket's path must be short."""
    with tempfile.TemporaryDirectory(prefix="agw") as folder:
        async with own_server(Path(folder)) as made:
            yield made


async def restarted(server: Server) -> None:
    """kill -9 of Redis, and a start on what it had written."""
    await server.kill()
    await server.start()


async def test_redis_killed_under_everything(server: Server, tmp_path: Path) -> None:
    """Killed three times while an agent asks over both ways: all invariants hold."""
    async with Site(server.url, "gw", tmp_path) as site:
        gateway = await site.gateway()
        await site.add_approver()
        async with asyncio.timeout(50), site.agent_at_work() as agent:
            approving = asyncio.create_task(site.approve())
            for moment in ("submitted", "approved", "reported"):
                await site.until(moment)
                await restarted(server)
            assert await agent.ended() == 0
            approving.cancel()
            await site.deny_the_rest()
            await site.until_shown()
        await site.stopped(gateway)
        assert problems(await site.export(), site.logs(), site.cards()) == []


async def test_no_waiter_is_lost_when_redis_is_killed(server: Server) -> None:
    """Many wait while it dies; what is decided afterwards reaches each of them."""
    count = 50
    async with (
        assembled(server.url, "gw") as world,
        world.ingress().running(),
        AsyncClient(RedisTransport(server.url, AGENT, "gw")) as client,
    ):
        asking = [asyncio.create_task(client.ask("n", {"n": number})) for number in range(count)]
        await world.until(lambda found: sum(e.type == "submitted" for e in found) == count)
        await restarted(server)
        for request_id in await world.store.pending_of(AGENT):
            await world.core.requests.decide(click(await world.core.requests.get(request_id)))
        async with asyncio.timeout(40):
            approvals = await asyncio.gather(*asking)
    assert [approval.arguments["n"] for approval in approvals] == list(range(count))


@pytest.mark.parametrize("step", ["entry:before", "entry:after"])
async def test_the_other_gateway_takes_over_within_the_lease(
    server_url: str, namespace: str, tmp_path: Path, step: str
) -> None:
    """The owner of the agent's stream dies on an entry; nobody tells the other, who only waits."""
    async with Site(server_url, namespace, tmp_path) as site:
        await site.store.register_agent(site.agent)
        owner = await site.gateway(step, 1, 1500)
        site.env["GATEWAY_PORT"] = "0"
        other = await site.gateway(roles.ANY, roles.NEVER, 1500)
        await site.add_approver()
        async with asyncio.timeout(30), site.agent_at_work() as agent:
            approving = asyncio.create_task(site.approve())
            # The agents' streams change hands by themselves; on its cards it has longer leases.
            await owner.ended()
            await site.release_cards()
            assert await agent.ended() == 0
            approving.cancel()
            await site.deny_the_rest()
            await site.until_shown()
        await site.stopped(other)
        assert problems(await site.export(), site.logs(), site.cards()) == []
