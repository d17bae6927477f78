"""gptme's server as it is published, and the bridge beside it: each answer, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import Query, StoredRequest
from gateway.integrations.bridges.gptme_server import GptmeApi, GptmeBridge
from gateway.models import Execution, Reason, Status
from tests.api.replica import AGENT_TOKEN, Replica
from tests.hosts.conftest import Answer, environment
from tests.hosts.model_server import Model, model_server
from tests.ports import free_port
from tests.waiting import moment

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(60)]

KEY = "server-key"
TOUCH = "I do it.\n\n```shell\ntouch made\n```\n"
SAVE = "I do it.\n\n```save note.txt\nfirst\n```\n"
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "shell", "arguments": '{"command": "touch made"}'},
}


@dataclass
class Served:
    """gptme's server with one conversation, and a bridge."""

    gate: Replica
    http: aiohttp.ClientSession
    model: Model
    bridge: GptmeBridge
    work: Path
    session: str = ""

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Call gptme's API as its web page does."""
        async with self.http.request(method, f"/api/v2{path}", json=body) as answer:
            return answer.status, await answer.json()

    async def begin(self, tool_format: str = "markdown", **step: Any) -> None:
        """Begin a conversation whose model says its first turn."""
        chat = {"workspace": str(self.work), "tool_format": tool_format, "model": "local/m"}
        status, made = await self.call("PUT", "/conversations/talk", {
            "config": {"chat": {**chat, "tools": ["shell", "save"]}},
            "messages": [{"role": "user", "content": "go"}],
        })  # fmt: skip
        assert status == 200, made
        self.session = made["session_id"]
        await self.step(**step)

    async def step(self, **step: Any) -> None:
        """Have the model say its next turn."""
        await self.bridge.look()
        body = {"session_id": self.session, "model": "local/m", "stream": False, **step}
        status, said = await self.call("POST", "/conversations/talk/step", body)
        assert status == 200, said

    async def ended(self, **members: Any) -> StoredRequest:
        """Return the only request once it has these members."""
        while True:
            items = (await self.gate.core.requests.page(Query(final=True))).items
            found = {name: getattr(items[0], name) for name in members} if items else None
            if found == members:
                return items[0]
            await moment()

    async def reported(self, execution: Execution) -> StoredRequest:
        """Return the only request, once that was reported of it."""
        while True:
            items = (await self.gate.core.requests.page(Query(final=True))).items
            if items and items[0].report and items[0].report.execution is execution:
                return items[0]
            await moment()

    async def asked(self) -> list[StoredRequest]:
        """Return every request that there was."""
        both = [await self.gate.core.requests.page(Query(final=one)) for one in (True, False)]
        return [one for page in both for one in page.items]

    async def pending(self) -> set[str]:
        """Return what gptme waits for."""
        return await GptmeApi(str(self.http._base_url), KEY).pending("talk")

    async def told(self, turns: int) -> str:
        """Return everything that the model was told, once that was so many turns."""
        while len(self.model.told) < turns:
            await moment()
        return self.model.heard


Serve = Any


@pytest.fixture
def serve(gate: Replica, installed: Path, tmp_path: Path) -> Serve:
    """Return what runs gptme's server and the bridge."""

    @asynccontextmanager
    async def running(*turns: str | dict[str, Any], plugin: bool = False) -> AsyncIterator[Served]:
        port, work = free_port(), tmp_path / "work"
        work.mkdir()
        config = tmp_path / ".config" / "gptme" / "config.toml"
        config.parent.mkdir(parents=True)
        on = "[plugin.approval_gateway]\nenabled = true\n" if plugin else ""
        config.write_text(f"[prompt]\n[env]\n{on}")
        async with model_server(*turns) as model:
            env = environment(
                gate, tmp_path, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="none",
                GPTME_TIKTOKEN_TIMEOUT="0", GPTME_SERVER_TOKEN=KEY,
            )  # fmt: skip
            with (tmp_path / "server.log").open("wb") as log:
                server = await asyncio.create_subprocess_exec(
                    *(str(installed / "bin" / "gptme-server"), "serve", "--port", str(port)),
                    *("--model", "local/m", "--tools", "shell,save"),
                    env=env, cwd=work, stdout=log, stderr=log,
                )  # fmt: skip
            url = f"http://127.0.0.1:{port}"
            try:
                async with (
                    aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {KEY}"}) as http,
                    AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, "agent1")) as client,
                ):
                    await _answers(http, server)
                    bridge = GptmeBridge(client, GptmeApi(url, KEY), pause=_short)
                    yield Served(gate, http, model, bridge, work)
                    await bridge.close()
            finally:
                if server.returncode is None:
                    server.kill()
                await server.wait()

    return running


async def _answers(http: aiohttp.ClientSession, server: asyncio.subprocess.Process) -> None:
    while True:
        assert server.returncode is None, "gptme's server ended"
        try:
            async with http.get("/api/v2/sessions") as answer:
                assert answer.status == 200
                return
        except aiohttp.ClientError:
            await moment()


async def _short(seconds: float) -> None:
    await moment()


async def test_an_approved_command_runs_and_is_reported(serve: Serve, answer: Answer) -> None:
    """gptme asks at its HTTP gate; the card has the command and the conversation."""
    async with serve(TOUCH) as served:
        await served.begin()
        record = await answer()
        await served.reported(Execution.SUCCEEDED)
        assert (served.work / "made").exists()
    request = record.request
    assert (request.tool, request.arguments) == ("shell", {"command": "touch made"})
    assert (request.session, request.origin.framework) == ("talk", "gptme")
    assert request.origin.tool_call_id is not None
    assert request.id == request.origin.tool_call_id.replace("-", "")
    assert "respond" not in request.allowed


