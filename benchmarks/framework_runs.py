"""Times runs of one agent framework with a gated call, in turns with the same run ungated.

`python framework_runs.py FRAMEWORK COUNT` prints both lists of ns as JSON. The interpreter in which
the framework is installed runs it, so it imports nothing of the benchmark but the script beside it.
Each run begins with a model that wants one call of `shell`, and ends once it was told the result. A
rule answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from hook_calls import COMMAND, Calls, time_calls

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
_LOOP = asyncio.new_event_loop()


def shell(command: str) -> str:
    """Run a command.

    Args:
        command: Which.
    """
    return "ran"


def pydantic_ai() -> Calls:
    """Return runs of Pydantic AI, the second with deferred tools."""
    from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from gateway.integrations.frameworks.pydantic_ai import DeferredTools

    def say(messages: list[Any], info: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("shell", {"command": COMMAND})])

    def agent(gated: bool) -> Callable[[], Any]:
        capabilities = [DeferredTools().inline()] if gated else []
        made = Agent(FunctionModel(say), capabilities=capabilities)
        made.tool_plain(requires_approval=gated)(shell)
        return lambda: made.run_sync("run it")

    return agent(gated=False), agent(gated=True)


def langchain() -> Calls:
    """Return runs of LangChain, the second with its middleware that interrupts."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.checkpoint.memory import InMemorySaver

    from gateway.integrations.frameworks.langchain import Interrupts

    class Scripted(BaseChatModel):  # type: ignore[misc]  # its types are the framework's
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:
            return self

        def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatResult:
            said = AIMessage("done")
            if messages[-1].type != "tool":
                call = {"id": uuid4().hex, "name": "shell", "args": {"command": COMMAND}}
                said = AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=said)])

    def run(gated: bool) -> Any:
        asking = [HumanInTheLoopMiddleware({"shell": True})] if gated else []
        agent = create_agent(
            Scripted(), tools=[shell], middleware=asking, checkpointer=InMemorySaver()
        )
        thread = {"configurable": {"thread_id": uuid4().hex}}
        asked = {"messages": "run it"}
        if gated:
            return _LOOP.run_until_complete(Interrupts().invoke(agent, asked, thread))
        return _LOOP.run_until_complete(agent.ainvoke(asked, thread))

    return lambda: run(gated=False), lambda: run(gated=True)


def openai_agents() -> Calls:
    """Return runs of the OpenAI Agents SDK, the second with a gated tool."""
    from agents import Agent, Runner, function_tool, set_tracing_disabled
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

    from gateway.integrations.frameworks.openai_agents import RunStates

    set_tracing_disabled(True)
    people, tool = RunStates(), function_tool(shell)
    gated = people.gate(tool)

    def agent(one: Any) -> Any:
        call = function_call("shell", {"command": COMMAND}, call_id=uuid4().hex)
        steps = [ModelStep(output=[call]), ModelStep(output=[assistant_message("done")])]
        return Agent(name="timed", model=ScriptedModel(steps), tools=[one])

    return (
        lambda: _LOOP.run_until_complete(Runner.run(agent(tool), "run it")),
        lambda: _LOOP.run_until_complete(people.run(agent(gated), "run it")),
    )


def crewai() -> Calls:
    """Return runs of a crew, the second with our hooks."""
    from crewai import Agent, BaseLLM, Crew, Task
    from crewai.tools import tool

    from gateway.integrations.frameworks.crewai import ask_people

    class Scripted(BaseLLM):  # type: ignore[misc]  # its types are the framework's
        def supports_function_calling(self) -> bool:
            return True

        def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            if any(one["role"] == "tool" for one in messages):
                return "done"
            call = {"name": "shell", "arguments": json.dumps({"command": COMMAND})}
            return [{"id": uuid4().hex, "type": "function", "function": call}]

    def run() -> Any:
        own = [tool(shell)]
        agent = Agent(
            role="timed", goal="Run", backstory="-", llm=Scripted(model="scripted"), tools=own
        )
        task = Task(description="run it", expected_output="-", agent=agent)
        return Crew(agents=[agent], tasks=[task]).kickoff()

    def run_gated() -> Any:
        stop = ask_people()
        try:
            return run()
        finally:
            stop()

    return run, run_gated


