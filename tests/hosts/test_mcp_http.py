"""The MCP proxy over streamable HTTP, to its clients and to the server behind it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import pytest
import uvicorn
from mcp import Client
from mcp.client._memory import InMemoryTransport

from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import StoredRequest
from gateway.errors import Misconfigured
from gateway.integrations.mcp.calls import CallGate
from gateway.integrations.mcp.http import ProxyServer, listen
from gateway.integrations.mcp.proxy import Open, Server
from tests.api.replica import AGENT, AGENT_TOKEN, Replica
from tests.hosts.mcp_downstream import Downstream
from tests.hosts.test_mcp import ERAS, text_of
from tests.waiting import moment


@asynccontextmanager
async def served(application: Any) -> AsyncIterator[str]:
    """Serve an application on a port of its own; yield its address."""
    config = uvicorn.Config(application, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await running


@asynccontextmanager
async def front_of(gate: Replica, opened: Open, token: str | None = None) -> AsyncIterator[str]:
    """Serve the proxy before a server; yield its address."""
    async with AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, AGENT), say=None) as agent:

        async def connect() -> AsyncClient:
            return agent

        make = partial(CallGate, connect, "files", progress_seconds=0.05)
        front = ProxyServer(opened, make, token=token, loopback=True)
        async with front.running(), served(front) as url:
            yield url


async def answer(gate: Replica, action: str = "approve", **more: Any) -> StoredRequest:
    """Answer the next request as Ann."""
    async with asyncio.timeout(30):
        items = await gate.waiting()
    done = await gate.decided(items[0].id, action, **more)
    assert done.status == 200, done.text
    return items[0]


@pytest.mark.parametrize("mode", ERAS)
async def test_over_http_on_both_sides(gate: Replica, mode: str) -> None:
    """A call is asked about, edited, and run; the client is told that it waits; the rest passes."""
    downstream, told = Downstream(), []
    async with (
        served(downstream.server.streamable_http_app()) as behind,
        front_of(gate, Server(url=behind).opened) as url,
        Client(url, mode=mode) as client,
    ):

        async def note(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "write" in names
        arguments = {"path": "a.txt"}
        calling = asyncio.create_task(client.call_tool("write", arguments, progress_callback=note))
        while "waiting for approval" not in told:
            await moment()
        await answer(gate, "edit", arguments={"path": "b.txt"})
        assert text_of(await calling) == "wrote b.txt"
        [found] = (await client.read_resource("note://today")).contents
        assert found.uri == "note://today"
    assert downstream.ran == [["b.txt", ""]]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_that_is_cancelled_over_http(gate: Replica, mode: str) -> None:
    """It is withdrawn."""
    downstream = Downstream()
    opened = partial(InMemoryTransport, downstream.server)
    async with front_of(gate, opened) as url, Client(url, mode=mode) as client:
        calling = asyncio.create_task(client.call_tool("write", {"path": "a"}))
        async with asyncio.timeout(30):
            await gate.waiting()
            calling.cancel()
            await gate.ended()
    assert downstream.ran == []


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_and_what_the_server_asks_arrive(gate: Replica, mode: str) -> None:
    """On the stream of the call that they belong to."""
    downstream, told = Downstream(), []
    opened = partial(InMemoryTransport, downstream.server)
    async with front_of(gate, opened) as url, Client(url, mode=mode) as client:

        async def note(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        calling = asyncio.create_task(client.call_tool("slow", progress_callback=note))
        await answer(gate)
        while "half" not in told:
            await moment()
        calling.cancel()
        while downstream.ended != ["slow"]:
            await moment()


async def test_who_listens_over_http_hears_of_a_changed_list(gate: Replica) -> None:
    """Though several clients share the server, each hears it on its own stream."""
    opened = partial(InMemoryTransport, Downstream().server)
    async with (
        front_of(gate, opened) as url,
        Client(url) as one,
        Client(url) as two,
        one.listen(tools_list_changed=True) as first,
        two.listen(tools_list_changed=True) as second,
    ):
        calling = asyncio.create_task(one.call_tool("grow"))
        await answer(gate)
        await calling
        for changes in (first, second):
            async for _ in changes:
                break


async def test_sessions_of_the_handshake_have_a_server_each(gate: Replica) -> None:
    """An abort in one is none in the other."""
    opened = partial(InMemoryTransport, Downstream().server)
    async with (
        front_of(gate, opened) as url,
        Client(url, mode="legacy") as one,
        Client(url, mode="legacy") as two,
    ):
        calling = asyncio.create_task(one.call_tool("write", {"path": "a"}))
        await answer(gate, "abort")
        assert (await calling).is_error
        assert "stopped" in text_of(await one.call_tool("write", {"path": "a"}))
        calling = asyncio.create_task(two.call_tool("write", {"path": "b"}))
        await answer(gate)
        assert text_of(await calling) == "wrote b"


async def test_who_may_enter(gate: Replica) -> None:
    """Not without the token, not from a page of another site, and nowhere but at `/mcp`."""
    opened = partial(InMemoryTransport, Downstream().server)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with front_of(gate, opened, token="secret") as url, aiohttp.ClientSession() as http:

        async def status(place: str = url, **headers: str) -> int:
            sent = {**accept, **{name.replace("_", "-"): text for name, text in headers.items()}}
            async with http.post(place, json=body, headers=sent) as answered:
                return answered.status

        bearer = "Bearer secret"
        assert await status() == 401
        assert await status(Authorization="Bearer other") == 401
        assert await status(Authorization=bearer, Origin="http://evil.example") == 403
        assert await status(Authorization=bearer, Host="evil.example") == 421
        assert await status(url + "/more", Authorization=bearer) == 404
        assert await status(Authorization=bearer, Mcp_Session_Id="unknown") == 404
        assert await status(Authorization=bearer) == 400  # no session begins with it


@pytest.mark.parametrize("place", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
async def test_an_address_that_others_reach_needs_a_token(place: str) -> None:
    """It is refused before anything listens."""

    def front(loopback: bool) -> ProxyServer:
        raise AssertionError(loopback)

    with pytest.raises(Misconfigured, match="GATEWAY_MCP_TOKEN"):
        await listen(front, place, None)
