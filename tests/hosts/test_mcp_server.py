"""The MCP server that asks: the SDK's client in both eras, the real tools, and a real gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams

from gateway.client import AsyncClient
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import StoredRequest
from gateway.integrations.mcp.server import AskTools
from gateway.models import Kind, Reason, Status
from tests.api.replica import AGENT, AGENT_TOKEN, OTHER_TOKEN, Replica
from tests.hosts.test_mcp import ERAS
from tests.waiting import moment


@asynccontextmanager
async def client_of(
    gate: Replica, mode: str = "auto", *, url: str | None = None, **options: Any
) -> AsyncIterator[Client]:
    """Yield a client of the server; `url` is of another gateway than its own."""
    transport = HttpTransport(url or gate.url, AGENT_TOKEN, AGENT)
    patience = 0.05 if url else 30.0
    async with AsyncClient(transport, connect_timeout=patience, say=None) as agent:

        async def connect() -> AsyncClient:
            return agent

        @asynccontextmanager
        async def served() -> AsyncIterator[Any]:
            tools = AskTools(connect, **{"progress_seconds": 0.05, **options})
            streams = create_client_server_memory_streams()
            async with streams as (ours, its), anyio.create_task_group() as tasks:
                tasks.start_soon(tools.serve, its)
                yield ours
                await ours[1].aclose()

        own = types.Implementation(name="tester", version="3")
        async with Client(served(), mode=mode, client_info=own) as client:
            yield client


async def asked(gate: Replica) -> StoredRequest:
    """Return what waits, once something does."""
    async with asyncio.timeout(30):
        items = await gate.waiting()
    return items[0]


async def answer(gate: Replica, action: str = "approve", **more: Any) -> StoredRequest:
    """Answer what waits as Ann."""
    record = await asked(gate)
    done = await gate.decided(record.id, action, **more)
    assert done.status == 200, done.text
    return record


def told(result: Any) -> dict[str, Any]:
    """Return what the model reads of a structured result."""
    assert not result.is_error, result
    assert isinstance(result.structured_content, dict)
    return result.structured_content


@pytest.mark.parametrize("mode", ERAS)
async def test_a_model_asks_and_hears_what_was_approved(gate: Replica, mode: str) -> None:
    """It gets the edited action, and a note of progress while it waits. The tool says itself that
    it locks nothing."""
    notes = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        notes.append(message)

    async with client_of(gate, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        said = " ".join(str(tools["request_approval"].description).split())
        assert "Without an approval, do not act; nothing else prevents the action" in said
        arguments = {"action": "deploy", "details": {"to": "live"}, "reason": "it is Friday"}
        asking = asyncio.create_task(
            client.call_tool("request_approval", arguments, progress_callback=note)
        )
        while not notes:
            await moment()
        edited = {"action": "deploy", "details": {"to": "test"}}
        record = await answer(gate, "edit", arguments=edited)
        assert (await asking).structured_content == {
            "status": "edited", "id": record.id, "message": "approved by ann", **edited,
        }  # fmt: skip
        request = record.request
        assert request.tool == "mcp__gateway__request_approval"
        assert (request.origin.framework, request.origin.channel) == ("mcp-server", "tester 3")
        assert (request.hint, request.arguments) == (
            "it is Friday", {"action": "deploy", "details": {"to": "live"}},
        )  # fmt: skip


@pytest.mark.parametrize("mode", ERAS)
async def test_a_pending_answer_is_fetched_once(gate: Replica, mode: str) -> None:
    """The wait has an end, the request has none; who asks again is told that it was handed out."""
    async with client_of(gate, mode) as client:
        arguments = {"action": "deploy", "wait_seconds": 0}
        pending = told(await client.call_tool("request_approval", arguments))
        assert pending["status"] == "pending"
        same = {"id": pending["id"]}
        assert told(await client.call_tool("check_approval", same)) == pending
        checking = asyncio.create_task(
            client.call_tool("check_approval", {**same, "wait_seconds": 60})
        )
        await answer(gate)
        found = told(await checking)
        assert (found["status"], found["action"]) == ("approved", "deploy")
        again = told(await client.call_tool("check_approval", same))
        assert again["status"] == "already_used"
        assert "action" not in again


async def test_only_what_was_asked_here_is_checked(gate: Replica) -> None:
    """Neither another agent's request, nor one that another part of this agent waits for."""
    async with client_of(gate) as client:
        for token, agent in ((AGENT_TOKEN, AGENT), (OTHER_TOKEN, "agent2")):
            async with AsyncClient(HttpTransport(gate.url, token, agent), say=None) as other:
                sent = asyncio.create_task(other.ask("shell", {"command": "ls"}))
                record = await answer(gate)
                assert (await sent).arguments == {"command": "ls"}
                checked = told(await client.call_tool("check_approval", {"id": record.id}))
                assert checked["status"] == "unknown"
        wrong = told(await client.call_tool("check_approval", {"id": "0" * 32}))
        assert wrong["status"] == "unknown"


