"""CrewAI itself, as it is published, with a model by its own classes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.domain.records import Query
from tests.api.replica import Replica
from tests.hosts.conftest import Answer, environment, run
from tests.hosts.framework_suite import BatchSuite
from tests.waiting import moment

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

TWICE = '''
import os
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool
from gateway.integrations.frameworks.crewai import ask_people

class Model(BaseLLM):
    def supports_function_calling(self):
        return True
    def call(self, messages, *args, **kwargs):
        if messages[-1]["role"] == "tool":
            return "told " + str([one["content"] for one in messages if one["role"] == "tool"])
        call = {"name": "pay", "arguments": '{"amount": 5}'}
        return [{"id": one, "type": "function", "function": call} for one in ("c1", "c2")]

%s
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"

ask_people()
payer = Agent(role="payer", goal="Pay", backstory="Rich", llm=Model(model="m"), tools=[pay])
task = Task(description="Pay twice", expected_output="What was paid", agent=payer)
crew = Crew(agents=[payer], tasks=[task])
for _ in range(2):
    try:
        print("ended:", crew.kickoff())
    except Exception as error:
        print("ended:", type(error).__name__, error)
'''
SIDE_BY_SIDE, IN_TURNS = "@tool", "@tool(max_usage_count=5)"


class TestCrewAi(BatchSuite):
    """Hooks of every tool call, and of the model."""

    name = "crewai"
    framework = "crewai 1.15.30"
    aborted = "HookAborted: denied by ann: stop"


async def _run_twice(
    gate: Replica, installed: Path, folder: Path, how: str
) -> asyncio.Task[tuple[int, str]]:
    (folder / "twice.py").write_text(TWICE % how)
    command = (str(installed / "bin" / "python"), "twice.py")
    return asyncio.create_task(run(*command, env=environment(gate, folder), cwd=folder))


async def test_a_crew_that_was_stopped_runs_again(
    gate: Replica, installed: Path, tmp_path: Path, answer: Answer
) -> None:
    """One abort of two calls ends one run, not the next one too."""
    running = await _run_twice(gate, installed, tmp_path, SIDE_BY_SIDE)
    stopped = await answer("abort", abort="turn")
    while any(
        one.request.group == stopped.request.group
        for one in (await gate.core.requests.page(Query())).items
    ):
        await moment()
    groups = {(await answer()).request.group for _ in range(2)}
    assert len(groups) == 1 and None not in groups
    ended = [one for one in (await running)[1].splitlines() if one.startswith("ended:")]
    assert ended == ["ended: HookAborted denied by ann (the turn must stop)",
                     "ended: told ['paid 5', 'paid 5']"]  # fmt: skip


async def test_calls_that_crewai_makes_in_turns_are_asked_in_turns(
    gate: Replica, installed: Path, tmp_path: Path, answer: Answer
) -> None:
    """Where a tool has a limit of uses it starts none before the one before it has ended."""
    running = await _run_twice(gate, installed, tmp_path, IN_TURNS)
    groups = [(await answer()).request.group for _ in range(4)]
    assert groups == [None] * 4
    _, said = await running
    assert said.count("ended: told ['paid 5', 'paid 5']") == 2, said
