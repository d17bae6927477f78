"""Gemini CLI itself as an agent of the Agent Client Protocol, behind our bridge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.domain.policy_document import Mode
from gateway.domain.records import Query
from gateway.models import Reason, RiskLevel
from tests.api.replica import POLICY, Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import NO_GATEWAY, Answer, environment
from tests.hosts.rpc_program import RpcProgram, rpc_program

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
    async def prompted(
        self, model: CodingModel, *options: str, **more: str
    ) -> AsyncIterator[RpcProgram]:
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
        words = (*options, "--", program, "--acp", "-m", "gemini-2.5-pro")
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
        answering = answer(confirmed=True)
        record = (await asyncio.gather(answering, gemini.stop_reason(agent)))[0]
    assert (gemini.work / "made").exists()
    request = record.request
    assert (request.tool, request.session) == ("execute", gemini.session)
    assert request.arguments["command (from the title)"] == "touch made"
    assert (request.human, record.risk.level) == (True, RiskLevel.HIGH)
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


async def test_a_command_is_asked_about_each_time(
    gemini: GeminiAgent, gate: Replica, answer: Answer
) -> None:
    """Only its title is known, which no rule and nothing remembered approves by."""
    allows = replace(POLICY.routes[0], mode=Mode.AUTO_APPROVE)
    await gate.store.apply(replace(POLICY, generation=1, routes=(allows,)), by="test")
    async with coding_model(TOUCH, TOUCH) as model, gemini.prompted(model) as agent:
        ending = asyncio.create_task(gemini.stop_reason(agent))
        for _ in range(2):
            await answer(confirmed=True)
        await ending
        assert len(model.told) == 3


async def test_gemini_keeps_for_its_session_what_a_person_chose(
    gemini: GeminiAgent, gate: Replica, answer: Answer
) -> None:
    """Where the bridge was told to offer it: the second time Gemini CLI does not ask."""
    paths = (str(gemini.work / name) for name in ("made", "other"))
    writes = [Use("write_file", {"file_path": one, "content": "text"}) for one in paths]
    async with coding_model(*writes) as model, gemini.prompted(model, "--native-always") as agent:
        chosen = answer(remember={"offer": "host:0"})
        record, _ = await asyncio.gather(chosen, gemini.stop_reason(agent))
        assert len(model.told) == 3
    assert record.request.host_rules[0].rule == "Allow for this session"
    assert len((await gate.core.requests.page(Query(final=True))).items) == 1
    assert (gemini.work / "other").exists()


async def test_the_program_cancels_the_turn(gemini: GeminiAgent, gate: Replica) -> None:
    """The card closes."""
    async with coding_model(TOUCH) as model, gemini.prompted(model) as agent:
        await gate.waiting()
        agent.notify("session/cancel", {"sessionId": gemini.session})
        assert await gemini.stop_reason(agent) == "cancelled"
        items = await gate.ended()
    assert items[0].decision is not None
    assert items[0].decision.reason is Reason.ABANDONED
    assert not (gemini.work / "made").exists()


async def test_without_a_gateway_nothing_runs(gemini: GeminiAgent) -> None:
    """It is refused."""
    async with coding_model(TOUCH) as model, gemini.prompted(model, **NO_GATEWAY) as agent:
        await gemini.stop_reason(agent)
    assert not (gemini.work / "made").exists()
