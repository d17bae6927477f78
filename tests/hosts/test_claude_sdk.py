"""The Claude Agent SDK itself, as it is published, with our `can_use_tool`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.models import FieldKind
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import NO_GATEWAY, Answer, environment, finish, remember, run
from tests.hosts.test_claude_code import ASKED

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(120)]

TOUCH = Use("Bash", {"command": "touch made", "description": "make a file"})
AGENT = ROOT / "tests" / "hosts" / "agents" / "claude_sdk_agent.py"


class SdkAgent:
    """Runs of an agent with a scripted model, in a folder of its own."""

    def __init__(self, gate: Replica, installed: Path, folder: Path, code: Path = AGENT) -> None:
        self._gate, self._installed, self.folder, self._code = gate, installed, folder, code
        self.work = folder / "work"
        self.work.mkdir()

    async def start(self, model: CodingModel, **more: str) -> tuple[int, str]:
        """Run one prompt to its end."""
        env = environment(
            self._gate,
            self.folder,
            **{
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "SESSION": "s-1",
                **more,
            },
        )
        program = str(self._installed / "bin" / "python")
        return await run(program, str(self._code), env=env, cwd=self.work)


@pytest.fixture
def agent(gate: Replica, installed: Path, tmp_path: Path) -> SdkAgent:
    """Return the agent."""
    return SdkAgent(gate, installed, tmp_path)


async def test_an_approved_command_runs(agent: SdkAgent, answer: Answer) -> None:
    """The card has the command, the folder, the session and the call."""
    async with coding_model(TOUCH) as model:
        said, record = await finish(agent.start(model), answer())
    assert (agent.work / "made").exists(), said
    request = record.request
    assert (request.tool, request.arguments, request.kind) == ("Bash", TOUCH.arguments, "command")
    assert (request.session, request.call_id) == ("s-1", "toolu_01Xk9vTq4rN1")
    assert request.context.cwd == str(agent.work)
    assert request.origin.framework == "claude-agent-sdk"


async def test_a_denial_reaches_the_model(agent: SdkAgent, answer: Answer) -> None:
    """With the person's words."""
    async with coding_model(TOUCH) as model:
        await finish(agent.start(model), answer("deny", message="not on a Friday"))
        assert "not on a Friday" in model.heard
    assert not (agent.work / "made").exists()


async def test_an_edit_is_what_runs(agent: SdkAgent, answer: Answer) -> None:
    """Whole, as the person left it."""
    edited = {"command": "touch other", "description": "make a file"}
    async with coding_model(TOUCH) as model:
        await finish(agent.start(model), answer("edit", arguments=edited))
    assert [one.name for one in agent.work.iterdir()] == ["other"]


async def test_an_abort_interrupts(agent: SdkAgent, answer: Answer) -> None:
    """The model is not asked again."""
    async with coding_model(TOUCH) as model:
        await finish(agent.start(model), answer("abort", message="enough"))
        assert len(model.told) == 1
    assert not (agent.work / "made").exists()


async def test_a_question_of_the_model_is_a_question(agent: SdkAgent, answer: Answer) -> None:
    """The model reads what was chosen."""
    async with coding_model(Use("AskUserQuestion", ASKED)) as model:
        given: dict[str, Any] = {"q1": "Blue", "q2": ["S", "L"]}
        _, record = await finish(agent.start(model), answer("answer", answers=given))
        assert "S, L" in model.heard
    assert [one.kind for one in record.request.questions] == [FieldKind.CHOICE, FieldKind.CHOICES]


async def test_a_remembered_answer_asks_nobody(agent: SdkAgent, gate: Replica) -> None:
    """The second of two equal calls needs nobody."""
    async with coding_model(TOUCH, Use("Bash", TOUCH.arguments, "toolu_01Xk9vTq4rN2")) as model:
        await finish(agent.start(model), remember(gate))
        assert len(model.told) == 3
    assert (agent.work / "made").exists()


async def test_without_a_gateway_nothing_runs(agent: SdkAgent) -> None:
    """The model reads that the gateway does not answer."""
    async with coding_model(TOUCH) as model:
        await finish(agent.start(model, **NO_GATEWAY))
        assert "the gateway at 127.0.0.1:9 does not respond" in model.heard
    assert not (agent.work / "made").exists()
