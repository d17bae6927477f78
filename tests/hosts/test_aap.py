"""The Agent Approval Protocol's own Python client and adapters, as they are published."""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.approval_protocol.webhooks import ProtocolReceivers
from gateway.domain.policy_document import Mode
from gateway.domain.records import Query
from gateway.domain.time_and_tasks import SystemClock, cancel_and_wait
from gateway.server.app import notices_of
from gateway.stores.credentials import RedisCredentials
from tests.api.replica import POLICY, Replica, made, replica
from tests.hosts.conftest import Answer, environment, run
from tests.hosts.protocol_suite import ProtocolSuite, Start, starter
from tests.waiting import moment

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

GATE = """
from agentapprovalprotocol import Call, Client, Gate
gate = Gate(Client(URL, TOKEN), timeout=os.environ.get("TIMEOUT", "5m"))
with gate.guard(Call(key="run:1", tool="remove", arguments={"path": "a"}, reasoning="It is old.",
                     context={"session_id": "s1", "n": 1.5})) as verdict:
    print(remove("a") if verdict else verdict.reason, flush=True)
"""

AGAIN = """
again = gate.check(Call(key="run:1", tool="remove", arguments={"path": "a"}, reasoning="It is old.",
                        context={"session_id": "s1", "n": 1.5}))
print("again:", bool(again), again.reason)
"""

FAKE_MODEL = """
from agentapprovalprotocol.langgraph import ApprovalMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

class Fake(GenericFakeChatModel):
    def bind_tools(self, tools, **more):
        return self

call = {"name": "remove", "args": {"path": "a"}, "id": "c1"}
model = Fake(messages=iter([AIMessage("It is old.", tool_calls=[call]), AIMessage("done")]))
"""

RUN = """
told = agent.invoke({"messages": [("user", "remove a")]})["messages"]
print(json.dumps([one.content for one in told]))
"""

LANGGRAPH = f"""{FAKE_MODEL}
from langchain.agents import create_agent
agent = create_agent(model, tools=[remove], middleware=[ApprovalMiddleware(URL, TOKEN)])
{RUN}"""

DEEP_AGENTS = f"""{FAKE_MODEL}
from deepagents import create_deep_agent
agent = create_deep_agent(model, tools=[remove], middleware=[ApprovalMiddleware(URL, TOKEN)])
{RUN}"""

PYDANTIC = """
from agentapprovalprotocol.pydantic_ai import ApprovalCapability
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

def say(messages, info):
    if len(messages) == 1:
        return ModelResponse([ToolCallPart("remove", {"path": "a"}, "c1")])
    return ModelResponse([TextPart(repr([part.content for part in messages[-1].parts]))])

approvals = ApprovalCapability(URL, TOKEN)
agent = Agent(FunctionModel(say), tools=[remove], capabilities=[approvals])
print(agent.run_sync("remove a").output)
"""

OPENAI = """
import asyncio
from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from agentapprovalprotocol.openai_agents import Approvals
from openai.types.responses import (
    ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText,
)
set_tracing_disabled(True)

class Scripted(Model):
    async def get_response(self, system_instructions, input, *more, **names):
        said = [one for one in input if isinstance(one, dict)
                and one.get("type") == "function_call_output"]
        if said:
            text = ResponseOutputText(text=str(said[-1]["output"]), type="output_text",
                                      annotations=[])
            output = [ResponseOutputMessage(id="m", content=[text], role="assistant",
                                            status="completed", type="message")]
        else:
            output = [ResponseFunctionToolCall(arguments='{"path": "a"}', call_id="c1",
                                               name="remove", type="function_call")]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(self, *more, **names):
        raise NotImplementedError
        yield

approvals = Approvals(URL, TOKEN)
agent = approvals.protect(Agent(name="a", model=Scripted(), tools=[function_tool(remove)]))
print(asyncio.run(Runner.run(agent, "remove a")).final_output)
"""