async def test_a_denied_command_is_skipped(serve: Serve, answer: Answer) -> None:
    """The model is told in gptme's own sentence: its HTTP takes no words."""
    async with serve(TOUCH) as served:
        await served.begin()
        await answer("deny", message="no")
        assert "User chose not to execute this shell tool" in await served.told(2)
        assert not (served.work / "made").exists()


async def test_an_edited_file_is_saved_as_edited(serve: Serve, answer: Answer) -> None:
    """gptme runs the text of the person, and does not ask again."""
    async with serve(SAVE) as served:
        await served.begin()
        await answer("edit", arguments={"path": "note.txt", "content": "second\n"})
        await served.reported(Execution.SUCCEEDED)
        assert (served.work / "note.txt").read_text().strip() == "second"
        assert len(await served.asked()) == 1


async def test_an_abort_interrupts_the_conversation(serve: Serve, answer: Answer) -> None:
    """The tool does not run, and the model is not told to go on."""
    async with serve(TOUCH) as served:
        await served.begin()
        await answer("abort", abort="turn", message="stop")
        while (await served.pending()) or served.bridge.waits:
            await moment()
        assert len(served.model.told) == 1
        assert not (served.work / "made").exists()


async def test_arguments_that_gptme_does_not_tell_are_shown_as_the_message(
    serve: Serve, answer: Answer
) -> None:
    """In its `tool` format the event has no arguments: people read the model's own words, and
    can edit nothing."""
    async with serve({"content": None, "tool_calls": [CALL]}) as served:
        await served.begin("tool")
        record = await answer()
        await served.reported(Execution.SUCCEEDED)
        assert (served.work / "made").exists()
    assert "touch made" in record.request.arguments["message"]
    assert "edit" not in record.request.allowed


@pytest.mark.parametrize("action", ["approve", "edit"])
async def test_with_the_plugin_enabled_too_people_are_asked_once(
    serve: Serve, answer: Answer, action: str
) -> None:
    """The plugin finds at the gateway that just this was approved, also where it was edited."""
    more = {"arguments": {"command": "touch other"}} if action == "edit" else {}
    async with serve(TOUCH, plugin=True) as served:
        await served.begin()
        await answer(action, **more)
        await served.reported(Execution.SUCCEEDED)
        assert (served.work / ("other" if more else "made")).exists()
        assert len(await served.asked()) == 1


async def test_what_is_confirmed_elsewhere_is_asked_by_the_plugin(
    serve: Serve, answer: Answer
) -> None:
    """A click on gptme's own page is no approval where the plugin is enabled; the bridge's
    question is withdrawn."""
    async with serve(TOUCH, plugin=True) as served:
        await served.begin()
        while not (items := await served.asked()):
            await moment()
        tool = items[0].request.origin.tool_call_id
        body = {"tool_id": tool, "action": "confirm"}
        assert (await served.call("POST", "/conversations/talk/tool/confirm", body))[0] == 200
        while served.bridge.waits:
            await moment()
        assert not (served.work / "made").exists()
        await answer("deny", message="not here")
        assert "not here" in await served.told(2)
        assert not (served.work / "made").exists()


@pytest.mark.parametrize("action", ["confirm", "skip"])
async def test_what_is_answered_in_gptme_is_withdrawn(serve: Serve, action: str) -> None:
    """Whichever answer it was: nobody is left with a question that nobody waits for."""
    async with serve(TOUCH) as served:
        await served.begin()
        while not (items := await served.asked()):
            await moment()
        body = {"tool_id": items[0].request.origin.tool_call_id, "action": action}
        assert (await served.call("POST", "/conversations/talk/tool/confirm", body))[0] == 200
        record = await served.ended(status=Status.CANCELLED)
        assert record.decision is not None
        assert record.decision.reason is Reason.RESOLVED_ELSEWHERE


async def test_a_bridge_that_ends_skips_what_waits(serve: Serve) -> None:
    """Nothing is left waiting on either side."""
    async with serve(TOUCH) as served:
        await served.begin()
        while not served.bridge.waits:
            await moment()
        await served.bridge.close()
        assert "User chose not to execute" in await served.told(2)
        await served.ended(status=Status.CANCELLED)
        assert not (served.work / "made").exists()


async def test_without_a_gateway_the_tool_is_skipped(serve: Serve) -> None:
    """Nothing runs, and gptme waits for nobody."""
    async with (
        serve(TOUCH) as served,
        AsyncClient(
            HttpTransport("http://127.0.0.1:9", AGENT_TOKEN, "agent1"), connect_timeout=0.1
        ) as away,
    ):
        served.bridge = GptmeBridge(away, served.bridge._api, pause=_short)
        await served.begin()
        assert "User chose not to execute" in await served.told(2)
        assert not (served.work / "made").exists()
        await served.bridge.close()


async def test_a_server_that_ends_leaves_nothing_waiting(serve: Serve, answer: Answer) -> None:
    """What waits is withdrawn as soon as a new server answers that has no such session."""
    async with serve(TOUCH) as served:
        await served.begin()
        while not served.bridge.waits:
            await moment()
        status, _ = await served.call("DELETE", f"/sessions/{served.session}")
        assert status == 200
        while served.bridge.waits:
            await served.bridge.look()
        record = await served.ended(status=Status.CANCELLED)
        assert json.dumps(record.request.arguments) == '{"command": "touch made"}'
