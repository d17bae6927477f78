"""The OpenAI Agents SDK itself, as it is published, with its own scripted model."""

from __future__ import annotations

import pytest

from tests.hosts.framework_suite import PAUSING, Agent, FrameworkSuite, PausingSuite, call

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestOpenAiAgents(PausingSuite):
    """Gated tools, within the run and paused."""

    name = "openai_agents"
    framework = "openai-agents 0.24.0"

    async def test_a_state_that_says_approved_runs_nothing(self, agent: Agent) -> None:
        """What was kept decides nothing: other arguments are asked anew."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.waiting(1)
        assert (await agent.gate.decided(record.id)).status == 200
        kept = agent.folder / "paused.json"
        kept.write_text(kept.read_text().replace("a.txt", "b.txt"))
        assert (await agent.run(PAUSING)).deleted == []
        [other] = await agent.waiting(1)
        assert other.request.arguments == {"path": "b.txt"}

    async def test_a_process_that_dies_in_the_tool_is_not_repeated(self, agent: Agent) -> None:
        """The next one tells the model that the call may have run, and runs nothing."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.waiting(1)
        assert (await agent.gate.decided(record.id)).status == 200
        assert await agent.run_and_kill_within_the_tool(PAUSING) == ["a.txt"]
        (agent.folder / "a.txt").touch()
        ending = await agent.run(PAUSING)
        assert (ending.end, ending.deleted) == ("done", [])
        assert "may have run already" in ending.told[0]

    async def test_an_edit_that_does_not_fit_is_refused_where_it_is_made(
        self, agent: Agent
    ) -> None:
        """The tool's own schema holds."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.waiting(1)
        wrong = await agent.gate.decided(record.id, "edit", arguments={"path": 7})
        assert wrong.status == 422


class TestGuardrail(FrameworkSuite):
    """The guardrail of a tool, which waits within the call."""

    name = "openai_agents"
    framework = "openai-agents 0.24.0"
    block = 2
    edits = False
    aborted = "UserError: Error running tool delete_file: denied by ann: stop"