@pytest.mark.parametrize(
    ("action", "more", "expected"),
    [
        ("deny", {"message": "no"}, {"status": "denied", "message": "denied by ann: no"}),
        ("respond", {"result": "done by me"}, {"status": "responded", "result": "done by me"}),
        ("abort", {"message": "stop"}, {"status": "aborted"}),
    ],
)
async def test_what_is_no_approval(
    gate: Replica, action: str, more: dict[str, Any], expected: dict[str, Any]
) -> None:
    """It says so, and carries nothing that could be taken for what may run."""
    async with client_of(gate) as client:
        asking = asyncio.create_task(client.call_tool("request_approval", {"action": "deploy"}))
        await answer(gate, action, **more)
        found = told(await asking)
        assert expected.items() <= found.items()
        assert "action" not in found


async def test_a_question_is_answered(gate: Replica) -> None:
    """With one of the options, or in words; a question that waits is checked like an approval."""
    async with client_of(gate) as client:
        arguments = {"question": "Which?", "options": ["red", "blue"]}
        asking = asyncio.create_task(client.call_tool("ask_human", arguments))
        record = await answer(gate, "answer", answers={"answer": "red"})
        assert told(await asking)["answer"] == "red"
        assert record.request.kind is Kind.QUESTION
        pending = told(await client.call_tool("ask_human", {"question": "Why?", "wait_seconds": 0}))
        await answer(gate, "answer", answers={"answer": "so"})
        found = told(await client.call_tool("check_approval", {"id": pending["id"]}))
        assert (found["status"], found["answer"]) == ("answered", "so")


async def test_who_gives_up_withdraws(gate: Replica) -> None:
    """A cancelled call leaves no card behind, since nobody has its id."""
    async with client_of(gate) as client:
        asking = asyncio.create_task(client.call_tool("request_approval", {"action": "deploy"}))
        record = await asked(gate)
        asking.cancel()
        async with asyncio.timeout(30):
            while (ended := await gate.core.requests.get(record.id)).status is Status.PENDING:
                await moment()
        assert ended.decision is not None and ended.decision.reason is Reason.ABANDONED


async def test_without_a_gateway(gate: Replica) -> None:
    """Each tool says that nobody was asked."""
    async with client_of(gate, url="http://127.0.0.1:9") as client:
        found = told(await client.call_tool("request_approval", {"action": "deploy"}))
        assert found["status"] == "unreachable"
        assert (
            told(await client.call_tool("check_approval", {"id": "0" * 32}))["status"] == "unknown"
        )
        prompted = await prompt(client)
        assert prompted["behavior"] == "deny"


async def prompt(client: Client, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
    """Ask as Claude Code does; the answer is one block of text and nothing else."""
    given = {
        "tool_name": tool,
        "input": arguments or {"command": "ls"},
        "tool_use_id": "toolu_01Xk9vTq4rN1",
    }
    result = await client.call_tool("permission_prompt", given)
    assert not result.is_error and result.structured_content is None
    [content] = result.content
    found: dict[str, Any] = json.loads(content.text)  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("action", "more", "expected"),
    [
        ("approve", {}, {"behavior": "allow", "updatedInput": {"command": "ls"}}),
        (
            "edit",
            {"arguments": {"command": "ls -l"}},
            {"behavior": "allow", "updatedInput": {"command": "ls -l"}},
        ),
        ("deny", {"message": "no"}, {"behavior": "deny", "message": "denied by ann: no"}),
        ("abort", {}, {"behavior": "deny", "interrupt": True}),
    ],
)
async def test_claude_codes_permission_prompt(
    gate: Replica, mode: str, action: str, more: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Each answer in its own words, as one block of text."""
    async with client_of(gate, mode) as client:
        prompting = asyncio.create_task(prompt(client))
        record = await answer(gate, action, **more)
        assert expected.items() <= (await prompting).items()
        request = record.request
        assert (request.tool, request.kind, request.call_id) == (
            "Bash",
            Kind.COMMAND,
            "toolu_01Xk9vTq4rN1",
        )


async def test_what_claude_asks_of_a_person_is_a_question(gate: Replica) -> None:
    """Its answers go back within the whole input, by the text of each question; one that cannot be
    read asks nobody and is denied."""
    choice = {"label": "red", "description": "like fire"}
    question = {"question": "Which?", "header": "h", "options": [choice], "multiSelect": False}
    asked = {"questions": [question]}
    async with client_of(gate) as client:
        prompting = asyncio.create_task(prompt(client, "AskUserQuestion", **asked))
        record = await answer(gate, "answer", answers={"q1": "red"})
        assert record.request.kind is Kind.QUESTION
        assert await prompting == {
            "behavior": "allow",
            "updatedInput": {**asked, "answers": {"Which?": "red"}},
        }
        refused = await prompt(client, "AskUserQuestion", questions="none")
        assert refused["behavior"] == "deny"


async def test_a_prompt_that_is_asked_again_runs_once(gate: Replica) -> None:
    """Claude Code's own id of a call makes it one request."""
    async with client_of(gate) as client:
        prompting = asyncio.create_task(prompt(client))
        await answer(gate)
        assert (await prompting)["behavior"] == "allow"
        assert (await prompt(client))["behavior"] == "deny"
