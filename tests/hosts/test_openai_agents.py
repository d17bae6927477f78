"""The OpenAI Agents SDK itself, as it is published, with its own scripted model."""

from __future__ import annotations

import pytest

from tests.hosts.framework_suite import (
    PAUSING,
    Agent,
    FrameworkSuite,
    KeptStateSuite,
    PausingSuite,
    call,
)

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestOpenAiAgents(KeptStateSuite, PausingSuite):
    """Gated tools, within the run and paused."""

    name = "openai_agents"
    framework = "openai-agents 0.24.0"

    async def test_an_edit_that_does_not_fit_is_refused_where_it_is_made(
        self, agent: Agent
    ) -> None:
        """The tool's own schema holds."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.wait_for_requests(1)
        wrong = await agent.gate.decided(record.id, "edit", arguments={"path": 7})
        assert wrong.status == 422


class TestGuardrail(FrameworkSuite):
    """The guardrail of a tool, which waits within the call."""

    name = "openai_agents"
    framework = "openai-agents 0.24.0"
    block = 2
    edits = False
    aborted = "UserError: Error running tool delete_file: denied by ann: stop"
