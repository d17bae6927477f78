"""OpenCode itself, as it is published: its server with our bridge beside it, and as an agent of the
Agent Client Protocol behind the other one."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from gateway.domain.records import Query
from gateway.models import Reason
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import Answer, environment, remember, run
from tests.hosts.rpc_program import RpcProgram, rpc_program
from tests.ports import free_port
from tests.waiting import moment

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(120)]

TOUCH = Use("bash", {"command": "touch made", "description": "make a file"}, "call_1")
OFFLINE = (
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_AUTOUPDATE",
)


@dataclass
class Session:
    """One session of OpenCode's server, in which the model has begun."""

    http: aiohttp.ClientSession
    model: CodingModel
    id: str

    async def told(self, times: int) -> None:
        """Wait until the model was asked so often."""
        while len(self.model.told) < times:
            await moment()

    async def idle(self) -> None:
        """Wait until its turn is over."""
        while True:
            async with self.http.get("/session/status") as answer:
                if self.id not in await answer.json():
                    return
            await moment()

    async def reply(self, how: str) -> None:
        """Answer at OpenCode itself what waits there."""
        async with self.http.get("/permission") as answer:
            (asked,) = await answer.json()
        await self.http.post(f"/permission/{asked['id']}/reply", json={"reply": how})


class OpenCode:
    """OpenCode with a scripted model in a folder of its own; `gateway install` has it ask."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self._gate, self.folder = gate, folder
        self.program = str(installed / "node_modules" / ".bin" / "opencode")
        self.work = folder / "work"
        self.work.mkdir()

    def environment(self, model: CodingModel, **more: str) -> dict[str, str]:
        """Return its environment, and that of what runs beside it."""
        provider = {"options": {"baseURL": f"{model.url}/v1", "apiKey": "none"}}
        config = {
            "provider": {"anthropic": {**provider, "models": {"m": {"name": "m"}}}},
            "model": "anthropic/m",
            "small_model": "anthropic/m",
            "share": "disabled",
        }
        known = {**dict.fromkeys(OFFLINE, "1"), "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
        return environment(self._gate, self.folder, **{"PYTHONPATH": str(ROOT), **known, **more})

    async def install(self, env: dict[str, str]) -> None:
        """Have it ask."""
        words = (sys.executable, "-m", "gateway.integrations", "install", "opencode", "--yes")
        code, said = await run(*words, env=env, cwd=self.work)
        assert code == 0, said

    @asynccontextmanager
    async def started(self, *words: str, env: dict[str, str], until: bytes) -> AsyncIterator[None]:
        """Run a program that has said `until`, inside the block."""
        process = await asyncio.create_subprocess_exec(
            *words, env=env, cwd=self.work, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
        )
        assert process.stdout is not None
        try:
            while until not in (line := await process.stdout.readline()):
                assert line, f"{words} ended"
            yield
        finally:
            process.kill()
            await process.communicate()

    @asynccontextmanager
    async def prompted(self, model: CodingModel, **more: str) -> AsyncIterator[Session]:
        """Run its server and the bridge, with one prompt sent, inside the block."""
        env, port = self.environment(model, **more), free_port()
        await self.install(env)
        url = f"http://127.0.0.1:{port}"
        serve = (self.program, "serve", "--port", str(port))
        bridge = (sys.executable, "-m", "gateway.integrations", "bridge", "opencode", "--url", url)
        async with (
            self.started(*serve, env=env, until=b"listening"),
            self.started(*bridge, env=env, until=b"asks for"),
            aiohttp.ClientSession(url) as http,
        ):
            async with http.post("/session", json={}) as answer:
                session = Session(http, model, (await answer.json())["id"])
            said = {"parts": [{"type": "text", "text": "go"}]}
            await http.post(f"/session/{session.id}/prompt_async", json=said)
            yield session

    @asynccontextmanager
    async def as_agent(self, model: CodingModel, *options: str) -> AsyncIterator[RpcProgram]:
        """Run it behind the bridge of the protocol, with one prompt sent, inside the block."""
        env = self.environment(model)
        await self.install(env)
        words = (*options, "--", self.program, "acp")
        async with rpc_program("acp", *words, env=env, cwd=self.work) as agent:
            await agent.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            opened = await agent.call("session/new", {"cwd": str(self.work), "mcpServers": []})
            said = {"sessionId": opened["sessionId"], "prompt": [{"type": "text", "text": "go"}]}
            self.turn = agent.send("session/prompt", said)
            yield agent

    async def stop_reason(self, agent: RpcProgram) -> str:
        """Return why the turn of an agent ended."""
        return str((await agent.until(id=self.turn))["result"]["stopReason"])


@pytest.fixture
def opencode(gate: Replica, installed: Path, tmp_path: Path) -> OpenCode:
    """Return OpenCode."""
    return OpenCode(gate, installed, tmp_path)


async def test_an_approved_command_runs(opencode: OpenCode, answer: Answer) -> None:
    """The card has the command, the folder and the session."""
    async with coding_model(TOUCH) as model, opencode.prompted(model) as session:
        record = await answer()
        await session.told(2)
    assert (opencode.work / "made").exists()
    request = record.request
    assert (request.tool, request.kind, request.session) == ("bash", "command", session.id)
    assert request.arguments["command"] == "touch made"
    assert request.context.cwd == str(opencode.work)


async def test_a_denial_reaches_the_model(opencode: OpenCode, answer: Answer) -> None:
    """With the person's words."""
    async with coding_model(TOUCH) as model, opencode.prompted(model) as session:
        await answer("deny", message="not on a Friday")
        await session.told(2)
        assert "not on a Friday" in model.heard
    assert not (opencode.work / "made").exists()


