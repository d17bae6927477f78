"""Claude Code's hooks by HTTP, at the gateway itself: its words, and no error that runs a tool."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.api import agent_hooks
from gateway.api.api_call import Limits
from gateway.domain.records import Query, StoredRequest
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.integrations.coding_agents.claude_code import ClaudeCode
from gateway.models import FieldKind, Reason, Status
from tests.api.replica import ANN_TOKEN, POLICY, Replica, replica, until
from tests.hosts.conftest import Answer
from tests.hosts.test_hook_process import CHOSEN, CLAUDE, EDITED, REQUEST, SUGGESTED, SUGGESTS

PATH = "/v1/hooks/claude-code"


async def hook(gate: Replica, given: Any = CLAUDE, query: str = "", **more: Any) -> Any:
    """Call the hook as Claude Code does; return its answer, which is a 200 whatever happens."""
    answer = await gate.call("POST", PATH + query, given, **more)
    assert answer.status == 200, answer.text
    return answer.json


async def asked(
    gate: Replica, answered: Any, *given: Any, **more: Any
) -> tuple[Any, StoredRequest]:
    """Call the hook while somebody answers; return what it said, and what was answered."""
    said = asyncio.create_task(hook(gate, *given, **more))
    record = await answered
    return await said, record


def denied(said: Any) -> str:
    """Return the reason of a refusal of PreToolUse, which it must be."""
    told = said["hookSpecificOutput"]
    assert (told["hookEventName"], told["permissionDecision"]) == ("PreToolUse", "deny")
    return str(told["permissionDecisionReason"])


async def test_each_answer_is_told_in_the_hosts_words(gate: Replica, answer: Answer) -> None:
    """Approve, edit, deny with words, abort; the card has what the command's has."""
    said, record = await asked(gate, answer())
    told = said["hookSpecificOutput"]
    assert (told["permissionDecision"], "updatedInput" in told) == ("allow", False)
    request = record.request
    assert (request.tool, request.arguments) == ("Bash", CLAUDE["tool_input"])
    assert (request.kind, request.call_id, request.session) == (
        "command",
        "toolu_01Xk9vTq4rN7",
        "s-1",
    )
    assert request.context.cwd == "/srv/app"
    assert request.origin.framework == "claude-code"
    said, _ = await asked(
        gate, answer("edit", arguments=EDITED), {**CLAUDE, "tool_use_id": "toolu_01Xk9vTq4rN2"}
    )
    assert said["hookSpecificOutput"]["updatedInput"] == EDITED
    said, _ = await asked(
        gate, answer("deny", message="not now"), {**CLAUDE, "tool_use_id": "toolu_01Xk9vTq4rN3"}
    )
    assert denied(said) == "denied by ann: not now"
    said, _ = await asked(gate, answer("abort"), {**CLAUDE, "tool_use_id": "toolu_01Xk9vTq4rN4"})
    assert said["continue"] is False
    assert denied(said)


async def test_the_settings_say_how_long_and_whether_people_may_edit(gate: Replica) -> None:
    """In the address of the hook."""
    assert "nobody answered in time" in denied(await hook(gate, query="?timeout=0.1&edit=false"))
    record = (await gate.ended())[0]
    assert record.request.timeout == 0.1
    assert record.request.allowed == ("approve", "deny", "abort")


@pytest.mark.parametrize("query", ["?timeout=0", "?timeout=x", "?timeout=100000", "?other=1"])
async def test_settings_that_make_no_sense_block(gate: Replica, query: str) -> None:
    """Nobody is asked."""
    assert "nobody was asked" in denied(await hook(gate, query=query))


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"no json", b'{"a":1,"a":2}', b"[" * 100_000])
async def test_what_cannot_be_read_blocks(gate: Replica, raw: bytes) -> None:
    """An explicit denial: Claude Code runs the tool after the status of an error."""
    assert "nobody was asked" in denied(await hook(gate, raw=raw))


