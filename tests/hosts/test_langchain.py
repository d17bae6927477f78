"""LangChain and LangGraph themselves, as they are published, with a chat model of theirs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.api.replica import Replica
from tests.hosts.conftest import Answer, environment, run
from tests.hosts.framework_suite import PAUSING, Agent, PausingSuite, call

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

GRAPH = """
import asyncio, json, os, sys, warnings
from typing import Any, TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from gateway.integrations.frameworks.langchain import Interrupts

class State(TypedDict, total=False):
    answers: list[Any]

def graph(*values, saver=True):
    def ask(state):
        return {"answers": [interrupt(value) for value in values]}
    made = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
    return made.compile(checkpointer=InMemorySaver() if saver else None)

THREAD = {"configurable": {"thread_id": "a thread/1"}}
def invoke(*values, **more):
    try:
        print(json.dumps(asyncio.run(Interrupts().invoke(graph(*values, **more), {}, THREAD))))
    except Exception as error:
        print(type(error).__name__, error)
"""
LETTER = """{
    "action_request": {"action": "pay", "args": {"amount": 5}}, "description": "rent",
    "config": {"allow_accept": True, "allow_edit": True, "allow_respond": True,
               "allow_ignore": True},
}"""


class TestLangChain(PausingSuite):
    """`HumanInTheLoopMiddleware`: batched within the run, per call when paused."""

    name = "langchain"
    framework = "langgraph 1.2.22"

    async def test_an_edit_that_does_not_fit_is_refused_where_it_is_made(
        self, agent: Agent
    ) -> None:
        """A wrong answer to one of several calls would let the others run twice."""
        await agent.run(PAUSING, call("a.txt", 1), call("b.txt", 2))
        first, second = await agent.wait_for_requests(2)
        wrong = await agent.gate.decided(first.id, "edit", arguments={"path": 7})
        assert wrong.status == 422
        right = await agent.gate.decided(first.id, "edit", arguments={"path": "c.txt"})
        assert right.status == 200
        assert (await agent.gate.decided(second.id, "deny")).status == 200
        assert (await agent.run(PAUSING)).deleted == ["c.txt"]

    async def test_a_run_that_dies_with_its_answers_runs_nothing_twice(self, agent: Agent) -> None:
        """LangGraph keeps the answers it was given, and would run the call again."""
        await agent.run(PAUSING, call("a.txt"))
        [record] = await agent.wait_for_requests(1)
        assert (await agent.gate.decided(record.id)).status == 200
        killed = await agent.run_and_kill_within_the_tool(PAUSING)
        assert killed == ["a.txt"]
        (agent.folder / "a.txt").touch()
        ending = await agent.run(PAUSING)
        assert ending.deleted == []
        assert "may have run" in ending.end + "".join(ending.told)
        assert (await agent.run(PAUSING)).deleted == []


class Graph:
    """Runs Python beside LangGraph."""

    def __init__(self, gate: Replica, installed: Path, folder: Path) -> None:
        self._gate, self._folder = gate, folder
        self._python = str(installed / "bin" / "python")

    async def run(self, code: str) -> str:
        """Return the last line that the code printed."""
        env = environment(self._gate, self._folder)
        code_, said = await run(self._python, "-c", GRAPH + code, env=env, cwd=self._folder)
        assert code_ == 0, said
        return said.strip().splitlines()[-1]


@pytest.fixture
def graph(gate: Replica, installed: Path, tmp_path: Path) -> Graph:
    """Return what runs code beside LangGraph."""
    return Graph(gate, installed, tmp_path)


async def test_plain_interrupts_are_answered_one_after_the_other(
    graph: Graph, answer: Answer
) -> None:
    """With true, with false whatever the words, and with what a person wrote."""
    asking = asyncio.create_task(graph.run("invoke('May I?', 'May I?', {'question': 'How much?'})"))
    first = await answer()
    await answer("deny", message="yes, of course not")
    await answer("respond", result={"amount": 3})
    assert json.loads(await asking) == {"answers": [True, False, {"amount": 3}]}
    assert first.request.arguments == {"value": "May I?"}
    assert first.request.session.startswith("a-thread/1") or first.request.session != "default"


async def test_an_agent_inbox_is_answered_in_its_words(graph: Graph, answer: Answer) -> None:
    """Several letters of one interrupt are one batch."""
    asking = asyncio.create_task(graph.run(f"invoke([{LETTER}], {LETTER})"))
    record = await answer("edit", arguments={"amount": 4})
    await answer("deny", message="no")
    assert json.loads(await asking) == {
        "answers": [
            [{"type": "edit", "args": {"action": "pay", "args": {"amount": 4}}}],
            [{"type": "response", "args": "pay was not run: denied by ann: no"}],
        ]
    }
    assert (record.request.tool, record.request.hint) == ("pay", "rent")


async def test_a_graph_that_cannot_go_on_is_not_begun(graph: Graph) -> None:
    """Without a checkpointer it could ask, and never go on."""
    said = await graph.run("invoke('May I?', saver=False)")
    assert said.startswith("InvalidRequest a graph without a checkpointer")
