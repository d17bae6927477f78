"""Google's ADK itself, with the plugin of the Agent Approval Protocol's published client."""

from __future__ import annotations

import pytest

from tests.hosts.protocol_suite import ProtocolSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestAdkPlugin(ProtocolSuite):
    """A plugin of the app."""

    program = """
import asyncio
from agentapprovalprotocol.adk import ApprovalPlugin
from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, FunctionCall, Part

class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for one in llm_request.contents for part in one.parts or ()]
        told = [part.function_response.response for part in parts if part.function_response]
        said = Part(function_call=FunctionCall(id="c1", name="remove", args={"path": "a"}))
        if told:
            said = Part(text=json.dumps(told))
        yield LlmResponse(content=Content(role="model", parts=[said]))

agent = Agent(name="cleaner", model=Scripted(model="scripted"), tools=[remove])
app = App(name="cleaner", root_agent=agent, plugins=[ApprovalPlugin(URL, TOKEN)])
events = asyncio.run(InMemoryRunner(app=app).run_debug("remove a", quiet=True))
print(events[-1].content.parts[0].text)
"""
