"""Paused runs of Google's Agent Development Kit itself, as it is published."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.records import StoredRequest
from tests.api.replica import Replica
from tests.hosts.conftest import Answer, environment, finish, run
from tests.hosts.framework_suite import Agent
from tests.hosts.paused_suite import PausedSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

_PROGRAM = """
import asyncio
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai.types import Content, FunctionCall, FunctionResponse, Part
from gateway.errors import GatewayError
from gateway.integrations.frameworks.calls import PausedRun
from gateway.integrations.frameworks.google_adk import ToolConfirmations

WANTED = {"read": {}, "pay": {"amount": 5}}

class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for one in llm_request.contents for part in one.parts or ()]
        if told := [one.function_response.response for one in parts if one.function_response]:
            said = [Part(text=" ".join(str(one) for one in told))]
        else:
            said = [Part(function_call=FunctionCall(id=name, name=name, args=args))
                    for name, args in WANTED.items()]
        yield LlmResponse(content=Content(role="model", parts=said))

ran = []

def read() -> str:
    ran.append("read")
    return "was read"

def pay(amount: int) -> str:
    ran.append(amount)
    return f"paid {amount}"

people, asks = ToolConfirmations(), FunctionTool(pay, require_confirmation=True)

async def begin(tool):
    runner = InMemoryRunner(Agent(name="payer", model=Scripted(model="none"), tools=[read, tool]),
                            app_name="payer")
    session = await runner.session_service.create_session(app_name="payer", user_id="me")
    return runner, session, await people.begin(runner, "Go", session=session)

async def finish(tool):
    runner, session, events = await begin(tool)
    if isinstance(events, PausedRun):
        events = await people.resume(runner, events, timeout=100)
    print(ran, events[-1].content.parts[0].text)
    try:
        place = {"user_id": session.user_id, "session_id": session.id}
        await people.resume(runner, PausedRun([], place))
    except GatewayError as error:
        print(error)

async def confirm_without_people():
    del WANTED["read"]
    runner, _, paused = await begin(people.gate(pay))
    session = await runner.session_service.get_session(app_name="payer", **paused.state)
    [asked] = [one.id for event in session.events for one in event.get_function_calls()
               if one.name == "adk_request_confirmation"]
    said = FunctionResponse(id=asked, name="adk_request_confirmation", response={"confirmed": True})
    message = Content(role="user", parts=[Part(function_response=said)])
    try:
        async for event in runner.run_async(**paused.state, new_message=message):
            pass
    except GatewayError as error:
        print(ran, error)
"""


class TestToolConfirmations(PausedSuite):
    """Gated tools, in sessions that the kit keeps."""

    name = "google_adk"
    framework = "google-adk 2.13.0"

    def change(self, agent: Agent, old: str, new: str) -> None:
        """Write something else into the session."""
        with closing(sqlite3.connect(agent.folder / "paused.db")) as kept, kept:
            changed = kept.execute(
                "UPDATE events SET event_data = replace(event_data, ?, ?)"
                " WHERE instr(event_data, ?)",
                (old, new, old),
            )
            assert changed.rowcount


class Payer:
    """An agent that reads, and pays 5 once people let it."""

    def __init__(self, gate: Replica, installed: Path, folder: Path, answer: Answer) -> None:
        self._gate, self._python, self._folder = gate, str(installed / "bin" / "python"), folder
        self._answer = answer

    async def run(self, last: str) -> str:
        """Run the program with a last line, and return what it said."""
        code, said = await self._start(last)
        assert code == 0, said
        return said

    def _start(self, last: str) -> Coroutine[Any, Any, tuple[int, str]]:
        words = (self._python, "-W", "ignore", "-c", f"{_PROGRAM}\nasyncio.run({last})\n")
        env = environment(self._gate, self._folder)
        return run(*words, env=env, cwd=self._folder)

    async def answered(self, last: str, action: str, **more: Any) -> tuple[str, StoredRequest]:
        """Run it as `run` does, and have Ann answer what it asks."""
        said, record = await finish(self._start(last), self._answer(action, **more))
        return str(said), record


@pytest.fixture
def payer(gate: Replica, installed: Path, tmp_path: Path, answer: Answer) -> Payer:
    """Return the agent."""
    return Payer(gate, installed, tmp_path, answer)


async def test_a_session_that_says_confirmed_runs_nothing(payer: Payer) -> None:
    """A gated tool runs where this process holds an approval, and nowhere else."""
    said = await payer.run("confirm_without_people()")
    assert "[] pay was called without an approval" in said


async def test_a_tool_that_confirms_itself_can_be_gated_too(payer: Payer) -> None:
    """It runs as edited, beside a call that nobody is asked about; and it is over then."""
    said, record = await payer.answered(
        "finish(people.gate(asks))", "edit", arguments={"amount": 3}
    )
    assert record.request.tool == "pay"
    assert "['read', 3]" in said and "was read" in said and "paid 3" in said
    assert "this run has no pending confirmations" in said


@pytest.mark.parametrize(
    ("action", "ran", "told"),
    [("approve", "['read', 5]", "paid 5"), ("deny", "['read']", "This tool call is rejected.")],
)
async def test_a_confirmation_of_the_kits_own_is_answered(
    payer: Payer, action: str, ran: str, told: str
) -> None:
    """Where the tool is not gated people say yes or no, and the kit tells that in its words."""
    said, record = await payer.answered("finish(asks)", action)
    assert {one.value for one in record.request.allowed} == {"approve", "deny", "abort"}
    assert ran in said and told in said


async def test_an_edit_runs_no_tool_of_the_same_name(payer: Payer) -> None:
    """What is not gated runs as the model wanted it, so an edit is no confirmation for it."""
    said, _ = await payer.answered(
        "finish((people.gate(asks), asks)[1])", "edit", arguments={"amount": 3}
    )
    assert "['read']" in said and "This tool call is rejected." in said
