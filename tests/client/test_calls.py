"""A host's call: tried again it is the same request, and a newer version supersedes it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.client import AsyncClient, Client, OutcomeKind, origin, session_name, sub_agent, turn
from gateway.client.http_transport import HttpTransport
from gateway.domain.policy_document import Budget
from gateway.domain.records import Query
from gateway.errors import AlreadyUsed, Cancelled, GatewayError, InvalidRequest, NotFound, Pending
from gateway.models import Action, ApprovalRequest, Context, Execution, Reason, Status, id_of_call
from gateway.wire.codec import JsonObject
from gateway.wire.schema import SESSION_NAME
from tests.api.replica import AGENT_TOKEN, OTHER_TOKEN, Replica
from tests.api.replica import made as made_over_http
from tests.client.test_single_use import Door, door  # noqa: F401 (a fixture)
from tests.fake_secrets import fake_secrets
from tests.waiting import moment
from tests.world import World, over_http
from tests.world import request as made_by_bot


def client_of(gate: Replica, agent: str = "agent1", token: str = AGENT_TOKEN) -> AsyncClient:
    """Return a client of an agent over HTTP."""
    return AsyncClient(HttpTransport(gate.url, token, agent))


def made(client: AsyncClient, amount: int = 5, part: str | None = None) -> ApprovalRequest:
    """Return what a host asks for its call `c1`."""
    return client.request(
        "pay", {"amount": amount}, call_id="c1", part=part, timeout=40, context=Context()
    )


async def test_a_call_that_is_tried_again_runs_once(door: Door) -> None:  # noqa: F811
    """The same call makes the same request, with the same id, and its approval is used once."""
    async with door.client() as client:
        request = made(client)
        assert request.id == made(client).id
        asking = asyncio.create_task(client.send(request))
        await door.answered(request.id)
        assert (await asking).arguments == {"amount": 5}
        with pytest.raises(AlreadyUsed):
            await client.send(made(client))
        again = await client.outcome(made(client))
        assert (again.kind, again.arguments) == (OutcomeKind.ALREADY_USED, None)


async def test_another_content_supersedes_the_one_that_waits(door: Door) -> None:  # noqa: F811
    """The earlier request is withdrawn, and stays so when it is tried again."""
    async with door.client() as client:
        first = asyncio.create_task(client.send(made(client)))
        while not await door.waits(made(client).id):
            await moment()
        newer = made(client, amount=9)
        second = asyncio.create_task(client.send(newer))
        with pytest.raises(Cancelled) as refusal:
            await first
        assert refusal.value.decision.reason is Reason.SUPERSEDED
        await door.answered(newer.id)
        assert (await second).arguments == {"amount": 9}
        with pytest.raises(Cancelled):
            await client.send(made(client))


async def test_a_superseded_approval_is_never_handed_out(door: Door) -> None:  # noqa: F811
    """An approval that waits to be taken ends with the newer version, also for `rerun`."""
    async with door.client() as client:
        pending = await client.submit(made(client))
        await door.answered(pending.request.id)
        while (await client.fetch(pending.request.id)).status is Status.PENDING:
            await moment()
        newer = made(client, amount=9)
        await client.submit(newer)
        while not await door.waits(newer.id):
            await moment()
        told = (await client.fetch(pending.request.id)).record
        assert told is not None
        assert told.given_up
        for rerun in (False, True):
            with pytest.raises(Cancelled) as refusal:
                await client.wait(pending, timeout=10, rerun=rerun)
            assert refusal.value.decision.reason is Reason.SUPERSEDED


async def test_parts_of_a_call_stand_side_by_side(door: Door) -> None:  # noqa: F811
    """What a call asks under another part has a request of its own."""
    async with door.client() as client:
        one, two = made(client, part="1"), made(client, amount=9, part="2")
        asking = [asyncio.create_task(client.send(each)) for each in (one, two)]
        for each in (one, two):
            await door.answered(each.id)
        assert [(await each).arguments["amount"] for each in asking] == [5, 9]


async def test_a_call_of_another_session_or_agent_is_another(gate: Replica) -> None:
    """Its id differs, and another agent can neither read nor supersede it."""
    async with client_of(gate) as client, client_of(gate, "agent2", OTHER_TOKEN) as other:
        mine, theirs = made(client), made(other)
        elsewhere = client.request("pay", {"amount": 5}, call_id="c1", session="s2")
        assert len({mine.id, theirs.id, elsewhere.id}) == 3
        await client.submit(mine)
        for request in (theirs, made(other, amount=9)):
            await other.submit(request)
        with pytest.raises(NotFound):
            await other.fetch(mine.id)
        with pytest.raises(NotFound):
            await other.wait_id(mine.id, timeout=1)
        assert (await client.fetch(mine.id)).status is Status.PENDING


async def test_the_id_of_a_call_is_checked(gate: Replica) -> None:
    """A request with a call_id and an id of its own is refused: it would be asked twice."""
    answer = await gate.submitted(made_over_http(call_id="c1"))
    assert answer.problem == (422, "invalid_request")
    assert not (await gate.core.requests.page(Query())).items


async def test_an_outcome_never_raises(door: Door) -> None:  # noqa: F811
    """Approvals, denials and deadlines are values; a mistake in the request is raised."""
    async with door.client() as client:
        for action, kind in ((Action.APPROVE, "approved"), (Action.DENY, "denied")):
            request = client.request("pay", {"amount": 5}, timeout=40, context=Context())
            asking = asyncio.create_task(client.outcome(request))
            await door.answered(request.id, action)
            outcome = await asking
            assert (outcome.kind, outcome.runs) == (kind, kind == "approved")
            assert outcome.arguments == ({"amount": 5} if outcome.runs else None)
            assert outcome.message
        late = await client.outcome(client.request("pay", {}, timeout=0.01))
        assert (late.kind, late.arguments) == (OutcomeKind.EXPIRED, None)
        with pytest.raises(InvalidRequest):
            client.request("pay", {}, call_id="c1", id="0" * 32)


async def test_a_gateway_that_does_not_answer_is_an_outcome() -> None:
    """It is told as unreachable, and nothing runs."""
    transport = HttpTransport("http://127.0.0.1:9", "token", "agent1")
    async with AsyncClient(transport, connect_timeout=0.01, say=lambda _: None) as client:
        outcome = await client.outcome(client.request("pay", {}, timeout=5))
    assert (outcome.kind, outcome.arguments) == (OutcomeKind.UNREACHABLE, None)


async def test_an_abort_withdraws_the_rest(door: Door) -> None:  # noqa: F811
    """Of requests that are asked together, those that wait end with the one that is aborted."""
    if door.public_key is None:
        return  # what a function is asked is stored nowhere
    told = set[str]()

    def note(event: str, request: ApprovalRequest, _: object) -> None:
        if event == "decided":
            told.add(request.id)

    client = AsyncClient(door.transport(), public_key=door.public_key, on_event=note)
    async with client:
        allowed = (Action.APPROVE, Action.DENY, Action.ABORT)
        requests = [client.request("pay", {"n": n}, allowed=allowed) for n in range(3)]
        asking = asyncio.create_task(client.asks(*requests, group="batch-1"))
        for request in requests:
            while not await door.waits(request.id):
                await moment()
        await door.answered(requests[0].id)
        while requests[0].id not in told:
            await moment()
        await door.answered(requests[1].id, Action.ABORT)
        first, second, third = await asking
        assert (first.kind, second.kind, second.abort) == ("approved", "aborted", "turn")
        assert (third.kind, third.arguments) == (OutcomeKind.CANCELLED, None)
        stored = (await client.fetch(requests[2].id)).record
        assert stored is not None
        assert (stored.reason, stored.request.group) == (Reason.ABANDONED, "batch-1")


async def test_an_answer_is_asked_for_without_waiting(door: Door) -> None:  # noqa: F811
    """A `timeout` of nothing returns what has been answered, and says that it still waits."""
    if door.public_key is None:
        return  # a function answers in its own process only
    async with door.client() as first:
        pending = await first.submit(made(first))
    async with door.client() as client:
        with pytest.raises(Pending):
            await client.wait_id(pending.request.id, timeout=0)
        await door.answered(pending.request.id)
        assert (await client.wait_id(pending.request.id, timeout=0)).arguments == {"amount": 5}


async def test_what_waits_can_be_left_for_another_process(door: Door) -> None:  # noqa: F811
    """A client that closes without withdrawing leaves its request, and `wait_id` takes it up."""
    request = made(door.client())
    if door.public_key is None:
        return  # a function answers in its own process only
    async with door.client() as leaving:
        asking = asyncio.create_task(leaving.send(request))
        while not await door.waits(request.id):
            await moment()
        await leaving.close(withdraw=False)
        await asyncio.gather(asking, return_exceptions=True)
    async with door.client() as client:
        assert (await client.fetch(request.id)).status is Status.PENDING
        await door.answered(request.id)
        with pytest.raises(AlreadyUsed):  # for all that the gateway knows the other one ran it
            await client.wait_id(request.id, timeout=20)
        approval = await client.wait_id(request.id, timeout=20, rerun=True)
        assert approval.arguments == {"amount": 5}
        await client.report(approval.request, Execution.SUCCEEDED)
        while (found := await client.fetch(request.id)).record.report is None:  # type: ignore[union-attr]
            await moment()
        assert found.record is not None
        assert found.record.decided_at is not None
        assert found.record.consumed >= 1
        assert found.decision is None


@pytest.mark.parametrize(
    "text", ["", "a b", "telegram:1/2", "é", "x" * 500, "\ud800", "a=" + "0" * 32]
)
def test_any_text_names_a_session(text: str) -> None:
    """The name is valid and stable, and no two texts share it."""
    name = session_name(text)
    assert SESSION_NAME.fullmatch(name)
    assert name == session_name(text)
    others = [text + "x", " " + text, text.upper() + "!", name + "=", session_name(text + " ")]
    assert name not in {session_name(other) for other in others}


def test_a_derived_name_is_not_taken_by_its_own_text() -> None:
    """A text that is written like a derived name gets another one."""
    derived = session_name("a b")
    assert session_name(derived) != derived


async def test_the_audit_says_where_a_call_came_from(gate: Replica) -> None:
    """The event of a submission has turn, call, part, group and origin, with secrets masked."""
    secret = fake_secrets("chat")[0]
    async with client_of(gate) as client:
        with turn("t7"), origin(channel="slack", chat=secret.text), sub_agent("lead"):
            request = client.request("pay", {}, call_id="c1", part="2", group="g")
        await client.submit(request)
    events = await gate.store.history(None, 100)
    (told,) = [one.data for one in events if one.type == "submitted"]
    assert {name: told[name] for name in ("turn", "call_id", "part", "group")} == {
        "turn": "t7",
        "call_id": "c1",
        "part": "2",
        "group": "g",
    }
    assert told["origin"]["parent_agent"] == "lead"
    assert not secret.is_in(str(told))


async def test_a_call_that_was_refused_for_its_budget_leaves_little(gate: Replica) -> None:
    """Its id is kept for an hour, as it may be stored meanwhile; what was stored, for its life."""
    await gate.put(budgets=(Budget(waiting=1),))
    async with client_of(gate) as client:
        await client.submit(client.request("pay", {}))
        refused = await client.outcome(made(client))
        assert (refused.kind, refused.arguments) == (OutcomeKind.OVER_BUDGET, None)
        (key,) = await gate.store.redis.keys(gate.store.keys.versions("*"))
        assert 0 < await gate.store.redis.ttl(key) <= 3600
        await gate.put(budgets=())
        await client.submit(made(client))
        assert await gate.store.redis.ttl(key) > 3600


async def test_a_blocking_client_leaves_what_waits(gate: Replica) -> None:
    """Closed without withdrawing it unblocks its caller, and the request still waits."""
    with Client(HttpTransport(gate.url, AGENT_TOKEN, "agent1")) as client:
        request = client.request("pay", {}, timeout=40)
        asking = asyncio.create_task(asyncio.to_thread(client.outcome, request))
        while await gate.store.load(request.id) is None:
            await moment()
        await asyncio.to_thread(client.close, withdraw=False)
        (ended,) = await asyncio.gather(asking, return_exceptions=True)
    assert isinstance(ended, GatewayError)
    stored = await gate.store.load(request.id)
    assert stored is not None
    assert stored.status is Status.PENDING


async def test_a_new_holder_of_a_name_supersedes_nothing_of_the_old_one(world: World) -> None:
    """What was asked before the credential was given out anew is somebody else's."""
    earlier, newer = (of_call({"amount": amount}) for amount in (5, 9))
    old, _ = await world.approvals.submit(earlier, over_http())
    await world.approvals.submit(newer, replace(over_http(), since=old.created + 1))
    stored = await world.store.load(old.id)
    assert stored is not None
    assert stored.status is Status.PENDING


def of_call(arguments: JsonObject) -> ApprovalRequest:
    """Return what agent `bot` asks for its call `c1`."""
    one = made_by_bot(call_id="c1", arguments=arguments)
    return replace(one, id=id_of_call(one))
