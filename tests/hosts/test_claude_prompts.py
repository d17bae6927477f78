"""What Claude's own permission prompt is answered: the tool of `--permission-prompt-tool`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.integrations.frameworks.claude_sdk import answer_permission_prompt
from tests.api.replica import AGENT_TOKEN, Replica
from tests.hosts.conftest import Answer

ASKED = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "toolu_01Xk9vTq4rN1"}
QUESTION = {
    "tool_name": "AskUserQuestion",
    "input": {"questions": [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]},
}


async def prompted(gate: Replica, asked: Any, answering: Any = None) -> Any:
    """Return the answer to a prompt, which somebody answers meanwhile."""
    transport = HttpTransport(gate.url, AGENT_TOKEN, "agent1")
    async with AsyncClient(transport, say=None, connect_timeout=30.0) as client:
        running = asyncio.create_task(answer_permission_prompt(client, asked, cwd="/srv"))
        if answering is not None:
            await answering
        return await running


async def test_each_answer_in_claudes_words(gate: Replica, answer: Answer) -> None:
    """An approval always has the whole input that runs."""
    told = await prompted(gate, ASKED, answer())
    assert told == {"behavior": "allow", "updatedInput": {"command": "ls"}}
    asked = {**ASKED, "tool_use_id": "toolu_01Xk9vTq4rN2"}
    told = await prompted(gate, asked, answer("edit", arguments={"command": "ls -l"}))
    assert told == {"behavior": "allow", "updatedInput": {"command": "ls -l"}}
    asked = {**ASKED, "tool_use_id": "toolu_01Xk9vTq4rN3"}
    told = await prompted(gate, asked, answer("deny", message="no"))
    assert told == {"behavior": "deny", "message": "denied by ann: no"}


async def test_an_abort_interrupts(gate: Replica, answer: Answer) -> None:
    """The turn stops."""
    told = await prompted(gate, ASKED, answer("abort", message="enough"))
    assert (told["behavior"], told["interrupt"]) == ("deny", True)


async def test_a_question_is_answered(gate: Replica, answer: Answer) -> None:
    """By the text of the question, as Claude wants it."""
    told = await prompted(gate, QUESTION, answer("answer", answers={"q1": "B"}))
    assert told["updatedInput"] == {**QUESTION["input"], "answers": {"Which?": "B"}}  # type: ignore[dict-item]


@pytest.mark.parametrize("wrong", [{}, {"tool_name": "Bash"}, {"tool_name": "a\nb", "input": {}}])
async def test_what_cannot_be_read_is_denied(gate: Replica, wrong: Any) -> None:
    """Nobody could see what it is."""
    told = await prompted(gate, wrong)
    assert told["behavior"] == "deny"
    assert "nobody was asked" in told["message"]


async def test_without_a_gateway_it_is_denied(gate: Replica) -> None:
    """And the model is told that nobody was asked."""
    transport = HttpTransport("http://127.0.0.1:9", AGENT_TOKEN, "agent1")
    async with AsyncClient(transport, say=None, connect_timeout=0.1) as client:
        told = await answer_permission_prompt(client, ASKED)
    assert told["behavior"] == "deny"
