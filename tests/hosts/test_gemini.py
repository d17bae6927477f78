"""Gemini CLI itself, as it is published, with our hook: each answer, and what its model hears."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gateway.domain.records import Query
from gateway.integrations.coding_agents.install_plans import OR_BLOCK
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import NO_GATEWAY, Answer, environment, finish, remember, run

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(120)]

HOOK = f"{sys.executable} -m gateway.integrations hook gemini"
TOUCH = Use("run_shell_command", {"command": "touch made"}, "call_1")


class Gemini:
    """Runs of Gemini CLI with a scripted model in a folder of its own."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self._gate, self._installed, self.folder = gate, installed, folder
        self.work = folder / "work"
        self.work.mkdir()
        (folder / ".gemini").mkdir()

    def hook(self, command: str) -> None:
        """Write the user's settings, with this hook."""
        hook = {"type": "command", "command": command, "timeout": 60_000}
        settings = {
            "security": {
                "auth": {"selectedType": "gemini-api-key"},
                "folderTrust": {"enabled": False},
            },
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "hooks": {"BeforeTool": [{"matcher": "*", "hooks": [hook]}]},
        }
        (self.folder / ".gemini" / "settings.json").write_text(json.dumps(settings))

    async def start(self, model: CodingModel, **env: str) -> tuple[int, str]:
        """Run one prompt to its end. Without -y Gemini CLI has no shell where nobody is there."""
        return await run(
            str(self._installed / "node_modules" / ".bin" / "gemini"),
            *("-y", "-m", "gemini-2.5-pro", "-p", "go"),
            env=environment(
                self._gate,
                self.folder,
                **{
                    "GOOGLE_GEMINI_BASE_URL": model.url,
                    "GEMINI_API_KEY": "none",
                    "PYTHONPATH": str(ROOT),
                    **env,
                },
            ),
            cwd=self.work,
        )


@pytest.fixture
def gemini(gate: Replica, installed: Path, tmp_path: Path) -> Gemini:
    """Return Gemini CLI with the hook."""
    made = Gemini(gate, installed, tmp_path)
    made.hook(f"{HOOK} --timeout 50 {OR_BLOCK}")
    return made


async def test_an_approved_command_runs(gemini: Gemini, answer: Answer) -> None:
    """The card has the command, the folder and the session."""
    async with coding_model(TOUCH) as model:
        _, record = await finish(gemini.start(model), answer())
    assert (gemini.work / "made").exists()
    request = record.request
    assert (request.tool, request.arguments["command"]) == ("run_shell_command", "touch made")
    assert request.kind == "command"
    assert request.context.cwd == str(gemini.work)


async def test_a_denial_reaches_the_model(gemini: Gemini, answer: Answer) -> None:
    """Although Gemini CLI itself asks nobody."""
    async with coding_model(TOUCH) as model:
        await finish(gemini.start(model), answer("deny", message="not on a Friday"))
        assert "not on a Friday" in model.heard
    assert not (gemini.work / "made").exists()


async def test_an_edit_is_what_runs(gemini: Gemini, answer: Answer) -> None:
    """As the person left it."""
    edited = {"command": "touch other"}
    async with coding_model(TOUCH) as model:
        await finish(gemini.start(model), answer("edit", arguments=edited))
    assert [one.name for one in gemini.work.iterdir()] == ["other"]


async def test_an_abort_stops_the_run(gemini: Gemini, answer: Answer) -> None:
    """The model is not asked again."""
    async with coding_model(TOUCH) as model:
        await finish(gemini.start(model), answer("abort", message="enough"))
        assert len(model.told) == 1
    assert not (gemini.work / "made").exists()


async def test_a_remembered_answer_asks_nobody(gemini: Gemini, gate: Replica) -> None:
    """Two equal calls, one after the other, are two requests; the second needs nobody."""
    async with coding_model(TOUCH, TOUCH) as model:
        await finish(gemini.start(model), remember(gate))
        assert len(model.told) == 3
    ended = (await gate.core.requests.page(Query(final=True))).items
    assert sorted(one.decision.reason for one in ended if one.decision) == ["grant", "person"]


async def test_nobody_answers(gemini: Gemini) -> None:
    """The model is told that, and not that anybody denied."""
    gemini.hook(f"{HOOK} --timeout 1 {OR_BLOCK}")
    async with coding_model(TOUCH) as model:
        await finish(gemini.start(model))
        assert "nobody answered in time" in model.heard
    assert not (gemini.work / "made").exists()


async def test_without_a_gateway_nothing_runs(gemini: Gemini) -> None:
    """The model reads that nobody was asked."""
    async with coding_model(TOUCH) as model:
        await finish(gemini.start(model, **NO_GATEWAY))
        assert "nobody was asked: gateway unreachable" in model.heard
    assert not (gemini.work / "made").exists()


@pytest.mark.parametrize("hook", [f"{HOOK} --nonsense", "sh -c 'kill -9 $$'", "/nowhere/gateway"])
async def test_a_hook_that_fails_runs_nothing(gemini: Gemini, hook: str) -> None:
    """As `gateway install` writes it. Gemini CLI itself runs the tool after each of these."""
    gemini.hook(f"{hook} {OR_BLOCK}")
    async with coding_model(TOUCH) as model:
        await finish(gemini.start(model))
    assert not (gemini.work / "made").exists()