WOKEN = (
    f"""{FAKE_MODEL}
import asyncio
from agentapprovalprotocol.langgraph import resumer
from agentapprovalprotocol.receiver import Receiver
from langchain.agents import create_agent
from langgraph.checkpoint.memory import MemorySaver
"""
    + """
async def main():
    port, receiver, came = int(os.environ["PORT"]), Receiver(resumers={}), []

    async def serve(reader, writer):
        lines = (await reader.readuntil(b"\\r\\n\\r\\n")).decode().split("\\r\\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        sizes = {name.lower(): value for name, value in headers.items()}
        body = await reader.readexactly(int(sizes["content-length"]))
        came.append((headers, body))
        status, said = await receiver.handle(headers, body)
        head = f"HTTP/1.1 {status} X\\r\\nContent-Length: {len(said)}\\r\\nConnection: close"
        writer.write(head.encode() + b"\\r\\n\\r\\n" + said)
        await writer.drain()
        writer.close()

    await asyncio.start_server(serve, "127.0.0.1", port)
    made = await receiver.provision(provider_url=URL, provisioner_token=TOKEN,
                                    url=f"http://localhost:{port}/events", instance_name="run")
    agent = create_agent(model, tools=[remove], checkpointer=MemorySaver(),
                         middleware=[ApprovalMiddleware(URL, made.token, mode="async")])
    receiver.resumers["langgraph"] = resumer(agent)
    thread = {"configurable": {"thread_id": "t1"}}
    await agent.ainvoke({"messages": [("user", "remove a")]}, thread)
    print("paused", ran, len((await agent.aget_state(thread)).interrupts), flush=True)
    while (state := await agent.aget_state(thread)).next:
        await asyncio.sleep(0.02)
    print(json.dumps([one.content for one in state.values["messages"]]))
    status, _ = await receiver.handle(*came[-1])
    await asyncio.gather(*receiver._tasks)
    print("again", status, len(came))

asyncio.run(main())
"""
)


@pytest.fixture
def start(gate: Replica, installed: Path, tmp_path: Path) -> Start:
    """Return what starts a program of the client's in its own environment."""
    return starter(gate, installed, tmp_path)


@pytest.mark.parametrize(("action", "ran"), [("approve", 'ran ["a"]'), ("deny", "ran []")])
async def test_a_paused_run_is_woken_by_our_webhook(
    start: Start, server_url: str, namespace: str, action: str, ran: str
) -> None:
    """The published receiver is provisioned and verified; the decision wakes the run, which runs
    its tool once, or reads that it was denied; the same notice again wakes nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    receivers = ProtocolReceivers(
        SystemClock(), hosts=(f"localhost:{port}",), production=False, resolve=_at_home
    )
    async with replica(server_url, namespace, registered=True, receivers=receivers) as one:
        credentials = RedisCredentials(one.store, SystemClock())
        admin = await credentials.add_approver("ops", admin=True)
        ann = await credentials.add_approver("ann")
        telling = asyncio.create_task(notices_of(one.core, one.store, receivers).run())
        program = start(WOKEN, GATEWAY_URL=one.url, GATEWAY_TOKEN=admin.token, PORT=str(port))
        while not (waiting := (await one.core.requests.page(Query())).items):
            assert not program.done(), program.result()
            await moment()
        body = {"revision": 1, "action": action}
        path = f"/v1/requests/{waiting[0].id}/decide"
        assert (await one.call("POST", path, body, token=ann.token)).status == 200
        code, said = await program
        await cancel_and_wait(telling)
    assert code == 0, said
    assert ran in said
    assert "paused [] 1" in said
    assert "again 204 2" in said, "one verification, one notice"


async def _at_home(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


class TestGate(ProtocolSuite):
    """The client's own gate, without a framework."""

    program = GATE

    async def test_an_approval_is_spent(self, start: Start, answer: Answer) -> None:
        """The same call asked about again is told that it was attempted."""
        program = start(GATE + AGAIN)
        await answer()
        code, said = await program
        assert code == 0, said
        assert "again: False This approved call was already attempted" in said


class TestLangGraph(ProtocolSuite):
    """Its middleware, in an agent of LangChain."""

    program = LANGGRAPH


class TestDeepAgents(ProtocolSuite):
    """The same middleware, in a deep agent."""

    program = DEEP_AGENTS


class TestPydanticAiAdapter(ProtocolSuite):
    """Its capability."""

    program = PYDANTIC


class TestOpenAiAgentsAdapter(ProtocolSuite):
    """An agent whose tools it protects."""

    program = OPENAI


