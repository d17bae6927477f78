"""What a host says of a call: by the decorator, and as context that sub-agents inherit."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.client import (
    Approval,
    AsyncClient,
    CallableTransport,
    Client,
    Outcome,
    OutcomeKind,
    Reply,
    gated,
    origin,
    requires_approval,
    resume,
    session,
    sub_agent,
    suspend,
    turn,
    use_client,
)
from gateway.client.async_client import ask_all
from gateway.errors import Denied, GatewayError, InvalidRequest, Unauthorized
from gateway.models import Action, ApprovalRequest, Context, Kind, Origin, Preview


class Person:
    """Answers what the test says, and keeps what was asked."""

    def __init__(self) -> None:
        self.answer: bool | Reply = True
        self.asked: list[ApprovalRequest] = []

    def decide(self, request: ApprovalRequest) -> bool | Reply:
        """Answer one request."""
        self.asked.append(request)
        return self.answer


@pytest.fixture
def person() -> Iterator[Person]:
    """Yield the person who answers gated code in this test."""
    one = Person()
    with Client(CallableTransport(one.decide)) as client, use_client(client, everywhere=True):
        yield one


@pytest.mark.parametrize("of_call", [{"call_id": "c1"}, {"id": "0" * 32}])
def test_twins_are_not_asked_side_by_side(person: Person, of_call: dict[str, Any]) -> None:
    """One would use up or supersede the other, so that is said before anybody is asked."""
    with Client(CallableTransport(person.decide)) as client:
        twins = [client.request("pay", {"amount": number}, **of_call) for number in (1, 1)]
        with pytest.raises(InvalidRequest, match="two of these requests are for the same call"):
            client.asks(*twins)
        assert not person.asked
        both = [client.request("pay", {"amount": 1}, call_id="c1", part=one) for one in "ab"]
        assert [how.kind for how in client.asks(*both)] == [OutcomeKind.APPROVED] * 2


class FirstIsSlowest(CallableTransport):
    """Takes less time to take in each request than the one before."""

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Take one in."""
        for _ in range(9 - request.arguments["number"]):
            await asyncio.sleep(0)
        await super().submit(request, detached=detached)


def test_a_batch_is_asked_in_the_order_of_its_calls(person: Person) -> None:
    """So that cards and lists show it in that order, however long each takes to arrive."""
    gateway = FirstIsSlowest(person.decide)  # which runs in a thread for each request
    with Client(gateway) as client:
        client.asks(*[client.request("pay", {"number": number}) for number in range(9)])
    assert [one.arguments["number"] for one in gateway.requests] == list(range(9))


def test_a_decorated_call_says_what_its_host_knows(person: Person) -> None:
    """Each word is a value, or a function of the arguments."""

    @requires_approval(
        call_id=lambda name: f"call-{name}",
        part="1",
        turn="t7",
        origin=Origin(channel="telegram", chat="42", sender="ann"),
        preview=lambda name: Preview(format="text", text=name),
        payload={"why": "cleanup"},
        human=True,
        read_only=True,
    )
    def drop(name: str) -> str:
        return name

    assert drop("old") == "old"
    (asked,) = person.asked
    assert (asked.call_id, asked.part, asked.turn) == ("call-old", "1", "t7")
    assert asked.origin == Origin(
        channel="telegram", chat="42", sender="ann", tool_call_id="call-old"
    )
    assert asked.preview == Preview(format="text", text="old")
    assert (asked.payload, asked.human, asked.read_only) == ({"why": "cleanup"}, True, True)
    with pytest.raises(GatewayError):  # the same call again does not run again
        drop("old")


def test_sub_agents_inherit_what_the_host_said(person: Person) -> None:
    """The chain of parents, the chat and the turn reach what is asked further in, and end there."""

    @requires_approval
    def act() -> None: ...

    @requires_approval(origin=Origin(sender="bob"))
    def act_for_bob() -> None: ...

    with session("s"), turn("t1"), origin(channel="slack", chat="C1", sender="ann"):
        with sub_agent("planner"), sub_agent("coder"):
            act()
        act_for_bob()
    act()
    inner, outer, after = person.asked
    assert inner.origin == Origin(
        channel="slack", chat="C1", sender="ann", parent_agent="planner > coder"
    )
    assert (inner.session, inner.turn) == ("s", "t1")
    assert outer.origin == Origin(channel="slack", chat="C1", sender="bob")
    assert (after.origin, after.turn, after.session) == (Origin(), None, "default")