def ag2() -> Calls:
    """Return turns of AG2, the second with our middleware of its tool."""
    from ag2 import Agent, tool
    from ag2.config import LLMClient
    from ag2.events import (
        ModelMessage,
        ModelResponse,
        ToolCallEvent,
        ToolCallsEvent,
        ToolResultsEvent,
    )
    from ag2.testing import TestConfig

    from gateway.integrations.frameworks.ag2 import ask_people

    class Scripted(LLMClient):  # type: ignore[misc]  # its types are the framework's
        async def __call__(self, messages: Any, context: Any, **kwargs: Any) -> Any:
            if any(isinstance(one, ToolResultsEvent) for one in messages):
                message = ModelMessage("done")
                await context.send(message)
                return ModelResponse(message)
            said = json.dumps({"command": COMMAND})
            call = ToolCallEvent("shell", id=uuid4().hex, arguments=said)
            return ModelResponse(tool_calls=ToolCallsEvent([call]))

    class Config(TestConfig):  # type: ignore[misc]  # its types are the framework's
        def create(self) -> Scripted:
            return Scripted()

    def agent(*middleware: Any) -> Callable[[], Any]:
        made = Agent("timed", config=Config(), tools=[tool(shell, middleware=middleware)])
        return lambda: _LOOP.run_until_complete(made.ask("run it"))

    return agent(), agent(ask_people())


def agent_framework() -> Calls:
    """Return runs of Microsoft's agent-framework, the second with our middleware."""
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatResponse,
        Content,
        FunctionInvocationLayer,
        Message,
        tool,
    )

    from gateway.integrations.frameworks.agent_framework import ask_people

    class Scripted(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]
        async def _inner_get_response(self, *, messages: Any, **kwargs: Any) -> ChatResponse:
            parts = [part for message in messages for part in message.contents]
            if any(part.type == "function_result" for part in parts):
                return ChatResponse(messages=[Message("assistant", ["done"])])
            given = {"command": COMMAND}
            call = Content.from_function_call(uuid4().hex, "shell", arguments=given)
            return ChatResponse(messages=[Message("assistant", [call])])

    own = tool(approval_mode="never_require")(shell)

    def agent(*middleware: Any) -> Callable[[], Any]:
        made = Agent(client=Scripted(), tools=[own], middleware=list(middleware))
        return lambda: _LOOP.run_until_complete(made.run("run it"))

    return agent(), agent(ask_people())


def smolagents() -> Calls:
    """Return runs of smolagents, the second of an agent that is wrapped."""
    from smolagents import ChatMessage, LogLevel, MessageRole, Model, ToolCallingAgent, tool
    from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

    from gateway.integrations.frameworks.smolagents import ask_people

    class Scripted(Model):  # type: ignore[misc]  # its types are the framework's
        def generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatMessage:
            roles = [str(one.role) for one in messages]
            if any("tool-response" in one or "TOOL_RESPONSE" in one for one in roles):
                call = ChatMessageToolCallFunction({"answer": "done"}, "final_answer")
            else:
                call = ChatMessageToolCallFunction({"command": COMMAND}, "shell")
            calls = [ChatMessageToolCall(call, uuid4().hex, "function")]
            return ChatMessage(MessageRole.ASSISTANT, "", calls)

    def agent() -> Any:
        return ToolCallingAgent(tools=[tool(shell)], model=Scripted(), verbosity_level=LogLevel.OFF)

    plain, gated = agent(), ask_people(agent())
    return lambda: plain.run("run it"), lambda: gated.run("run it")


def google_adk() -> Calls:
    """Return runs of Google's kit, the second with our callback."""
    from google.adk.agents import Agent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, FunctionCall, Part

    from gateway.integrations.frameworks.google_adk import ask_people

    class Scripted(BaseLlm):  # type: ignore[misc]  # its types are the framework's
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            parts = [part for one in llm_request.contents for part in one.parts or ()]
            said = Part(text="done")
            if not any(part.function_response for part in parts):
                given = {"command": COMMAND}
                said = Part(function_call=FunctionCall(id=uuid4().hex, name="shell", args=given))
            yield LlmResponse(content=Content(role="model", parts=[said]))

    def run(callback: Any = None) -> Any:
        model = Scripted(model="scripted")
        agent = Agent(name="timed", model=model, tools=[shell], before_tool_callback=callback)
        return _LOOP.run_until_complete(InMemoryRunner(agent).run_debug("run it", quiet=True))

    asking = ask_people()
    return run, lambda: run(asking)


_FRAMEWORKS: dict[str, Callable[[], Calls]] = {
    "pydantic-ai": pydantic_ai,
    "langchain": langchain,
    "openai-agents": openai_agents,
    "crewai": crewai,
    "ag2": ag2,
    "agent-framework": agent_framework,
    "smolagents": smolagents,
    "google-adk": google_adk,
}


def main(name: str, count: int) -> None:
    """Time a framework's runs; each gated one must have asked."""
    from gateway.client import Client, use_client

    told: list[str] = []
    client = Client.from_env(on_event=lambda event, *_: told.append(event))
    with use_client(client, everywhere=True):
        ungated, gated = _FRAMEWORKS[name]()
        runs = time_calls((ungated, gated), count)
    if (asked := told.count("decided")) != runs:
        sys.exit(f"{name} asked {asked} times in {runs} runs")


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # CrewAI and the kit have some for each run
    main(sys.argv[1], int(sys.argv[2]))
