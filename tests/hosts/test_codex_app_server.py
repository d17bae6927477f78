"""Codex's app-server itself, behind our bridge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.records import Query
from gateway.models import Reason
from tests.api.replica import Replica
from tests.hosts.coding_models import CodingModel, Use, coding_model
from tests.hosts.conftest import NO_GATEWAY, Answer, remember
from tests.hosts.rpc_program import RpcProgram, rpc_program
from tests.hosts.test_codex import Codex

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(120)]

TOUCH = Use("exec_command", {"cmd": "touch made"}, "call_1")
PATCH = "*** Begin Patch\n*** Add File: made\n+text\n*** End Patch\n"


class CodexServer(Codex):
    """Runs of the app-server."""

    @asynccontextmanager
    async def prompted(
        self, model: CodingModel, *options: str, **more: str
    ) -> AsyncIterator[RpcProgram]:
        """Run it behind the bridge, with one turn begun, inside the block."""
        env = self.environment(model, **more)
        words = (*options, "--", self.program, "app-server")
        async with rpc_program("codex-app-server", *words, env=env, cwd=self.work) as agent:
            client = {"name": "t", "title": "t", "version": "1"}
            await agent.call("initialize", {"clientInfo": client})
            how = {"approvalPolicy": "untrusted", "sandbox": "read-only"}
            begun = await agent.call("thread/start", {"cwd": str(self.work), **how})
            self.thread = begun["thread"]["id"]
            given = [{"type": "text", "text": "go"}]
            begun = await agent.call("turn/start", {"threadId": self.thread, "input": given})
            self.turn = begun["turn"]["id"]
            yield agent

    async def status(self, agent: RpcProgram) -> Any:
        """Return how the turn ended."""
        told = await agent.until(method="turn/completed")
        return told["params"]["turn"]["status"]


@pytest.fixture
def codex(gate: Replica, installed: Path, tmp_path: Path) -> CodexServer:
    """Return Codex without a hook."""
    return CodexServer(gate, installed, tmp_path)


async def test_an_approved_command_runs(codex: CodexServer, answer: Answer) -> None:
    """The program is not asked; the card has the command, the folder, thread and turn."""
    async with coding_model(TOUCH) as model, codex.prompted(model) as agent:
        record, _ = await asyncio.gather(answer(), codex.status(agent))
    assert (codex.work / "made").exists()
    request = record.request
    assert (request.tool, request.kind, request.session) == ("Bash", "command", codex.thread)
    assert "touch made" in request.arguments["command"]
    assert (request.context.cwd, request.turn) == (str(codex.work), codex.turn)


async def test_a_denied_command_does_not(codex: CodexServer, answer: Answer) -> None:
    """The model hears that it was declined; the protocol has no place for words."""
    async with coding_model(TOUCH) as model, codex.prompted(model) as agent:
        await asyncio.gather(answer("deny", message="no"), codex.status(agent))
        assert len(model.told) == 2
    assert not (codex.work / "made").exists()


async def test_an_abort_interrupts_the_turn(codex: CodexServer, answer: Answer) -> None:
    """The model is not asked again."""
    async with coding_model(TOUCH) as model, codex.prompted(model) as agent:
        _, status = await asyncio.gather(answer("abort"), codex.status(agent))
        assert len(model.told) == 1
    assert status == "interrupted"
    assert not (codex.work / "made").exists()


async def test_a_change_of_files_is_shown_and_asked(codex: CodexServer, answer: Answer) -> None:
    """The card has the change that Codex told before it asked."""
    patch = Use("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF\n"}, "call_1")
    async with coding_model(patch) as model, codex.prompted(model) as agent:
        record, _ = await asyncio.gather(answer(), codex.status(agent))
    assert (codex.work / "made").read_text() == "text\n"
    assert (record.request.tool, record.request.kind) == ("apply_patch", "file_change")
    assert "made" in str(record.request.arguments["changes"])


async def test_a_remembered_answer_asks_nobody(codex: CodexServer, gate: Replica) -> None:
    """Codex asks each time; the second time a grant answers."""
    again = Use("exec_command", TOUCH.arguments, "call_2")
    async with coding_model(TOUCH, again) as model, codex.prompted(model) as agent:
        await asyncio.gather(remember(gate), codex.status(agent))
        assert len(model.told) == 3
    ended = (await gate.core.requests.page(Query(final=True))).items
    assert sorted(one.decision.reason for one in ended if one.decision) == ["grant", "person"]


async def test_codex_keeps_the_rule_that_a_person_chose(
    codex: CodexServer, answer: Answer, gate: Replica
) -> None:
    """Where the bridge was told to offer it: the second time Codex does not ask, and another
    command it asks about all the same."""
    again = Use("exec_command", TOUCH.arguments, "call_2")
    other = Use("exec_command", {"cmd": "touch other"}, "call_3")
    async with coding_model(TOUCH, again, other) as model:
        async with codex.prompted(model, "--native-always") as agent:
            ending = asyncio.create_task(codex.status(agent))
            record = await answer(remember={"offer": "host:0"})
            last = await answer("deny")
            await ending
        assert len(model.told) == 4
    (rule,) = record.request.host_rules
    assert rule.rule == "commands that begin with: touch made"
    assert "touch other" in last.request.arguments["command"]
    assert len((await gate.core.requests.page(Query(final=True))).items) == 2


async def test_the_program_interrupts_the_turn(codex: CodexServer, gate: Replica) -> None:
    """The card closes."""
    async with coding_model(TOUCH) as model, codex.prompted(model) as agent:
        await gate.waiting()
        agent.send("turn/interrupt", {"threadId": codex.thread, "turnId": codex.turn})
        assert await codex.status(agent) == "interrupted"
        items = await gate.ended()
    assert items[0].decision is not None
    assert items[0].decision.reason is Reason.ABANDONED
    assert not (codex.work / "made").exists()


async def test_without_a_gateway_nothing_runs(codex: CodexServer) -> None:
    """It is declined."""
    async with coding_model(TOUCH) as model, codex.prompted(model, **NO_GATEWAY) as agent:
        await codex.status(agent)
    assert not (codex.work / "made").exists()