def test_tasks_inherit_it_and_do_not_share_it(person: Person) -> None:
    """Each task that is started has the words of the one that started it, and its own besides."""

    @requires_approval
    async def act(name: str) -> None: ...

    async def one(name: str) -> None:
        with sub_agent(name):
            await act(name)

    async def both() -> None:
        with sub_agent("lead"):
            await asyncio.gather(one("a"), one("b"))

    asyncio.run(both())
    found = {asked.arguments["name"]: asked.origin.parent_agent for asked in person.asked}
    assert found == {"a": "lead > a", "b": "lead > b"}


def test_a_denied_call_can_return_its_outcome(person: Person) -> None:
    """With on_denied="return" nothing is raised, also through `gated`; nothing has run."""
    ran: list[str] = []
    tools = gated({"drop": ran.append}, on_denied="return")
    for answer, kind, abort in (
        (False, OutcomeKind.DENIED, None),
        (Reply(action=Action.ABORT, message="stop"), OutcomeKind.ABORTED, "turn"),
    ):
        person.answer = answer
        outcome = tools["drop"]("old")
        assert isinstance(outcome, Outcome)
        assert (outcome.kind, outcome.abort, outcome.runs) == (kind, abort, False)
        assert outcome.message
    assert ran == []
    with pytest.raises(InvalidRequest):
        gated({"drop": ran.append}, on_denied="ignore")


def test_a_suspended_call_can_return_its_outcome(person: Person) -> None:
    """What is resumed after a denial is no exception either."""

    @requires_approval(on_denied="return")
    def drop(name: str) -> object:
        return name

    @requires_approval(on_denied="return")
    async def drop_async(name: str) -> object:
        return name

    person.answer = False
    outcome = resume(drop, suspend(drop, "old"))
    other = asyncio.run(resume(drop_async, suspend(drop_async, "old")))
    for one in (outcome, other):
        assert isinstance(one, Outcome)
        assert (one.kind, one.runs) == (OutcomeKind.DENIED, False)


async def test_a_denied_coroutine_can_return_its_outcome(person: Person) -> None:
    """As for a plain function."""

    @requires_approval(on_denied="return")
    async def drop(name: str) -> object:
        return name

    assert await drop("old") == "old"
    person.answer = False
    outcome: object = await drop("old")
    assert isinstance(outcome, Outcome)
    assert outcome.kind is OutcomeKind.DENIED


def test_an_error_of_the_tool_itself_is_raised(person: Person) -> None:
    """What the function raises is no outcome of asking, however it looks."""

    @requires_approval(on_denied="return")
    def outer() -> None:
        person.answer = False
        inner()

    @requires_approval
    def inner() -> None: ...

    with pytest.raises(Denied):
        outer()


def test_an_edit_that_cannot_run_is_an_outcome(person: Person) -> None:
    """What is found wrong after the approval is returned too, and nothing has run."""
    ran: list[str] = []

    @requires_approval(
        on_denied="return", kind=Kind.TOOL, context=lambda folder: Context(cwd=folder)
    )
    def build(folder: str) -> object:
        ran.append(folder)
        return folder

    person.answer = Reply(action=Action.EDIT, arguments={"folder": "/other"})
    outcome: object = build("/srv")
    assert isinstance(outcome, Outcome)
    assert outcome.kind is OutcomeKind.UNVERIFIED
    assert ran == []


async def test_requests_that_fail_together_leave_no_failure_unread() -> None:
    """The first one is raised; asyncio complains of none of the others."""
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(str(what)))
    client = AsyncClient(CallableTransport(lambda _: True))
    requests = [client.request("pay", {"amount": one}) for one in range(3)]

    async def fail(_: ApprovalRequest) -> Approval:
        raise Unauthorized("the token is unknown")

    async def refuse(_: ApprovalRequest) -> None: ...

    with pytest.raises(Unauthorized):
        await ask_all(requests, fail, refuse)
    gc.collect()
    assert said == []
