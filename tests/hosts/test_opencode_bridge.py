"""The bridge to OpenCode, beside a stub as strict as OpenCode's own server about what it takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import Query
from gateway.integrations.bridges.opencode import OpenCodeApi, OpenCodeBridge
from gateway.models import Action, Kind, Reason
from tests.api.replica import AGENT_TOKEN, Replica, until
from tests.hosts.conftest import Answer
from tests.waiting import moment

pytestmark = pytest.mark.thorough

ASKED = {
    "id": "per_1",
    "sessionID": "ses_1",
    "permission": "bash",
    "patterns": ["touch made"],
    "metadata": {"command": "touch made"},
    "always": ["touch *"],
    "tool": {"messageID": "msg_1", "callID": "call_1"},
}


@dataclass
class OpenCodeStub:
    """Lists what waits, publishes events, and takes one answer for each, in its own words."""

    pending: dict[str, Any] = field(default_factory=dict)
    replies: list[tuple[str, Any]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    streams: list[web.StreamResponse] = field(default_factory=list)
    url: str = ""

    async def ask(self, asked: dict[str, Any]) -> None:
        """Ask for a permission."""
        self.pending[asked["id"]] = asked
        await self.publish("permission.asked", asked)

    async def publish(self, kind: str, told: Any) -> None:
        """Publish an event to who follows."""
        for stream in self.streams:
            line = json.dumps({"type": kind, "properties": told})
            await stream.write(f"data: {line}\n\n".encode())

    async def events(self, call: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(call)
        self.streams.append(answer)
        await self.publish("server.connected", {})
        while not call.transport or not call.transport.is_closing():
            await moment()
        return answer

    async def listed(self, call: web.Request) -> web.Response:
        return web.json_response(list(self.pending.values()))

    async def session(self, call: web.Request) -> web.Response:
        return web.json_response({"id": call.match_info["id"], "directory": "/srv/app"})

    async def stop(self, call: web.Request) -> web.Response:
        self.aborted.append(call.match_info["id"])
        return web.json_response(True)

    async def reply(self, call: web.Request) -> web.Response:
        name, said = call.match_info["id"], await call.json()
        assert set(said) <= {"reply", "message"}
        assert said["reply"] in ("once", "always", "reject")
        assert "message" not in said or said["reply"] == "reject"
        if self.pending.pop(name, None) is None:
            return web.json_response({"error": "not found"}, status=404)
        self.replies.append((name, said))
        await self.publish("permission.replied", {"requestID": name, **said})
        return web.json_response(True)


@asynccontextmanager
async def stub() -> AsyncIterator[OpenCodeStub]:
    """Run the stub."""
    made = OpenCodeStub()
    app = web.Application()
    app.router.add_get("/event", made.events)
    app.router.add_get("/permission", made.listed)
    app.router.add_post("/permission/{id}/reply", made.reply)
    app.router.add_get("/session/{id}", made.session)
    app.router.add_post("/session/{id}/abort", made.stop)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = site.name
    try:
        yield made
    finally:
        await runner.cleanup()


@asynccontextmanager
async def bridged(gate: Replica, host: OpenCodeStub) -> AsyncIterator[OpenCodeBridge]:
    """Run a bridge that follows the stub's events."""
    transport = HttpTransport(gate.url, AGENT_TOKEN, "agent1")
    async with AsyncClient(transport, say=None, connect_timeout=30.0) as client:
        bridge = OpenCodeBridge(client, OpenCodeApi(host.url, None))
        following = asyncio.create_task(bridge.follow())
        try:
            await until(lambda: host.streams)
            yield bridge
        finally:
            following.cancel()
            await bridge.close()


async def test_an_approval_is_for_once(gate: Replica, answer: Answer) -> None:
    """The card has the command, the folder and the session, and offers no edit; OpenCode's own
    `always` is never used."""
    async with stub() as host, bridged(gate, host):
        await host.ask(ASKED)
        record = await answer()
        await until(lambda: host.replies)
    assert host.replies == [("per_1", {"reply": "once"})]
    request = record.request
    assert (request.tool, request.kind, request.session) == ("bash", Kind.COMMAND, "ses_1")
    assert request.arguments == {"command": "touch made", "patterns": ["touch made"]}
    assert (request.context.cwd, request.call_id) == ("/srv/app", "per_1")
    assert request.origin.tool_call_id == "call_1"
    assert Action.EDIT not in request.allowed


@pytest.mark.parametrize(("action", "stops"), [("deny", []), ("abort", ["ses_1"])])
async def test_a_denial_says_why(
    gate: Replica, answer: Answer, action: str, stops: list[str]
) -> None:
    """The model reads the person's words; an abort stops the turn too."""
    async with stub() as host, bridged(gate, host):
        await host.ask(ASKED)
        await answer(action, message="not on a Friday")
        await until(lambda: host.replies and len(host.aborted) == len(stops))
    ((_, said),) = host.replies
    assert said["reply"] == "reject"
    assert "not on a Friday" in said["message"]
    assert host.aborted == stops


async def test_what_waited_before_is_asked_about_once(gate: Replica, answer: Answer) -> None:
    """Though the list and an event tell of it."""
    async with stub() as host:
        host.pending["per_1"] = ASKED
        async with bridged(gate, host):
            await host.ask(ASKED)
            await answer()
            await until(lambda: host.replies)
    assert len((await gate.core.requests.page(Query(final=True))).items) == 1


async def test_an_answer_in_opencode_closes_the_card(gate: Replica) -> None:
    """The first answer counts."""
    async with stub() as host, bridged(gate, host) as bridge:
        await host.ask(ASKED)
        await until(lambda: bridge.waits)
        await gate.waiting()
        del host.pending["per_1"]
        await host.publish("permission.replied", {"requestID": "per_1", "reply": "once"})
        record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.RESOLVED_ELSEWHERE
    assert host.replies == []


async def test_a_bridge_that_ends_rejects_what_waits(gate: Replica) -> None:
    """Nobody would answer it any more."""
    async with stub() as host:
        async with bridged(gate, host):
            await host.ask(ASKED)
            await gate.waiting()
        assert [said["reply"] for _, said in host.replies] == ["reject"]
    record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.ABANDONED


@pytest.mark.parametrize("wrong", [{"permission": None}, {"sessionID": 5}, {"permission": "a\nb"}])
async def test_what_cannot_be_read_is_rejected(gate: Replica, wrong: dict[str, Any]) -> None:
    """Nobody could see what it is."""
    async with stub() as host, bridged(gate, host):
        await host.ask({**ASKED, **wrong})
        await until(lambda: host.replies)
    ((_, said),) = host.replies
    assert said["reply"] == "reject"
    assert "nobody was asked" in said["message"]


async def test_without_a_gateway_it_is_rejected(gate: Replica) -> None:
    """And the model reads that nobody was asked."""
    async with stub() as host, bridged(gate, host):
        await gate.served.cleanup()
        await host.ask(ASKED)
        await until(lambda: host.replies)
    ((_, said),) = host.replies
    assert said["reply"] == "reject"
