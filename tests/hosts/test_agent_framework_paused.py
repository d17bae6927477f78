"""Paused runs of Microsoft's agent-framework itself, as it is published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api.replica import Replica
from tests.hosts.conftest import Answer, environment, finish, run
from tests.hosts.framework_suite import PAUSING, Agent, call
from tests.hosts.paused_suite import PausedSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

_UNKNOWN = """
import asyncio
from agent_framework import Agent, AgentSession, Content
from gateway.errors import GatewayError
from gateway.integrations.frameworks.agent_framework import FunctionApprovals
from gateway.integrations.frameworks.calls import PausedRun

call = Content.from_function_call("call_1", "search", arguments={}, hosted=True)
asked = Content.from_function_approval_request("call_1", call)
state = {"session": AgentSession().to_dict(), "requests": [asked.to_dict()]}
people, ran = FunctionApprovals(), []

class Other:
    async def run(self, *given, **run):
        ran.append(given)

async def main():
    for work in (people.resume(None, PausedRun([], state)),
                 people.resume(None, PausedRun([], {**state, "requests": []})),
                 people.begin(Other(), "Go", session=AgentSession())):
        try:
            await work
        except GatewayError as error:
            print(error)
    assert not ran

asyncio.run(main())
"""

_BESIDE = """
import asyncio
from agent_framework import (
    Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message, tool,
)
from gateway.integrations.frameworks.agent_framework import FunctionApprovals
from gateway.integrations.frameworks.calls import PausedRun

class Scripted(FunctionInvocationLayer, BaseChatClient):
    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        parts = [part for one in messages for part in one.contents]
        told = [str(one.result) for one in parts if one.type == "function_result"]
        if told:
            return ChatResponse(messages=[Message("assistant", [" ".join(told)])])
        calls = [Content.from_function_call(name, name, arguments={}) for name in ("read", "pay")]
        return ChatResponse(messages=[Message("assistant", calls)])

ran = []

@tool(approval_mode="never_require")
def read() -> str:
    ran.append("read")
    return "was read"

@tool(approval_mode="always_require")
def pay() -> str:
    ran.append("pay")
    return "was paid"

async def main():
    people, agent = FunctionApprovals(), Agent(client=Scripted(), tools=[read, pay])
    response = await people.begin(agent, "Go")
    if isinstance(response, PausedRun):
        response = await people.resume(agent, response, timeout=100)
    print(response.text, sorted(ran))

asyncio.run(main())
"""


class TestFunctionApprovals(PausedSuite):
    """Tools that always require an approval."""

    name = "agent_framework"
    framework = "agent-framework-core 1.23.0"
    edits = False

    async def test_a_session_that_holds_another_call_runs_nothing(self, agent: Agent) -> None:
        """What the framework kept of the call is not what people were asked about."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.wait_for_requests(1)
        assert (await agent.gate.decided(record.id)).status == 200
        kept = agent.folder / "paused.json"
        paused = json.loads(kept.read_text())
        session = json.dumps(paused["state"]["session"])
        assert "a.txt" in session
        paused["state"]["session"] = json.loads(session.replace("a.txt", "b.txt"))
        kept.write_text(json.dumps(paused))
        ending = await agent.run(PAUSING)
        assert ending.end == "MiddlewareFailure: delete_file was called without an approval"
        assert (ending.told, ending.deleted) == ([], [])

    async def test_a_session_that_says_approved_runs_nothing(self, agent: Agent) -> None:
        """Of a call beside the one that people approved the session says that it needs none."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.wait_for_requests(1)
        assert (await agent.gate.decided(record.id)).status == 200
        kept = agent.folder / "paused.json"
        paused = json.loads(kept.read_text())
        [asked] = paused["state"]["requests"]
        text = json.dumps(asked).replace("a.txt", "b.txt").replace("call_1", "call_2")
        forged = json.loads(text.replace(asked["id"], "forged"))
        approvals = paused["state"]["session"]["state"]["tool_approval"]
        approvals["already_approved_approval_request_groups"] = [
            {"approval_request_ids": [asked["id"]], "approval_requests": [forged]}
        ]
        kept.write_text(json.dumps(paused))
        ending = await agent.run(PAUSING)
        assert "b.txt" not in ending.deleted
        assert ending.end == "MiddlewareFailure: delete_file was called without an approval"


async def test_what_is_not_known_here_is_not_asked_about(
    gate: Replica, installed: Path, tmp_path: Path
) -> None:
    """A call that a provider would run, nothing at all, and an agent that could leave out our
    middleware."""
    words = (str(installed / "bin" / "python"), "-c", _UNKNOWN)
    code, said = await run(*words, env=environment(gate, tmp_path), cwd=tmp_path)
    assert code == 0, said
    assert said.splitlines() == [
        "people cannot decide a function_approval_request of this run: answer it yourself",
        "this run has no pending approvals",
        "Other is not an Agent of agent-framework",
    ]


async def test_a_call_beside_that_needs_no_approval_runs_once(
    gate: Replica, installed: Path, tmp_path: Path, answer: Answer
) -> None:
    """Nobody is asked about it, and a run waits for people where it is told how long."""
    words = (str(installed / "bin" / "python"), "-c", _BESIDE)
    env = environment(gate, tmp_path)
    said, record = await finish(run(*words, env=env, cwd=tmp_path), answer())
    assert record.request.tool == "pay"
    assert "was read" in said and "was paid" in said
    assert said.strip().endswith("['pay', 'read']")
