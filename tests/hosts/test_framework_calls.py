"""What the modules of frameworks share, without any framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from gateway.client import Client, Outcome, OutcomeKind, session
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import Query
from gateway.errors import Aborted, Unauthorized
from gateway.integrations.frameworks.calls import FrameworkCall, FrameworkGate, PausedRun, tell
from gateway.integrations.frameworks.langchain import CannotBeTold, answer, read_calls
from gateway.models import Action, Kind
from tests.api.replica import AGENT_TOKEN, Replica


def call(path: str, call_id: str | None = "c1") -> FrameworkCall:
    """Return a call of a tool."""
    return FrameworkCall(tool="delete_file", arguments={"path": path}, call_id=call_id)


def client_of(gate: Replica, **more: Any) -> Client:
    """Return a client, as each process has its own."""
    return Client(HttpTransport(gate.url, AGENT_TOKEN, "agent1"), **{"say": None, **more})


@pytest_asyncio.fixture
async def asking(gate: Replica) -> AsyncIterator[FrameworkGate]:
    """Yield the gate of a framework that is not installed."""
    client = client_of(gate)
    yield FrameworkGate("no-framework", client, {})
    await asyncio.to_thread(client.close)


async def wait_for_requests(gate: Replica, count: int) -> list[Any]:
    """Return what waits, once there is so much, in the order of the paths."""
    items = await gate.waiting(count)
    return sorted(items, key=lambda one: str(one.request.arguments))


async def test_a_pause_is_found_again_wherever_it_goes_on(
    gate: Replica, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Another process in another folder neither asks again nor takes anything too early."""
    calls = [call("a", "c1"), call("b", "c2")]
    said: list[str] = []
    first, second = client_of(gate, say=said.append), client_of(gate)
    paused = await FrameworkGate("f", first, {}).settle(calls, "thread 1", {"kept": 1})
    assert isinstance(paused, PausedRun)
    assert PausedRun.from_json(paused.to_json()) == paused
    await asyncio.to_thread(first.close)
    one, two = await wait_for_requests(gate, 2)
    assert {one.id, two.id} == set(paused.request_ids)
    for waits, line in zip(paused.request_ids, said, strict=True):
        assert (
            f"waiting for approval of 'delete_file': answer at {gate.url}/inbox/r/{waits}" in line
        )
    assert one.request.group == two.request.group
    assert one.request.context.cwd is None
    assert (await gate.decided(one.id)).status == 200
    monkeypatch.chdir(tmp_path)
    again = FrameworkGate("f", second, {})
    assert await again.settle(calls, "thread 1", {"kept": 1}) == paused
    assert (await gate.decided(two.id, "deny", message="no")).status == 200
    outcomes = await again.settle(calls, "thread 1", None)
    assert isinstance(outcomes, list)
    assert [how.kind for how in outcomes] == [OutcomeKind.APPROVED, OutcomeKind.DENIED]
    outcomes = await again.settle(calls, "thread 1", None)
    assert isinstance(outcomes, list)
    assert [how.kind for how in outcomes] == [OutcomeKind.ALREADY_USED, OutcomeKind.DENIED]
    assert "may have run already" in tell("delete_file", outcomes[0])
    await asyncio.to_thread(second.close)


@pytest.mark.parametrize("count", [1, 2])
async def test_a_provider_that_repeats_its_ids_is_not_blocked(
    gate: Replica, asking: FrameworkGate, count: int
) -> None:
    """Each turn is asked about, though its ids are those of the turn before."""
    calls = [call("a", "functions.delete_file:0"), call("b", "functions.delete_file:1")][:count]
    seen: set[str] = set()
    for _ in range(2):
        asked = asyncio.create_task(asking.ask(calls, "thread 1"))
        waiting = await wait_for_requests(gate, count)
        for one in waiting:
            assert (await gate.decided(one.id)).status == 200
        assert [how.kind for how in await asked] == [OutcomeKind.APPROVED] * count
        seen |= {one.id for one in waiting}
    assert len(seen) == 2 * count


async def test_what_has_no_session_is_not_of_one_with_all_others(
    gate: Replica, asking: FrameworkGate
) -> None:
    """One gate has one; the context's holds where there is one."""
    other = FrameworkGate("no-framework", asking._client, {})
    with session("mine"):
        named = asyncio.create_task(asking.ask([call("a")]))
    rest = [asyncio.create_task(one.ask([call("b")])) for one in (asking, asking, other)]
    first, *more = [one.request.session for one in await wait_for_requests(gate, 4)]
    assert first == "mine"
    assert len(set(more)) == 2
    assert not {"default", "mine"} & set(more)
    for one in (named, *rest):
        one.cancel()
    await asyncio.wait((named, *rest))


async def test_a_changed_call_is_asked_anew(gate: Replica, asking: FrameworkGate) -> None:
    """An approval is not that of other arguments, of another call, or of another session."""
    await asking.settle([call("a")], "s", None)
    [record] = await wait_for_requests(gate, 1)
    assert (await gate.decided(record.id)).status == 200
    for changed, where in ((call("b"), "s"), (call("a", "c2"), "s"), (call("a"), "t")):
        assert isinstance(await asking.settle([changed], where, None), PausedRun)


