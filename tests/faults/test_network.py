"""Connections that are cut, stalled, half open, or broken off in mid-reply: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.client import AsyncClient, http_transport, redis_transport
from gateway.client.http_transport import HttpTransport
from gateway.client.redis_transport import RedisTransport
from gateway.errors import NotFound
from gateway.models import Status
from gateway.stores.connect import connect
from gateway.wire import redis_connection as multiplexer_module
from tests.api.replica import AGENT_TOKEN, POLICY, replica
from tests.faults.invariants import problems
from tests.faults.proxy import Open, Proxy
from tests.faults.site import Site
from tests.waiting import moment
from tests.world import AGENT, assembled, click

WAYS = ("redis", "http")


@dataclass
class Asking:
    """An agent whose connections go through a proxy, and the way past it to the gateway."""

    client: AsyncClient
    proxy: Proxy
    submitted: Callable[[], Awaitable[str]]
    decide: Callable[[str], Awaitable[object]]


def to_socket(url: str) -> Open:
    """Return how to connect to the server of the tests."""
    return partial(asyncio.open_unix_connection, url.removeprefix("unix://"))


@asynccontextmanager
async def over_redis(server_url: str, namespace: str) -> AsyncIterator[Asking]:
    """Run a gateway without HTTP, and an agent that reaches Redis through a proxy."""
    async with (
        Proxy(to_socket(server_url)).running() as proxy,
        assembled(server_url, namespace) as world,
        world.ingress().running(),
        AsyncClient(
            RedisTransport(f"redis://127.0.0.1:{proxy.port}?socket_timeout=1", AGENT, namespace)
        ) as client,
    ):

        async def submitted() -> str:
            events = await world.until(lambda found: any(e.type == "submitted" for e in found))
            return next(event.request_id for event in events if event.type == "submitted")

        async def decide(request_id: str) -> object:
            return await world.core.requests.decide(
                click(await world.core.requests.get(request_id))
            )

        yield Asking(client, proxy, submitted, decide)


@asynccontextmanager
async def over_http(server_url: str, namespace: str) -> AsyncIterator[Asking]:
    """Run a gateway with HTTP, and an agent that reaches it through a proxy."""
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(replica(server_url, namespace))
        await gate.store.apply(POLICY, by="test")
        host, port = gate.url.removeprefix("http://").split(":")
        upstream = partial(asyncio.open_connection, host, int(port))
        proxy = await stack.enter_async_context(Proxy(upstream).running())
        transport = HttpTransport(f"http://127.0.0.1:{proxy.port}", AGENT_TOKEN, "agent1")
        client = await stack.enter_async_context(AsyncClient(transport))

        async def submitted() -> str:
            while not gate.hanging:
                await moment()
            return (await gate.store.pending_of("agent1"))[0]

        yield Asking(client, proxy, submitted, gate.decided)


@pytest.fixture(params=WAYS)
async def asking(
    request: pytest.FixtureRequest,
    server_url: str,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Asking]:
    """Yield an agent over each transport, less patient than in earnest."""
    monkeypatch.setattr(redis_transport, "_BLOCK_MS", 200)
    monkeypatch.setattr(multiplexer_module, "_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(http_transport, "_POLL_SECONDS", 0.5)
    monkeypatch.setattr(http_transport, "_SLACK_SECONDS", 0.3)
    way = over_redis if request.param == "redis" else over_http
    async with way(server_url, namespace) as made:
        yield made


async def cut(proxy: Proxy, decide: Callable[[], Awaitable[object]]) -> None:
    """Reset the connections, and decide while nobody is there."""
    proxy.cut()
    await decide()


async def cut_in_mid_reply(proxy: Proxy, decide: Callable[[], Awaitable[object]]) -> None:
    """Break every answer off in the middle until three have been, the decision's among them."""
    proxy.most_replies = 0
    await decide()
    while proxy.broken < 3:
        await moment()
    proxy.most_replies = None


async def stalled(proxy: Proxy, decide: Callable[[], Awaitable[object]]) -> None:
    """Let nothing through until the agent has tried anew."""
    before = proxy.accepted
    proxy.stall()
    await decide()
    while proxy.accepted == before:
        await moment()
    proxy.flow()


async def half_open(proxy: Proxy, decide: Callable[[], Awaitable[object]]) -> None:
    """Lose the gateway's end without telling the agent, who must notice by itself."""
    proxy.half_open()
    await decide()
    proxy.flow()


@pytest.mark.parametrize("fault", [cut, cut_in_mid_reply, stalled, half_open])
async def test_a_decision_arrives_all_the_same(
    asking: Asking, fault: Callable[[Proxy, Callable[[], Awaitable[object]]], Awaitable[None]]
) -> None:
    """Decided during the fault, it is told once the network is back, and it is the right one."""
    waiting = asyncio.create_task(asking.client.ask("shell", {"command": "ls"}, timeout=60))
    request_id = await asking.submitted()
    await fault(asking.proxy, partial(asking.decide, request_id))
    async with asyncio.timeout(40):
        approval = await waiting
    assert approval.decision.status is Status.APPROVED
    assert approval.request.id == request_id


async def test_everything_at_once_over_connections_that_break_in_mid_reply(
    server_url: str, namespace: str, tmp_path: Path
) -> None:
    """Gateway and agent lose each connection to Redis in its 25th reply: all invariants hold."""
    async with Proxy(to_socket(server_url)).running() as proxy:
        through = f"redis://127.0.0.1:{proxy.port}"
        async with Site(server_url, namespace, tmp_path, through=through) as site:
            gateway = await site.gateway()
            await site.add_approver()
            async with asyncio.timeout(40), site.agent_at_work() as agent:
                proxy.most_replies = 25
                approving = asyncio.create_task(site.approve())
                assert await agent.ended() == 0
                approving.cancel()
                await site.deny_the_rest()
                proxy.most_replies = None
                await site.until_shown()
            assert proxy.broken > 5
            await site.stopped(gateway)
            assert problems(await site.export(), site.logs(), site.cards()) == []


async def test_a_stream_numbered_anew_behind_an_idle_agent_is_read_from_its_start(
    server_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing is awaited nobody reads: the connection is lost, the server forgets, and the
    next answer has a number that came before."""
    monkeypatch.setattr(redis_transport, "_BLOCK_MS", 200)
    # Whoever goes on at the old number waits for a heartbeat.
    monkeypatch.setattr(redis_transport, "_HEARTBEAT_SECONDS", 3600.0)
    async with over_redis(server_url, namespace) as asking:
        for _ in range(3):
            await approved_once(asking)
        transport: Any = asking.client._transport
        reading = transport._reader._session
        while reading._answers:  # until the last read has ended
            await moment()
        redis = connect(server_url)
        (replies,) = [key async for key in redis.scan_iter(match=f"{{{namespace}}}:out:*")]
        await redis.delete(replies)
        await redis.aclose()
        asking.proxy.cut()
        while reading.alive:  # until it is known, while there is nobody to be told
            await moment()
        async with asyncio.timeout(40):
            await approved_once(asking)


async def approved_once(asking: Asking) -> None:
    """Ask, have it approved, and go on."""
    request = asking.client.request("shell", {"command": "ls"})
    waiting = asyncio.create_task(asking.client.send(request))
    while True:
        with suppress(NotFound):
            await asking.decide(request.id)
            break
        await moment()
    await waiting