async def test_an_expired_and_a_refused_call_do_not_run(start: Start, gate: Replica) -> None:
    """Nobody answered; nobody may ask."""
    code, said = await start(GATE, TIMEOUT="1s")
    assert (code, "ran []" in said) == (0, True), said
    assert "expired" in said or "not obtained in time" in said
    code, said = await start(GATE, GATEWAY_TOKEN="agw_agent1_wrong")
    assert (code, "ran []" in said) == (0, True), said
    assert "refused this agent's credential" in said


async def test_the_client_takes_what_a_rule_decides(start: Start, gate: Replica) -> None:
    """It refuses a decision that is dated before its request; each time is another try."""
    allows = replace(POLICY.routes[0], mode=Mode.AUTO_APPROVE)
    await gate.store.apply(replace(POLICY, generation=1, routes=(allows,)), by="test")
    for number in range(3):
        code, said = await start(GATE.replace("run:1", f"run:{number}"))
        assert (code, 'ran ["a"]' in said) == (0, True), said


async def test_a_paused_run_goes_on_in_another_process(
    start: Start, gate: Replica, answer: Answer
) -> None:
    """The first process leaves without an answer; the second finds the same request, and nobody is
    asked twice."""
    paused = """
from agentapprovalprotocol import Call, Client, Gate
gate = Gate(Client(URL, TOKEN), mode="async")
with gate.guard(Call(key="run:1", tool="remove", arguments={"path": "a"})) as verdict:
    print(type(verdict).__name__)
    if verdict:
        remove("a")
"""
    code, said = await start(paused)
    assert (code, said) == (0, "Pending\nran []\n")
    record = await answer()
    code, said = await start(paused)
    assert (code, said) == (0, 'Allow\nran ["a"]\n')
    kept = await gate.store.load(record.id)
    assert kept is not None and len(kept.consumers) == 1
    assert await gate.store.count_pending() == 0


CHECKS = """
import json, sys
from aais.core import ApprovalStore, validate

store = ApprovalStore()
for line in open(sys.argv[1]):
    envelope = validate(json.loads(line))
    if envelope["type"] == "approval.requested":
        store.add(envelope)
print("valid", len(store.pending))
"""


async def test_the_exports_are_read_by_the_packages_of_their_forms(
    start: Start, gate: Replica, answer: Answer, installed: Path, server_url: str, tmp_path: Path
) -> None:
    """`agent-approval-interchange` validates every envelope, and `agentack check` passes the trace
    of a run whose calls were approved, denied and run, without any mapping by hand; beside them
    stand requests of our own API that were edited and withdrawn."""
    for action, ran in (("approve", '["a"]'), ("deny", "[]")):
        program = start(GATE.replace("run:1", f"run:{action}"))
        await answer(action)
        code, said = await program
        assert code == 0 and f"ran {ran}" in said, said
    edited, gone = made(allowed=["approve", "edit", "deny"]), made()
    await gate.submitted(edited)
    assert (await gate.decided(edited.id, "edit", arguments={"command": "ls -l"})).status == 200
    report = {"report": {"execution": "succeeded"}}
    told = await gate.call("POST", f"/v1/requests/{edited.id}/report", report)
    assert told.status == 200, told.text
    await gate.submitted(gone)
    assert (await gate.call("POST", f"/v1/requests/{gone.id}/cancel", {})).status == 200
    bin_, env = installed / "bin", environment(gate, tmp_path)
    ours = {"REDIS_URL": server_url, "GATEWAY_NAMESPACE": gate.store.keys.namespace}
    for form in ("interchange", "trace"):
        export = ("-m", "gateway.cli", "audit", "export", "--form", form, str(tmp_path / form))
        code, said = await run(sys.executable, *export, env={**env, **ours}, cwd=tmp_path)
        assert code == 0, said
    words = (str(bin_ / "python"), "-c", CHECKS, str(tmp_path / "interchange"))
    assert await run(*words, env=env, cwd=tmp_path) == (0, "valid 5\n"), "an edit is two actions"
    check = (str(bin_ / "agentack"), "check")
    code, said = await run(*check, str(tmp_path / "trace"), env=env, cwd=tmp_path)
    assert (code, "PASS" in said) == (0, True), said
    tampered = (tmp_path / "trace").read_text().replace('"path": "a"', '"path": "b"', 1)
    (tmp_path / "tampered").write_text(tampered)
    code, said = await run(*check, str(tmp_path / "tampered"), env=env, cwd=tmp_path)
    assert code == 1, "what was proposed and what was presented differ: it must be noticed"