async def test_an_abort_ends_the_turn(opencode: OpenCode, answer: Answer) -> None:
    """The model is not asked again."""
    async with coding_model(TOUCH) as model, opencode.prompted(model) as session:
        await answer("abort")
        await session.idle()
        assert len(model.told) == 1
    assert not (opencode.work / "made").exists()


async def test_a_remembered_answer_asks_nobody(opencode: OpenCode, gate: Replica) -> None:
    """OpenCode asks each time; the second time a grant answers."""
    again = Use("bash", TOUCH.arguments, "call_2")
    async with coding_model(TOUCH, again) as model, opencode.prompted(model) as session:
        await remember(gate)
        await session.told(3)
    found = (await gate.core.requests.page(Query(final=True))).items
    assert sorted(one.decision.reason for one in found if one.decision) == ["grant", "person"]


async def test_what_was_answered_in_opencode_closes_the_card(
    opencode: OpenCode, gate: Replica
) -> None:
    """It was decided elsewhere."""
    async with coding_model(TOUCH) as model, opencode.prompted(model) as session:
        await gate.waiting()
        await session.reply("once")
        record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.RESOLVED_ELSEWHERE


async def test_an_approved_call_of_the_agent_runs(opencode: OpenCode, answer: Answer) -> None:
    """As an agent of the protocol it tells its command as data."""
    async with coding_model(TOUCH) as model, opencode.as_agent(model) as agent:
        record, _ = await asyncio.gather(answer(), opencode.stop_reason(agent))
    assert (opencode.work / "made").exists()
    request = record.request
    assert (request.tool, request.kind, request.human) == ("execute", "command", False)
    assert request.arguments["command"] == "touch made"
    assert request.context.cwd == str(opencode.work)


async def test_a_denied_call_of_the_agent_does_not(opencode: OpenCode, answer: Answer) -> None:
    """The protocol has no place for words."""
    async with coding_model(TOUCH) as model, opencode.as_agent(model) as agent:
        await asyncio.gather(answer("deny"), opencode.stop_reason(agent))
    assert not (opencode.work / "made").exists()


async def test_the_agent_keeps_what_a_person_chose(
    opencode: OpenCode, gate: Replica, answer: Answer
) -> None:
    """Where the bridge was told to offer it: the second time it does not ask."""
    again = Use("bash", TOUCH.arguments, "call_2")
    async with (
        coding_model(TOUCH, again) as model,
        opencode.as_agent(model, "--native-always") as agent,
    ):
        chosen = answer(remember={"offer": "host:0"})
        await asyncio.gather(chosen, opencode.stop_reason(agent))
        assert len(model.told) == 3
    assert len((await gate.core.requests.page(Query(final=True))).items) == 1