async def test_two_processes_do_not_both_get_an_approval(gate: Replica) -> None:
    """However close together they resume."""
    clients = [client_of(gate) for _ in range(2)]
    gates = [FrameworkGate("f", one, {}) for one in clients]
    await gates[0].settle([call("a")], "s", None)
    [record] = await wait_for_requests(gate, 1)
    assert (await gate.decided(record.id)).status == 200
    both = await asyncio.gather(*(one.settle([call("a")], "s", None) for one in gates))
    assert sorted(found[0].runs for found in both if isinstance(found, list)) == [False, True]
    for one in clients:
        await asyncio.to_thread(one.close)


async def test_an_abort_withdraws_what_waits_beside_it(
    gate: Replica, asking: FrameworkGate
) -> None:
    """It is raised, and nothing of the batch stays approvable."""
    calls = [call("a", "c1"), call("b", "c2"), call("c", "c3")]
    await asking.settle(calls, "s", None)
    first, second, _ = await wait_for_requests(gate, 3)
    assert (await gate.decided(first.id)).status == 200
    assert (await gate.decided(second.id, "abort", abort="turn")).status == 200
    with pytest.raises(Aborted):
        await asking.settle(calls, "s", None)
    assert (await gate.core.requests.page(Query())).items == ()
    approved = await gate.store.load(first.id)
    assert approved is not None and approved.consumers == ()


async def test_what_cannot_be_shown_is_refused_unasked(
    gate: Replica, asking: FrameworkGate
) -> None:
    """The model hears so; the other calls of its batch are asked."""
    odd = FrameworkCall(tool="odd", arguments={"when": object()}, call_id="c0")
    asked = asyncio.create_task(asking.ask([odd, call("a")]))
    [record] = await wait_for_requests(gate, 1)
    assert (await gate.decided(record.id)).status == 200
    refused, approved = await asked
    assert approved.runs and not refused.runs
    assert "cannot be shown to anybody" in tell("odd", refused)


async def test_calls_of_one_id_are_refused_unasked(gate: Replica, asking: FrameworkGate) -> None:
    """A framework that keeps answers by id would give one call the answer of another."""
    calls = [call("a", "c1"), call("b", "c1"), call("c", "c2"), call("d", None), call("e", None)]
    asked = asyncio.create_task(asking.ask(calls))
    for record in await wait_for_requests(gate, 3):
        assert (await gate.decided(record.id)).status == 200
    outcomes = await asked
    assert [one.runs for one in outcomes] == [False, False, True, True, True]
    assert "another call in this turn has the same id" in tell("delete_file", outcomes[0])


async def test_a_silent_gateway_is_told_and_what_is_paused_stays(gate: Replica) -> None:
    """A call that is waited for is refused in words; a paused one loses nothing."""
    nowhere = HttpTransport("http://127.0.0.1:9", AGENT_TOKEN, "agent1")
    client = Client(nowhere, say=None, connect_timeout=0.05)
    silent = FrameworkGate("f", client, {})
    [outcome] = await silent.ask([call("a")])
    assert outcome.kind is OutcomeKind.UNREACHABLE
    assert "the approval gateway does not respond" in tell("delete_file", outcome)
    assert isinstance(await silent.settle([call("a")], "s", None), PausedRun)
    await asyncio.to_thread(client.close)


async def test_where_no_gateway_was_ever_found_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The same holds before there is any client."""
    monkeypatch.delenv("GATEWAY_URL", raising=False)
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GATEWAY_CONNECT_TIMEOUT", "0.05")
    nobody = FrameworkGate("f", None, {})
    [outcome], [blocking] = await nobody.ask([call("a")]), nobody.ask_blocking([call("a")])
    assert {outcome.kind, blocking.kind} == {OutcomeKind.UNREACHABLE}
    assert await nobody.settle([call("a")], "s", "kept") == PausedRun([], "kept", "s")


async def test_a_wrong_credential_is_no_refusal(gate: Replica) -> None:
    """It is the mistake of whoever set it up, and is raised."""
    client = Client(HttpTransport(gate.url, "agw_agent1_wrong", "agent1"), say=None)
    wrong = FrameworkGate("f", client, {})
    with pytest.raises(Unauthorized):
        await wrong.ask([call("a")])
    with pytest.raises(Unauthorized):
        await wrong.settle([call("a")], "s", None)
    await asyncio.to_thread(client.close)


async def test_a_blocking_call_says_its_session_and_details(gate: Replica) -> None:
    """The context's session holds where the framework names none."""
    client = client_of(gate)
    asking = FrameworkGate("rfc8785", client, {"hint": "why", "timeout": 5.0})

    def ask() -> list[Outcome]:
        with session("mine"):
            return asking.ask_blocking([call("a", None)])

    asked = asyncio.create_task(asyncio.to_thread(ask))
    [record] = await wait_for_requests(gate, 1)
    assert (record.request.session, record.request.hint) == ("mine", "why")
    assert str(record.request.origin.framework).startswith("rfc8785 0.")
    assert (await gate.decided(record.id, "respond", result={"size": 3})).status == 200
    [outcome] = await asked
    assert tell("delete_file", outcome) == '{"size": 3}'
    await asyncio.to_thread(client.close)


