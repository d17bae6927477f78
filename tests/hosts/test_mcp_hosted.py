"""Claude Code itself, as it is published, with the proxy before a server and with our prompt."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.models import Kind
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import Answer, environment, run

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

GATEWAY = (sys.executable, "-m", "gateway.cli", "mcp")
DOWNSTREAM = ("--", sys.executable, "-m", "tests.hosts.mcp_downstream")


class Claude:
    """Runs Claude Code with MCP servers of ours."""

    def __init__(self, gate: Replica, installed: Path, home: Path) -> None:
        self._gate, self._home = gate, home
        self._program = installed / "node_modules" / ".bin" / "claude"

    async def run(self, model: CodingModel, servers: dict[str, Any], *words: str) -> str:
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
    write = Use("mcp__files__write", {"path": str(tmp_path / "asked.txt")})
    async with coding_model(write) as model:
        running = asyncio.create_task(
            claude.run(model, servers, "--allowedTools", "mcp__files__write")
        )
        more = {"arguments": {"path": str(place)}} if action == "edit" else {"message": "not now"}
        record = await answer(action, **more)
        await running
    request = record.request
    assert request.tool == "mcp__files__write"
    assert (request.origin.channel or "").startswith("claude-code 2.")
    assert request.origin.tool_call_id == "toolu_01Xk9vTq4rN1"
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
    touch = Use("Bash", {"command": "touch asked.txt", "description": "d"})
    async with coding_model(touch) as model:
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
