"""What each agent framework must do with each answer: its module's test inherits these."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gateway.domain.records import Query, StoredRequest
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.conftest import environment, run
from tests.waiting import moment

INLINE, PAUSING = 0, 1
"""The programs: that of the page, which waits, and the example that goes on in another process."""
_AGENTS = ROOT / "tests" / "hosts" / "agents"
_EXAMPLES = ROOT / "examples" / "frameworks"
_KEPT = ("paused", "threads")
_FILES = ("a.txt", "b.txt", "c.txt", "d.txt")


@dataclass(frozen=True)
class Ending:
    """How an agent ended, what its model was told of its calls, and which files it deleted."""

    end: str
    told: list[str]
    deleted: list[str]


def call(path: str, number: int = 1) -> dict[str, Any]:
    """Return a call of the page's tool."""
    return {"id": f"call_{number}", "name": "delete_file", "args": {"path": path}}


_SHARED = "ag2-crewai-smolagents"
_PARTS = {
    "ag2": (_SHARED, "AG2"),
    "crewai": (_SHARED, "CrewAI"),
    "smolagents": (_SHARED, "smolagents"),
}
"""The frameworks that share a page, and the heading of each."""


class Agent:
    """A framework's agent that runs its page's and examples' code, in processes of their own."""

    def __init__(self, gate: Replica, installed: Path, folder: Path, name: str) -> None:
        self.gate, self.folder = gate, folder
        self._python = str(installed / "bin" / "python")
        self._code = str(_AGENTS / f"{name}_agent.py")
        page, self._part = _PARTS.get(name, (name.replace("_", "-"), ""))
        self._page = str(ROOT / "docs" / "integrations" / f"{page}.md")
        examples = [_EXAMPLES / f"{kind}_{name}.py" for kind in ("paused", "guardrail")]
        self._examples = json.dumps([str(one) for one in examples if one.exists()])
        for one in _FILES:
            (folder / one).touch()

    def _env(self, calls: Sequence[dict[str, Any]], more: dict[str, str]) -> dict[str, str]:
        said = {"CALLS": json.dumps(calls), "PAGE": self._page, "PART": self._part}
        said["EXAMPLES"] = self._examples
        said["PYTHONDONTWRITEBYTECODE"] = "1"
        return environment(self.gate, self.folder, **said, **more)

    async def run(self, block: int, *calls: dict[str, Any], **more: str) -> Ending:
        """Run a program to its end."""
        command = (self._python, self._code, str(block))
        code, said = await run(*command, env=self._env(calls, more), cwd=self.folder)
        assert code == 0, said
        return self._ending(said.strip().splitlines()[-1])

    async def run_and_kill(self, block: int, *calls: dict[str, Any]) -> Ending:
        """Run a program until it has said how it ended, and kill its process."""
        process = await asyncio.create_subprocess_exec(
            *(self._python, self._code, str(block)),
            env=self._env(calls, {"STAY": "1"}),
            cwd=self.folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            while not (line := await process.stdout.readline()).startswith(b'{"end"'):
                assert line, "the agent ended early"
        finally:
            process.kill()
            await process.communicate()
        return self._ending(line.decode())

    async def run_and_kill_within_the_tool(self, block: int) -> list[str]:
        """Run a program until its tool has done its work and stays, and kill its process; return
        which files are gone."""
        process = await asyncio.create_subprocess_exec(
            *(self._python, self._code, str(block)),
            env=self._env((), {"STAY_IN_TOOL": "1"}),
            cwd=self.folder,
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            while all((self.folder / one).exists() for one in _FILES):
                await moment()
        finally:
            process.kill()
            await process.wait()
        return [one for one in _FILES if not (self.folder / one).exists()]

    async def wait_for_requests(self, count: int) -> list[StoredRequest]:
        """Return the requests that wait once there are so many, by the path they name."""
        items = await self.gate.waiting(count)
        assert len(items) == count
        return sorted(items, key=lambda one: str(one.request.arguments.get("path")))

    async def count_requests(self) -> int:
        """Return how many requests there ever were."""
        found = [await self.gate.core.requests.page(Query(final=final)) for final in (False, True)]
        return sum(len(one.items) for one in found)

    def read_kept(self) -> dict[Path, bytes]:
        """Return the files in which a paused run is kept."""
        return {one: one.read_bytes() for one in self.folder.iterdir() if one.stem in _KEPT}

    def keep(self, files: dict[Path, bytes]) -> None:
        """Put the files of a paused run back."""
        for one, content in files.items():
            one.write_bytes(content)

    def _ending(self, line: str) -> Ending:
        found = json.loads(line)
        gone = [one for one in _FILES if not (self.folder / one).exists()]
        return Ending(found["end"], found["told"], gone)


class FrameworkSuite:
    """The answers that each framework's agent takes within its run."""

    name: ClassVar[str]
    """The framework's module in `gateway.integrations`."""
    framework: ClassVar[str]
    """How its requests begin to say where they come from."""
    block: ClassVar[int] = INLINE
    """Which program waits for people."""
    edits: ClassVar[bool] = True
    """Whether an edited call can run."""
    aborted: ClassVar[str] = "Aborted: denied by ann: stop"
    """How a run ends that a person stops."""

    @pytest.fixture
    def agent(self, gate: Replica, installed: Path, tmp_path: Path) -> Agent:
        """Return an agent of the framework."""
        return Agent(gate, installed, tmp_path, self.name)

    async def run_answered(
        self, agent: Agent, action: str, **more: Any
    ) -> tuple[Ending, StoredRequest]:
        """Run one call, and have Ann answer it."""
        running = asyncio.create_task(agent.run(self.block, call("a.txt")))
        asked = asyncio.create_task(agent.wait_for_requests(1))
        await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            asked.cancel()
            raise AssertionError(f"it does not ask: {await running}")
        [record] = asked.result()
        done = await agent.gate.decided(record.id, action, **more)
        assert done.status == 200, done.json
        return await running, record

    async def test_an_approved_call_runs_once(self, agent: Agent) -> None:
        """The card names tool, arguments, call and framework; the model hears the tool's result."""
        ending, record = await self.run_answered(agent, "approve")
        assert (ending.end, ending.deleted) == ("done", ["a.txt"])
        [told] = ending.told
        assert "deleted a.txt" in told
        request = record.request
        assert (request.tool, request.arguments) == ("delete_file", {"path": "a.txt"})
        assert str(request.origin.framework).startswith(self.framework)
        assert request.session != "default"  # a denial of one run is not that of the next
        assert await agent.count_requests() == 1

    async def test_a_denied_call_does_not_run_and_the_model_hears_why(self, agent: Agent) -> None:
        """In the person's words, and the run goes on to its end."""
        ending, _ = await self.run_answered(agent, "deny", message="not during the sale")
        assert (ending.end, ending.deleted) == ("done", [])
        [told] = ending.told
        assert "delete_file was not run: denied by ann: not during the sale" in told

    async def test_an_edited_call_runs_as_edited(self, agent: Agent) -> None:
        """The arguments that a person changed are the only ones that run; where the framework
        cannot, no edit is offered."""
        if not self.edits:
            _, record = await self.run_answered(agent, "approve")
            assert "edit" not in record.request.allowed
            return
        ending, _ = await self.run_answered(agent, "edit", arguments={"path": "b.txt"})
        assert (ending.end, ending.deleted) == ("done", ["b.txt"])
        assert "deleted b.txt" in ending.told[0]

    async def test_a_persons_result_takes_the_calls_place(self, agent: Agent) -> None:
        """The model reads it as it was written, and nothing runs."""
        ending, _ = await self.run_answered(agent, "respond", result="it is gone already")
        assert (ending.end, ending.deleted) == ("done", [])
        assert "it is gone already" in ending.told[0]

    async def test_an_abort_ends_the_run(self, agent: Agent) -> None:
        """Nothing runs, and the model is not asked again."""
        ending, _ = await self.run_answered(agent, "abort", abort="turn", message="stop")
        assert ending.end.startswith(self.aborted), ending
        assert (ending.told, ending.deleted) == ([], [])

    async def test_a_call_that_nobody_answers_does_not_run(self, agent: Agent) -> None:
        """The model is told that nobody did, not that somebody said no."""
        policy = await agent.gate.store.policy()
        brief = tuple(replace(one, timeout=1.0) for one in policy.routes)
        await agent.gate.store.apply(replace(policy, routes=brief), by="test")
        ending = await agent.run(self.block, call("a.txt"))
        assert (ending.end, ending.deleted) == ("done", [])
        assert "was not run: nobody answered in time" in ending.told[0]

    async def test_a_cancelled_call_does_not_run(self, agent: Agent) -> None:
        """The model is told that it was withdrawn."""
        running = asyncio.create_task(agent.run(self.block, call("a.txt")))
        [record] = await agent.wait_for_requests(1)
        cancelled = {"reason": "resolved_elsewhere"}
        path = f"/v1/requests/{record.id}/cancel"
        assert (await agent.gate.call("POST", path, cancelled)).status == 200
        ending = await running
        assert (ending.end, ending.deleted) == ("done", [])
        assert "was not run: cancelled" in ending.told[0]

    async def test_without_a_gateway_nothing_runs(self, agent: Agent) -> None:
        """The model is told so in a sentence, and the run goes on."""
        nowhere = {"GATEWAY_URL": "http://127.0.0.1:9", "GATEWAY_CONNECT_TIMEOUT": "0.1"}
        ending = await agent.run(self.block, call("a.txt"), **nowhere)
        assert (ending.end, ending.deleted) == ("done", [])
        assert "the approval gateway does not respond" in ending.told[0]

    async def test_an_unknown_token_runs_nothing(self, agent: Agent) -> None:
        """It is a mistake of whoever set it up."""
        ending = await agent.run(self.block, call("a.txt"), GATEWAY_TOKEN="agw_agent1_wrong")
        assert ending.deleted == []
        assert ending.end != "done" or "was not run" in ending.told[0]


class BatchSuite(FrameworkSuite):
    """And the batches, where a framework shows the calls of one turn together."""

    async def test_a_batch_is_answered_call_by_call(self, agent: Agent) -> None:
        """Three requests of one group, each with an answer of its own."""
        calls = [call(path, number) for number, path in enumerate(("a.txt", "b.txt", "c.txt"))]
        running = asyncio.create_task(agent.run(self.block, *calls))
        records = await agent.wait_for_requests(3)
        [group] = {one.request.group for one in records}
        assert group is not None
        for record, said in zip(records, _MIXED, strict=True):
            assert (await agent.gate.decided(record.id, **said)).status == 200
        _assert_mixed(await running)
        assert await agent.count_requests() == 3

    async def test_an_abort_withdraws_the_rest_of_its_batch(self, agent: Agent) -> None:
        """Not even what was approved before it runs."""
        calls = [call(path, number) for number, path in enumerate(("a.txt", "b.txt", "c.txt"))]
        running = asyncio.create_task(agent.run(self.block, *calls))
        first, second, _ = await agent.wait_for_requests(3)
        assert (await agent.gate.decided(first.id)).status == 200
        assert (await agent.gate.decided(second.id, "abort", abort="turn")).status == 200
        ending = await running
        assert ending.end.startswith(self.aborted.partition(":")[0])
        assert ending.deleted == []
        assert (await agent.gate.core.requests.page(Query())).items == ()


class ElsewhereSuite(FrameworkSuite):
    """And what goes on in another process."""

    async def test_a_killed_run_goes_on_in_another_process(self, agent: Agent) -> None:
        """The second process runs what was approved, as it was edited; a third runs nothing."""
        calls = [call(path, number) for number, path in enumerate(("a.txt", "b.txt", "c.txt"))]
        paused = await agent.run_and_kill(PAUSING, *calls)
        assert (paused.end, paused.told, paused.deleted) == ("waits", [], [])
        records = await agent.wait_for_requests(3)
        kept = agent.read_kept()
        [group] = {one.request.group for one in records}
        assert group is not None
        answers, last = (_MIXED, "d.txt") if self.edits else (_UNEDITED, "c.txt")
        for record, said in zip(records, answers, strict=True):
            assert (await agent.gate.decided(record.id, **said)).status == 200
        _assert_mixed(await agent.run(PAUSING, *calls), last)
        (agent.folder / "a.txt").touch()
        agent.keep(kept)
        again = await agent.run(PAUSING, *calls)
        assert again.deleted == [last]
        assert await agent.count_requests() == 3

    async def test_what_waits_stays_paused(self, agent: Agent) -> None:
        """With one answer of two, or without a gateway, nothing is taken and nobody asked again."""
        calls = [call("a.txt", 1), call("b.txt", 2)]
        await agent.run(PAUSING, *calls)
        first, second = await agent.wait_for_requests(2)
        assert (await agent.gate.decided(first.id)).status == 200
        nowhere = {"GATEWAY_URL": "http://127.0.0.1:9", "GATEWAY_CONNECT_TIMEOUT": "0.1"}
        still = await agent.run(PAUSING, *calls, **nowhere)
        assert (still.end, still.told, still.deleted) == ("waits", [], [])
        still = await agent.run(PAUSING, *calls)
        assert (still.end, still.told, still.deleted) == ("waits", [], [])
        assert (await agent.gate.decided(second.id, "deny", message="keep it")).status == 200
        ending = await agent.run(PAUSING, *calls)
        assert ending.deleted == ["a.txt"]
        assert any("keep it" in one for one in ending.told)
        assert await agent.count_requests() == 2

    async def test_an_abort_stops_a_paused_run(self, agent: Agent) -> None:
        """The rest of its batch is withdrawn, and it stays stopped."""
        calls = [call("a.txt", 1), call("b.txt", 2)]
        await agent.run(PAUSING, *calls)
        first, _ = await agent.wait_for_requests(2)
        assert (await agent.gate.decided(first.id, "abort", abort="turn")).status == 200
        for _ in range(2):
            ending = await agent.run(PAUSING, *calls)
            assert ending.end.startswith("Aborted")
            assert ending.deleted == []
        assert (await agent.gate.core.requests.page(Query())).items == ()


class PausingSuite(ElsewhereSuite, BatchSuite):
    """And both: the page's program waits, an example goes on in another process."""


class KeptStateSuite(ElsewhereSuite):
    """And where what a paused run is kept in can be written to."""

    def change(self, agent: Agent, old: str, new: str) -> None:
        """Write something else into what is kept of a run."""
        kept = agent.folder / "paused.json"
        content = kept.read_text()
        assert old in content
        kept.write_text(content.replace(old, new))

    async def test_what_was_kept_decides_nothing(self, agent: Agent) -> None:
        """State that names another file is another call, of which nobody was asked yet."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.wait_for_requests(1)
        assert (await agent.gate.decided(record.id)).status == 200
        self.change(agent, "a.txt", "b.txt")
        assert (await agent.run(PAUSING)).deleted == []
        [other] = await agent.wait_for_requests(1)
        assert other.request.arguments == {"path": "b.txt"}

    async def test_a_process_that_dies_in_the_tool_is_not_repeated(self, agent: Agent) -> None:
        """The next one tells the model that the call may have run, and runs nothing."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.wait_for_requests(1)
        assert (await agent.gate.decided(record.id)).status == 200
        assert await agent.run_and_kill_within_the_tool(PAUSING) == ["a.txt"]
        (agent.folder / "a.txt").touch()
        ending = await agent.run(PAUSING)
        assert (ending.end, ending.deleted) == ("done", [])
        assert "may have run already" in ending.told[0]


_MIXED: tuple[dict[str, Any], ...] = (
    {"action": "approve"},
    {"action": "deny", "message": "keep it"},
    {"action": "edit", "arguments": {"path": "d.txt"}},
)
_UNEDITED = (*_MIXED[:2], {"action": "approve"})


def _assert_mixed(ending: Ending, last: str = "d.txt") -> None:
    """Each call of the batch has its own answer, in whichever order the model is told."""
    assert (ending.end, ending.deleted) == ("done", ["a.txt", last])
    told = "\n".join(ending.told)
    assert "deleted a.txt" in told and f"deleted {last}" in told
    assert "delete_file was not run: denied by ann: keep it" in told