def interrupt(value: Any, schema: Any = None) -> Any:
    """Return an interrupt as LangGraph's state has it."""
    return SimpleNamespace(id="i1", value=value, response_schema=schema)


def outcome_of(kind: OutcomeKind, **more: Any) -> Outcome:
    """Return how a request ended."""
    return Outcome(kind=kind, message="denied by ann: no", **more)


APPROVED = outcome_of(OutcomeKind.APPROVED, arguments={"path": "a"})
EDITED = outcome_of(OutcomeKind.EDITED, arguments={"path": "b"})
RESPONDED = outcome_of(OutcomeKind.RESPONDED, result="it is gone")
DENIED = outcome_of(OutcomeKind.DENIED)
REFUSED = "delete_file was not run: denied by ann: no"


def test_a_batch_is_answered_with_as_many_decisions_in_order() -> None:
    """Each of the middleware's types, and only what the call's own settings allow is offered."""
    action = {"name": "delete_file", "args": {"path": "a"}, "description": "why"}
    configs = [
        {"action_name": "delete_file", "allowed_decisions": said}
        for said in (["approve", "edit", "reject", "respond"], ["approve", "reject"])
    ]
    asked = interrupt({"action_requests": [action, action], "review_configs": configs})
    first, second = read_calls(asked)
    assert (first.tool, first.arguments, first.hint) == ("delete_file", {"path": "a"}, "why")
    assert first.call_id != second.call_id
    assert set(first.allowed) == set(Action) - {Action.ANSWER}
    assert set(second.allowed) == {Action.APPROVE, Action.DENY, Action.ABORT}
    assert answer(asked, [first, second], [EDITED, DENIED]) == {
        "decisions": [
            {"type": "edit", "edited_action": {"name": "delete_file", "args": {"path": "b"}}},
            {"type": "reject", "message": REFUSED},
        ]
    }
    assert answer(asked, [first, second], [RESPONDED, APPROVED]) == {
        "decisions": [{"type": "respond", "message": "it is gone"}, {"type": "approve"}]
    }
    with pytest.raises(ValueError, match="shorter"):
        answer(asked, [first, second], [APPROVED])


def test_what_the_shape_cannot_say_is_not_sent() -> None:
    """A refusal where only approvals are allowed is an error that says so."""
    config = {"action_name": "delete_file", "allowed_decisions": ["approve"]}
    action = {"name": "delete_file", "args": {"path": "a"}}
    asked = interrupt({"action_requests": [action], "review_configs": [config]})
    calls = read_calls(asked)
    assert set(calls[0].allowed) == {Action.APPROVE, Action.ABORT}
    with pytest.raises(CannotBeTold, match="denied by ann"):
        answer(asked, calls, [DENIED])


def test_the_agent_inbox_is_answered_in_its_words() -> None:
    """accept, edit, response and ignore, as each request allows."""

    def letter(**config: bool) -> Any:
        return {
            "action_request": {"action": "delete_file", "args": {"path": "a"}},
            "config": {f"allow_{name}": said for name, said in config.items()},
            "description": None,
        }

    asked = interrupt([letter(accept=True, edit=True, respond=True, ignore=True)])
    calls = read_calls(asked)
    assert set(calls[0].allowed) == set(Action) - {Action.ANSWER}
    for outcome, said in (
        (APPROVED, {"type": "accept", "args": None}),
        (EDITED, {"type": "edit", "args": {"action": "delete_file", "args": {"path": "b"}}}),
        (RESPONDED, {"type": "response", "args": "it is gone"}),
        (DENIED, {"type": "response", "args": REFUSED}),
    ):
        assert answer(asked, calls, [outcome]) == [said]
    ignoring = interrupt(letter(accept=True, respond=False, ignore=True))
    assert answer(ignoring, read_calls(ignoring), [DENIED]) == [{"type": "ignore", "args": None}]
    strict = interrupt(letter(accept=True, ignore=False))
    with pytest.raises(CannotBeTold):
        answer(strict, read_calls(strict), [DENIED])


@pytest.mark.parametrize("value", ["May I?", {"question": "May I?"}, ["May I?"], None])
def test_a_plain_interrupt_takes_nothing_but_an_approval_for_true(value: Any) -> None:
    """Graphs ask for truth: no refusal is ever true, whatever its words."""
    asked = interrupt(value)
    [plain] = calls = read_calls(asked)
    assert plain.kind is Kind.TOOL and Action.EDIT not in plain.allowed
    assert answer(asked, calls, [APPROVED]) is True
    assert answer(asked, calls, [RESPONDED]) == "it is gone"
    kinds = set(OutcomeKind) - {OutcomeKind.APPROVED, OutcomeKind.EDITED, OutcomeKind.RESPONDED}
    for kind in kinds:
        assert answer(asked, calls, [outcome_of(kind)]) is False
