"""The bridge of gptme's server against a server that sends rubbish, cuts its stream, or refuses.

It stands for gptme's server with the four routes that the bridge calls; the published one is in
`test_gptme_server.py`, and sends no rubbish.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import Query, StoredRequest
from gateway.integrations.bridges.gptme_server import GptmeApi, GptmeBridge
from gateway.models import Execution, Status
from tests.api.replica import AGENT_TOKEN, Replica
from tests.hosts.conftest import Answer
from tests.waiting import moment


class Server:
    """One conversation with one session; the test writes its events."""

    def __init__(self, gate: Replica) -> None:
        self.gate = gate
        self.bridge: GptmeBridge
        self.pending: list[dict[str, Any]] = []
        self.posted: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.streams: list[web.StreamResponse] = []
        self.cut = asyncio.Event()

    async def sessions(self, call: web.Request) -> web.Response:
        """Answer `GET /sessions`."""
        return web.json_response([{"id": "s1", "conversation_id": "talk"}, "rubbish", {}])

    async def events(self, call: web.Request) -> web.StreamResponse:
        """Answer `GET …/events` until the test cuts it."""
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(call)
        first = {"type": "connected", "session_id": "s1", "pending_tools": self.pending}
        await stream.write(b"data: " + json.dumps(first).encode() + b"\n\n")
        self.streams.append(stream)
        await self.cut.wait()
        return stream

    async def confirm(self, call: web.Request) -> web.Response:
        """Answer `POST …/tool/confirm`."""
        self.posted.append(await call.json())
        status = self.statuses.pop(0) if self.statuses else 200
        return web.json_response({}, status=status)

    async def say(self, raw: bytes) -> None:
        """Write one line of the stream."""
        while not self.streams:
            await moment()
        await self.streams[0].write(b"data: " + raw + b"\n\n")

    async def ask(self, **more: Any) -> str:
        """Have a tool wait; return its id."""
        name = str(uuid.uuid4())
        tool = {"tool": "shell", "args": [], "content": "ls"}
        event = {"type": "tool_pending", "tool_id": name, "tooluse": tool, **more}
        await self.say(json.dumps(event).encode())
        return name

    async def answers(self, count: int = 1) -> list[dict[str, Any]]:
        """Return what was posted, once it is so much."""
        while len(self.posted) < count:
            await moment()
        return self.posted

    async def waits(self, expected: bool) -> None:
        """Return once the bridge waits for an answer, or for none."""
        while self.bridge.waits is not expected:
            await moment()

    async def asked(self) -> list[StoredRequest]:
        """Return what waits for people."""
        return list((await self.gate.core.requests.page(Query())).items)


@pytest.fixture
async def server(gate: Replica) -> AsyncIterator[Server]:
    """Yield the server with a bridge that follows it."""
    made = Server(gate)
    app = web.Application()
    app.router.add_get("/api/v2/sessions", made.sessions)
    app.router.add_get("/api/v2/conversations/talk/events", made.events)
    app.router.add_post("/api/v2/conversations/talk/tool/confirm", made.confirm)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()

    async def pause(seconds: float) -> None:
        await moment()

    try:
        async with AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, "agent1")) as client:
            made.bridge = GptmeBridge(client, GptmeApi(site.name, None), pause=pause)
            await made.bridge.look()
            yield made
            await made.bridge.close()
    finally:
        made.cut.set()
        await runner.cleanup()


@pytest.mark.parametrize(
    "raw",
    [
        b"{", b"[]", b'{"type": 7}', b'{"type": "tool_pending"}', b"\xff",
        b'{"type": "tool_pending", "tool_id": "../../x", "tooluse": {"tool": "shell"}}',
        b'{"type": "tool_pending", "type": "ping"}',
    ],
)  # fmt: skip
async def test_rubbish_asks_nobody_and_what_follows_is_asked(
    server: Server, answer: Answer, raw: bytes
) -> None:
    """One event that cannot be read neither approves anything nor ends the stream."""
    await server.say(raw)
    name = await server.ask()
    await answer()
    assert await server.answers() == [{"tool_id": name, "action": "confirm"}]


@pytest.mark.parametrize(
    "tool",
    [None, "shell", {"tool": ""}, {"tool": "shell", "args": [7]}, {"tool": "shell", "args": "x"},
     {"tool": "shell", "content": 7}, {"tool": "shell", "content": None}],
)  # fmt: skip
async def test_a_call_that_cannot_be_shown_is_skipped(server: Server, tool: Any) -> None:
    """gptme does not wait for what nobody was asked; nor where its log cannot be read."""
    name = await server.ask(tooluse=tool)
    assert await server.answers() == [{"tool_id": name, "action": "skip"}]
    assert await server.asked() == []


async def test_an_id_that_is_told_again_is_asked_once(server: Server, answer: Answer) -> None:
    """Each session of a conversation tells of it, and a new stream does."""
    name = await server.ask()
    for _ in range(2):
        await server.ask(tool_id=name)
    last = await server.ask()
    while len(await server.asked()) < 2:
        await moment()
    await answer()
    await answer()
    assert {one["tool_id"] for one in await server.answers(2)} == {name, last}
    assert len(server.posted) == 2


async def test_what_still_waits_after_a_cut_stream_is_answered(
    server: Server, answer: Answer
) -> None:
    """A new stream names it as pending, so it is kept; it is asked once."""
    name = await server.ask()
    await server.waits(True)
    tool = {"tool": "shell", "args": [], "content": "ls"}
    server.pending = [{"tool_id": name, "tooluse": tool}]
    server.cut.set()
    while len(server.streams) < 2:
        await server.bridge.look()
    await answer()
    assert await server.answers() == [{"tool_id": name, "action": "confirm"}]


async def test_what_waits_no_more_after_a_cut_stream_is_withdrawn(server: Server) -> None:
    """Nobody is left with a question that nothing waits for."""
    await server.ask()
    await server.waits(True)
    server.cut.set()
    await server.waits(False)
    ended = (await server.gate.core.requests.page(Query(final=True))).items
    assert [one.status for one in ended] == [Status.CANCELLED]
    assert (await server.answers())[-1]["action"] == "skip"


@pytest.mark.parametrize(
    ("statuses", "posts", "execution"),
    [([409] * 9, 10, Execution.STARTED), ([500] * 9, 6, Execution.SKIPPED),
     ([404], 1, Execution.REFUSED_LATE)],
)  # fmt: skip
async def test_an_answer_that_gptme_does_not_take_is_tried_again_or_reported(
    server: Server, answer: Answer, statuses: list[int], posts: int, execution: Execution
) -> None:
    """Busy is waited for; after six errors, and where it waits no more, the record says so."""
    server.statuses = statuses
    await server.ask()
    record = await answer()
    while not (now := await server.gate.core.requests.get(record.id)).report:
        await moment()
    assert now.report.execution is execution
    assert len(server.posted) == posts
