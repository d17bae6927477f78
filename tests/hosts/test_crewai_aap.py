"""CrewAI itself, with the hooks of the Agent Approval Protocol's published client."""

from __future__ import annotations

import pytest

from tests.hosts.protocol_suite import ProtocolSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestCrewAiHooks(ProtocolSuite):
    """Hooks of every tool call."""

    program = """
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
from agentapprovalprotocol.crewai import ApprovalHooks
from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

class Scripted(BaseLLM):
    def supports_function_calling(self):
        return True

    def call(self, messages, tools=None, *more, **names):
        said = [one["content"] for one in messages if one.get("role") == "tool"]
        if said:
            return str(said[-1])
        function = {"name": "remove", "arguments": '{"path": "a"}'}
        return [{"id": "c1", "type": "function", "function": function}]

cleaner = Agent(role="cleaner", goal="Clean up", backstory="Tidy", llm=Scripted(model="scripted"),
                tools=[tool(remove)])
task = Task(description="Remove a", expected_output="What was removed", agent=cleaner)
with ApprovalHooks(URL, TOKEN):
    print(Crew(agents=[cleaner], tasks=[task]).kickoff())
"""