async def test_hostile_calls_block(gate: Replica) -> None:
    """Wrong members, another event, another media type."""
    wrong: list[Any] = [{"tool_name": 5}, {"tool_name": "a\nb"}, {"tool_input": ["rm x"]}]
    wrong += [{"hook_event_name": "Other"}, {"tool_use_id": None}, {"cwd": ["/"]}]
    for changes in wrong:
        assert "nobody was asked" in denied(await hook(gate, {**CLAUDE, **changes}))
    plain = {"Content-Type": "text/plain"}
    assert "application/json" in denied(await hook(gate, headers=plain))
    assert not (await gate.core.requests.page(Query())).items


@pytest.mark.parametrize("token", [None, "agw_agent1_wrongwrongwrong", ANN_TOKEN])
async def test_who_is_no_agent_is_denied(gate: Replica, token: str | None) -> None:
    """Also with a 200: after a 401 the tool would run. The attempts count."""
    assert "nobody was asked" in denied(await hook(gate, token=token))
    assert not (await gate.core.requests.page(Query())).items


async def test_a_token_that_is_revoked_meanwhile_gets_no_approval(
    gate: Replica, answer: Answer
) -> None:
    """The answer came for whoever held it."""
    said = asyncio.create_task(hook(gate))
    await gate.waiting()
    gate.credentials.known = {
        token: one for token, one in gate.credentials.known.items() if one.name != "agent1"
    }
    await answer()
    assert "revoked while the call waited" in denied(await said)


