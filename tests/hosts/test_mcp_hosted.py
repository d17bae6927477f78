"""Claude Code itself, as it is published, with the proxy before a server and with our prompt."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.models import Kind
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.conftest import Answer, environment, run

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

GATEWAY = (sys.executable, "-m", "gateway.cli", "mcp")
DOWNSTREAM = ("--", sys.executable, "-m", "tests.hosts.mcp_downstream")


class Messages:
    """A model that calls one tool, then says that it is done; keeps what it was told."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        self._use = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": arguments}
        self.told: list[Any] = []
        self.url = ""

    @property
    def heard(self) -> str:
        """The results of tools that it was told, as JSON."""
        blocks = [
            block
            for message in (self.told[-1]["messages"] if self.told else [])
            for block in (message["content"] if isinstance(message["content"], list) else [])
        ]
        return json.dumps([one for one in blocks if one.get("type") == "tool_result"])

    async def answer(self, call: web.Request) -> web.StreamResponse:
        """Answer `/v1/messages`, streamed."""
        asked = await call.json()
        block: dict[str, Any] = {"type": "text", "text": "done"}
        if asked.get("tools"):
            self.told.append(asked)
            block = self._use if len(self.told) == 1 else block
        uses = block["type"] == "tool_use"
        empty: dict[str, Any] = {"input": {}} if uses else {"text": ""}
        start = {**block, **empty}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            if uses
            else {"type": "text_delta", "text": block["text"]}
        )
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"],
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        stop = {"stop_reason": "tool_use" if uses else "end_turn", "stop_sequence": None}
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(call)
        for event in (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": usage},
            {"type": "message_stop"},
        ):
            await answer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return answer

    async def count(self, call: web.Request) -> web.StreamResponse:
        """Answer `/v1/messages/count_tokens`."""
        return web.json_response({"input_tokens": 1})


@asynccontextmanager
async def messages(tool: str, **arguments: Any) -> AsyncIterator[Messages]:
    """Run a model that calls one tool."""
    model = Messages(tool, arguments)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/messages", model.answer)
    app.router.add_post("/v1/messages/count_tokens", model.count)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    model.url = site.name
    try:
        yield model
    finally:
        await runner.cleanup()


class Claude:
    """Runs Claude Code with MCP servers of ours."""

    def __init__(self, gate: Replica, installed: Path, home: Path) -> None:
        self._gate, self._home = gate, home
        self._program = installed / "node_modules" / ".bin" / "claude"

    async def run(self, model: Messages, servers: dict[str, Any], *words: str) -> str:
        """Run one prompt; return what it printed."""
        env = environment(
            self._gate,
            self._home,
            ANTHROPIC_BASE_URL=model.url,
            ANTHROPIC_API_KEY="none",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            PYTHONPATH=str(ROOT),
        )
        config = self._home / "mcp.json"
        own = {"PYTHONPATH": str(ROOT), **{k: v for k, v in env.items() if k.startswith("GATEWAY")}}
        listed = {
            name: {"command": command[0], "args": command[1:], "env": own}
            for name, command in servers.items()
        }
        config.write_text(json.dumps({"mcpServers": listed}))
        code, said = await run(
            *(str(self._program), "-p", "go on", "--mcp-config", str(config), *words),
            env=env,
            cwd=self._home,
        )
        assert code == 0, said
        return said


@pytest.fixture
def claude(gate: Replica, installed: Path, tmp_path: Path) -> Claude:
    """Return what runs Claude Code in a home of its own."""
    return Claude(gate, installed, tmp_path)


@pytest.mark.parametrize("action", ["edit", "deny"])
async def test_claude_code_calls_through_the_proxy(
    claude: Claude, answer: Answer, tmp_path: Path, action: str
) -> None:
    """Though its own settings allow the tool. The card knows which client and call it was; an edit
    runs as edited, and a denial reaches the model in the person's words."""
    place = tmp_path / "edited.txt"
    servers = {"files": [*GATEWAY, "proxy", "--name", "files", *DOWNSTREAM]}
    async with messages("mcp__files__write", path=str(tmp_path / "asked.txt")) as model:
        running = asyncio.create_task(
            claude.run(model, servers, "--allowedTools", "mcp__files__write")
        )
        more = {"arguments": {"path": str(place)}} if action == "edit" else {"message": "not now"}
        record = await answer(action, **more)
        await running
    request = record.request
    assert request.tool == "mcp__files__write"
    assert (request.origin.channel or "").startswith("claude-code 2.")
    assert request.origin.tool_call_id == "toolu_1"
    assert not (tmp_path / "asked.txt").exists()
    assert place.exists() == (action == "edit")
    assert ("wrote" if action == "edit" else "not run: denied by ann: not now") in model.heard


@pytest.mark.parametrize("action", ["edit", "deny"])
async def test_claude_code_asks_our_prompt(
    claude: Claude, answer: Answer, tmp_path: Path, action: str
) -> None:
    """Its own shell tool, which its settings neither allow nor deny."""
    place = tmp_path / "edited.txt"
    servers = {"people": [*GATEWAY, "server"]}
    async with messages("Bash", command="touch asked.txt", description="d") as model:
        running = asyncio.create_task(
            claude.run(
                model, servers, "--permission-mode", "default",
                "--permission-prompt-tool", "mcp__people__permission_prompt",
            )
        )  # fmt: skip
        edited = {"arguments": {"command": f"touch {place}", "description": "d"}}
        record = await answer(action, **(edited if action == "edit" else {"message": "not now"}))
        await running
    assert (record.request.tool, record.request.kind) == ("Bash", Kind.COMMAND)
    assert not (tmp_path / "asked.txt").exists()
    assert place.exists() == (action == "edit")
    if action == "deny":
        assert "denied by ann: not now" in model.heard
