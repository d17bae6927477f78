"""smolagents itself, as it is published, with a model by its own classes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.api.replica import Replica
from tests.hosts.conftest import Answer, environment, run
from tests.hosts.framework_suite import Agent, BatchSuite, Ending, call

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

NAMES = '''
import sys
from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from gateway.integrations.frameworks.smolagents import ask_people

@tool
def delete_file(path: str) -> str:
    """Delete a file.

    Args:
        path: Which.
    """
    print("RUNS", path)
    return "deleted " + path

agent = ask_people(ToolCallingAgent(tools=[delete_file], model=Model()))
agent.state["kept"] = "secret.txt"
print(agent.execute_tool_call("delete_file", {"path": sys.argv[1]}))
coder = ask_people(CodeAgent(tools=[delete_file], model=Model()))
coder.python_executor.send_tools(coder.tools)
coder.python_executor.state["final_answer"] = delete_file
print(coder.python_executor("final_answer('b.txt')").logs)
'''


class TestSmolagents(BatchSuite):
    """Tool calls."""

    name = "smolagents"
    framework = "smolagents 1.26.0"


@pytest.fixture
def agent(gate: Replica, installed: Path, tmp_path: Path) -> Agent:
    """Return an agent that writes code."""
    return Agent(gate, installed, tmp_path, "smolagents")


async def _run_and_answer(
    agent: Agent, answer: Answer, action: str, **more: Any
) -> tuple[Ending, str]:
    """Run one piece of code, and have Ann answer it; return how it ended, and what was shown."""
    running = asyncio.create_task(agent.run(1, call("a.txt")))
    record = await answer(action, **more)
    assert record.request.tool == "python_interpreter"
    return await running, record.request.arguments["code"]


async def test_code_runs_once_it_is_approved(agent: Agent, answer: Answer) -> None:
    """As it is shown; its last piece, which only answers, is not asked about."""
    ending, code = await _run_and_answer(agent, answer, "approve")
    assert code == "print(delete_file('a.txt'))"
    assert (ending.end, ending.deleted) == ("done", ["a.txt"])
    assert "deleted a.txt" in ending.told[0]
    assert await agent.count_requests() == 1


async def test_code_runs_as_it_was_edited(agent: Agent, answer: Answer) -> None:
    """The model's own code does not run."""
    edited = {"code": "print(delete_file('b.txt'))"}
    ending, _ = await _run_and_answer(agent, answer, "edit", arguments=edited)
    assert (ending.end, ending.deleted) == ("done", ["b.txt"])


async def test_code_that_is_denied_does_not_run(agent: Agent, answer: Answer) -> None:
    """The model observes the person's words."""
    ending, _ = await _run_and_answer(agent, answer, "deny", message="keep it")
    assert (ending.end, ending.deleted) == ("done", [])
    assert "python_interpreter was not run: denied by ann: keep it" in ending.told[0]


async def test_an_abort_interrupts_an_agent_that_writes_code(agent: Agent, answer: Answer) -> None:
    """Its model is not asked again."""
    ending, _ = await _run_and_answer(agent, answer, "abort", abort="turn")
    assert (ending.end, ending.told, ending.deleted) == ("AgentError: Agent interrupted.", [], [])


async def test_names_of_variables_are_shown_as_what_runs(
    gate: Replica, installed: Path, tmp_path: Path, answer: Answer
) -> None:
    """An edit cannot name one; and a final answer by a name that was taken is asked about."""
    (tmp_path / "names.py").write_text(NAMES)  # its decorator reads the source
    command = (str(installed / "bin" / "python"), "names.py", "kept")
    env = environment(gate, tmp_path)
    running = asyncio.create_task(run(*command, env=env, cwd=tmp_path))
    record = await answer("edit", arguments={"path": "kept"})
    assert record.request.arguments == {"path": "secret.txt"}
    assert (await answer("deny")).request.tool == "python_interpreter"
    code, said = await running
    assert code == 0, said
    assert "delete_file was not run: an argument is the name of a variable" in said
    assert "RUNS" not in said
