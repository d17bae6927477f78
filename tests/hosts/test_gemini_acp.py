"""Gemini CLI itself as an agent of the Agent Client Protocol, behind our bridge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.domain.records import Query
from gateway.models import Reason
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import NO_GATEWAY, Answer, environment, remember
from tests.hosts.rpc_program import RpcProgram, rpc_program
from tests.waiting import moment

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(120)]

TOUCH = Use("run_shell_command", {"command": "touch made"}, "call_1")


class GeminiAgent:
    """Gemini CLI with a scripted model in a folder of its own."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self._gate, self._installed, self.folder = gate, installed, folder
        self.work = folder / "work"
        self.work.mkdir()
        (folder / ".gemini").mkdir()
        settings = {
            "security": {
                "auth": {"selectedType": "gemini-api-key"},
                "folderTrust": {"enabled": False},
            },
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
        }
        (folder / ".gemini" / "settings.json").write_text(json.dumps(settings))

    @asynccontextmanager
    async def prompted(self, model: CodingModel, **more: str) -> AsyncIterator[RpcProgram]:
        """Run it behind the bridge, with one prompt sent, inside the block."""
        env = environment(
            self._gate,
            self.folder,
            **{
                "GOOGLE_GEMINI_BASE_URL": model.url,
                "GEMINI_API_KEY": "none",
                "PYTHONPATH": str(ROOT),
                **more,
            },
        )
        program = str(self._installed / "node_modules" / ".bin" / "gemini")
        words = (program, "--acp", "-m", "gemini-2.5-pro")
        async with rpc_program("acp", *words, env=env, cwd=self.work) as agent:
            await agent.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            opened = await agent.call("session/new", {"cwd": str(self.work), "mcpServers": []})
            prompt = [{"type": "text", "text": "go"}]
            self.session = opened["sessionId"]
            self.turn = agent.send("session/prompt", {"sessionId": self.session, "prompt": prompt})
            yield agent

    async def stop_reason(self, agent: RpcProgram) -> str:
        """Return why the turn ended."""
        answer = await agent.until(id=self.turn)
        return str(answer["result"]["stopReason"])


@pytest.fixture
def gemini(gate: Replica, installed: Path, tmp_path: Path) -> GeminiAgent:
    """Return Gemini CLI as an agent."""
    return GeminiAgent(gate, installed, tmp_path)


async def test_an_approved_call_runs(gemini: GeminiAgent, answer: Answer) -> None:
    """The program is not asked; the card has what Gemini CLI would show, and the folder."""
    async with coding_model(TOUCH) as model, gemini.prompted(model) as agent:
        record = (await asyncio.gather(answer(), gemini.stop_reason(agent)))[0]
    assert (gemini.work / "made").exists()
    request = record.request
    assert (request.tool, request.session) == ("execute", gemini.session)
    assert request.arguments["title"] == "touch made"
    assert request.context.cwd == str(gemini.work)


async def test_a_denied_call_does_not(gemini: GeminiAgent, answer: Answer) -> None:
    """The protocol has no place for words."""
    async with coding_model(TOUCH) as model, gemini.prompted(model) as agent:
        await asyncio.gather(answer("deny", message="no"), gemini.stop_reason(agent))
    assert not (gemini.work / "made").exists()


async def test_an_abort_ends_the_turn(gemini: GeminiAgent, answer: Answer) -> None:
    """The model is not asked again."""
    async with coding_model(TOUCH) as model, gemini.prompted(model) as agent:
        _, why = await asyncio.gather(answer("abort"), gemini.stop_reason(agent))
        assert len(model.told) == 1
    assert why == "cancelled"
    assert not (gemini.work / "made").exists()


async def test_a_remembered_answer_asks_nobody(gemini: GeminiAgent, gate: Replica) -> None:
    """Gemini CLI asks each time; the second time a grant answers."""
    async with coding_model(TOUCH, TOUCH) as model, gemini.prompted(model) as agent:
        await asyncio.gather(remember(gate), gemini.stop_reason(agent))
        assert len(model.told) == 3
    ended = (await gate.core.requests.page(Query(final=True))).items
    assert sorted(one.decision.reason for one in ended if one.decision) == ["grant", "person"]


async def test_the_program_cancels_the_turn(gemini: GeminiAgent, gate: Replica) -> None:
    """The card closes."""
    async with coding_model(TOUCH) as model, gemini.prompted(model) as agent:
        while not (await gate.core.requests.page(Query())).items:
            await moment()
        agent.notify("session/cancel", {"sessionId": gemini.session})
        assert await gemini.stop_reason(agent) == "cancelled"
        while not (items := (await gate.core.requests.page(Query(final=True))).items):
            await moment()
    assert items[0].decision is not None
    assert items[0].decision.reason is Reason.ABANDONED
    assert not (gemini.work / "made").exists()


async def test_without_a_gateway_nothing_runs(gemini: GeminiAgent) -> None:
    """It is refused."""
    async with coding_model(TOUCH) as model, gemini.prompted(model, **NO_GATEWAY) as agent:
        await gemini.stop_reason(agent)
    assert not (gemini.work / "made").exists()