async def test_a_failure_of_our_own_blocks(gate: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that nobody thought of, and a store that does not answer."""
    for error in (ZeroDivisionError, OSError):

        async def broken(*_: object, error: type[Exception] = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(gate.core.approvals, "submit", broken)
        assert "nobody was asked" in denied(await hook(gate))


async def test_an_answer_that_fails_on_its_way_is_withdrawn(
    gate: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody approves what nothing will run."""

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(agent_hooks, "_wait", broken)
    assert denied(await hook(gate))
    assert (await gate.ended())[0].status is Status.CANCELLED


async def test_a_host_that_goes_away_withdraws_the_card(gate: Replica) -> None:
    """Its connection ends, and what it asked with it."""
    said = asyncio.create_task(hook(gate))
    await gate.waiting()
    said.cancel()
    record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.ABANDONED


async def test_an_approval_that_comes_as_the_wait_ends_is_refused(
    gate: Replica, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noted as too late."""

    async def gives_up(call: Any, request_id: str, *_: object) -> None:
        await answer()
        raise ZeroDivisionError

    monkeypatch.setattr(agent_hooks, "_wait", gives_up)
    assert denied(await hook(gate))
    record = (await gate.ended())[0]
    assert record.report is not None
    assert record.report.execution == "refused_late"


async def test_the_second_hook_of_a_call_gets_no_approval(gate: Replica, answer: Answer) -> None:
    """It may have run already, for the first."""
    said, _ = await asked(gate, answer())
    assert said["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert "another process already claimed this approval" in denied(await hook(gate))


async def test_a_call_that_is_too_large_is_denied(server_url: str, namespace: str) -> None:
    """Its body is not read to the end."""
    async with replica(server_url, namespace, limits=Limits(body_bytes=50)) as gate:
        assert "larger than" in denied(await hook(gate))


async def test_too_many_that_wait_are_denied(server_url: str, namespace: str) -> None:
    """As for every long poll; nothing is asked that nobody waits for."""
    async with replica(server_url, namespace, limits=Limits(waits=1)) as gate:
        await gate.store.apply(POLICY, by="test")
        first = asyncio.create_task(hook(gate))
        await gate.waiting()
        assert "wait" in denied(await hook(gate, {**CLAUDE, "tool_use_id": "toolu_01Xk9vTq4rN2"}))
        assert len(await gate.waiting()) == 1
        first.cancel()
        await until(lambda: not gate.hanging)


# ------------------------------------------------------------ where the host asks as well


async def test_relay_decides_only_what_was_decided(gate: Replica, answer: Answer) -> None:
    """What is no answer of anybody leaves it to the terminal, which asks by itself."""
    said, _ = await asked(gate, answer(), REQUEST)
    assert said["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
    said, _ = await asked(gate, answer("abort", message="no"), REQUEST)
    decision = said["hookSpecificOutput"]["decision"]
    assert (decision["behavior"], decision["interrupt"]) == ("deny", True)
    assert await hook(gate, REQUEST, "?timeout=0.1") == {}
    assert denied(await hook(gate, REQUEST, token=None))  # whose body is not read: no answer to it
    assert await hook(gate, {**REQUEST, "cwd": 5}) == {}


async def test_relay_closes_the_card_that_the_terminal_answered(gate: Replica) -> None:
    """By session, tool and input: the other call keeps its card until the turn is over."""
    other = {**REQUEST, "tool_input": {"command": "ls"}}
    held = [asyncio.create_task(hook(gate, one)) for one in (REQUEST, other)]
    await gate.waiting(2)
    await hook(gate, {**CLAUDE, "hook_event_name": "PostToolUse", "session_id": "s-2"})
    assert len(await gate.waiting(2)) == 2
    assert await hook(gate, {**CLAUDE, "hook_event_name": "PostToolUse"}) == {}
    assert await held[0] == {}
    record = (await gate.ended())[0]
    assert record.decision is not None
    assert record.decision.reason is Reason.RESOLVED_ELSEWHERE
    left = await gate.waiting()
    assert [one.request.arguments for one in left] == [{"command": "ls"}]
    await hook(gate, {"hook_event_name": "Stop", "session_id": "s-1"})
    assert await held[1] == {}


async def test_what_claude_code_keeps_itself_is_what_was_chosen(
    gate: Replica, answer: Answer
) -> None:
    """Where the address says so, and a person chose it; otherwise nobody is offered it."""
    chosen = {"remember": {"offer": "host:0"}}
    said, record = await asked(gate, answer(**chosen), SUGGESTS, query="?native_always=true")
    decision = said["hookSpecificOutput"]["decision"]
    assert decision == {"behavior": "allow", "updatedPermissions": [SUGGESTED]}
    assert record.request.host_rules == (CHOSEN,)
    said, _ = await asked(gate, answer(), SUGGESTS, query="?native_always=true")
    assert said["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
    said, record = await asked(gate, answer(), SUGGESTS)
    assert said["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
    assert record.request.host_rules == ()
    assert "nobody was asked" in denied(await hook(gate, query="?native_always=maybe"))


async def test_where_only_a_number_would_do_it_is_denied_at_once(gate: Replica) -> None:
    """Nobody would see it where the call waits."""
    number = LevelRules(step_up=(StepUp.NUMBER,))
    route = replace(POLICY.routes[0], risk=RulesByRisk(low=number, medium=number, high=number))
    await gate.store.apply(replace(POLICY, generation=1, routes=(route,)), by="test")
    assert "nobody waits where the agent runs" in denied(await hook(gate))
    assert not (await gate.core.requests.page(Query())).items


async def test_relay_leaves_what_the_gate_asks(gate: Replica, answer: Answer) -> None:
    """A turn that ends closes nothing that PreToolUse asks about."""
    said = asyncio.create_task(hook(gate))
    await gate.waiting()
    await hook(gate, {"hook_event_name": "Stop", "session_id": "s-1"})
    await answer()
    assert (await said)["hookSpecificOutput"]["permissionDecision"] == "allow"


async def test_a_question_of_the_model_is_a_question(gate: Replica, answer: Answer) -> None:
    """Its answer is the tool's."""
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": ""}]
    question = {"question": "Which?", "header": "Colour", "multiSelect": False, "options": options}
    given = {**CLAUDE, "tool_name": "AskUserQuestion", "tool_input": {"questions": [question]}}
    said, record = await asked(gate, answer("answer", answers={"q1": "Blue"}), given)
    assert [one.kind for one in record.request.questions] == [FieldKind.CHOICE]
    assert said["hookSpecificOutput"]["updatedInput"]["answers"] == {"Which?": "Blue"}


def test_the_limit_is_shorter_than_the_hosts_own() -> None:
    """Claude Code runs the tool after 600 seconds."""
    assert ClaudeCode.timeout < 600
