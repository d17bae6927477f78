"""The Redis transport against the real server: what is lost, doubled or cut does no harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from gateway.client import Approval, AsyncClient
from gateway.client.redis_transport import RedisTransport
from gateway.domain.records import Query
from gateway.domain.store import MessageContext
from gateway.errors import (
    Cancelled,
    Conflict,
    Denied,
    NotFound,
    Unauthorized,
    Unreachable,
    Unverified,
)
from gateway.models import ApprovalRequest, Execution, Reason, Status, new_id
from tests.waiting import moment
from tests.world import AGENT, World, click, identity


@pytest.fixture
async def transport(server_url: str, namespace: str) -> RedisTransport:
    """Return a transport of agent `bot` on this test's namespace."""
    return RedisTransport(server_url, AGENT, namespace)


@pytest.fixture
async def client(transport: RedisTransport, world: World) -> AsyncIterator[AsyncClient]:
    """Yield a client that pins the gateway's key."""
    async with AsyncClient(transport, public_key=world.signer.public_key) as made:
        yield made


async def approve_next(world: World) -> None:
    """Approve the next request that is submitted."""
    async with world.core.feed.changes() as changes:
        page = await world.core.requests.page(_all())
        if page.items:
            await world.core.requests.decide(click(page.items[0]))
            return
        async for event in changes:
            if event.type == "submitted":
                await world.core.requests.decide(
                    click(await world.core.requests.get(event.request_id))
                )
                return


def _all() -> Query:
    return Query()


async def test_ask_and_go_on(world: World, client: AsyncClient) -> None:
    """Over streams, signed and verified."""
    async with world.ingress().running():
        approval, _ = await asyncio.gather(
            client.ask("shell", {"command": "ls"}), approve_next(world)
        )
    assert approval.decision.decided_by.name == "ann"


async def test_what_an_action_failed_with_is_not_cut_within_a_secret(
    world: World, client: AsyncClient
) -> None:
    """Not by the agent's side either: the audit would not know half of one."""
    async with world.ingress().running():
        approval, _ = await asyncio.gather(client.ask("shell", {}), approve_next(world))
        detail = f"{'x' * 1990} ghp_{'a' * 36} {'x' * 20_000}"
        await client.report(approval.request, Execution.FAILED, detail=detail)
        events = await world.until(lambda found: any(e.type == "reported" for e in found))
    (said,) = [event.data["detail"] for event in events if event.type == "reported"]
    assert said == "x" * 1990 + " "


async def test_a_request_submitted_while_no_gateway_runs_is_picked_up(
    world: World, client: AsyncClient
) -> None:
    """It waits in the stream until someone reads it."""
    asking = asyncio.create_task(client.ask("shell", {}))
    while not await world.store.redis.exists(world.store.keys.ingress(AGENT)):
        await moment()
    async with world.ingress().running():
        await approve_next(world)
        assert (await asking).decision.status is Status.APPROVED


async def test_cut_connections_lose_no_decision(world: World, client: AsyncClient) -> None:
    """Decided while every connection of the agent is down: it goes on after reconnecting."""
    async with world.ingress().running():
        asking = asyncio.create_task(client.ask("shell", {}))
        events = await world.until(lambda found: any(e.type == "submitted" for e in found))
        for _ in range(3):
            await world.store.redis.execute_command(
                "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"
            )
        record = await world.core.requests.get(events[-1].request_id)
        await world.core.requests.decide(click(record))
        async with asyncio.timeout(40):
            assert (await asking).decision.status is Status.APPROVED


async def test_what_is_sent_again_carries_what_is_left_of_its_time(
    world: World, client: AsyncClient
) -> None:
    """The connection is lost before a gateway has read the first: the second lives no longer."""
    asking = asyncio.create_task(client.ask("shell", {}, timeout=30))
    ingress = world.store.keys.ingress(AGENT)
    while not await world.store.redis.exists(ingress):
        await moment()
    await world.store.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    async with asyncio.timeout(20):
        while len(sent := await world.store.redis.xrange(ingress)) < 2:
            await moment()
    first, again = (json.loads(fields["body"]) for _, fields in sent[:2])
    assert first["id"] == again["id"]
    gone = (int(sent[1][0].split("-")[0]) - int(sent[0][0].split("-")[0])) / 1000
    assert first["timeout"] == 30
    assert again["timeout"] <= 30 - gone + 0.05
    asking.cancel()
    await asyncio.wait({asking})


async def test_a_lost_reply_stream_loses_no_decision(world: World, client: AsyncClient) -> None:
    """The stream with the decision vanishes before it was read: a sync brings it again."""
    async with world.ingress().running():
        asking = asyncio.create_task(client.ask("shell", {}))
        events = await world.until(lambda found: any(e.type == "submitted" for e in found))
        record = await world.core.requests.get(events[-1].request_id)
        transport = client._transport
        assert isinstance(transport, RedisTransport)
        while transport._cursor == 0:
            await moment()
        transport._cursor = 99
        await world.core.requests.decide(click(record))
        transport._rewind()
        async with asyncio.timeout(40):
            assert (await asking).decision.status is Status.APPROVED


async def test_a_gap_in_the_replies_makes_it_ask_again(world: World, client: AsyncClient) -> None:
    """Trimmed entries are noticed by their numbers."""
    transport = client._transport
    assert isinstance(transport, RedisTransport)
    key = world.store.keys.replies(AGENT, transport.process.token)
    asking = asyncio.create_task(client.ask("shell", {}))
    while not await world.store.redis.exists(world.store.keys.ingress(AGENT)):
        await moment()
    await world.handled()
    while transport._cursor == 0:
        await moment()
    record = (await world.core.requests.page(_all())).items[0]
    await world.core.requests.decide(click(record))
    pushed = (await world.store.redis.xrevrange(key, count=1))[0][0]
    await world.store.redis.xdel(key, pushed)
    await world.store.redis.xadd(
        key, {"re": "sync", "nonce": "", "id": "", "state": "{}"}, id="0-*"
    )
    async with world.ingress().running(), asyncio.timeout(40):
        assert (await asking).decision.status is Status.APPROVED


async def test_thousands_of_waiters_are_asked_about_a_few_at_a_time(
    world: World, client: AsyncClient
) -> None:
    """However often answers are missed: those of thousands at once would push one another out of
    the stream, each loss would ask for all of them again, and that would never end."""
    transport = client._transport
    assert isinstance(transport, RedisTransport)
    ingress = world.store.keys.ingress(AGENT)
    waiting = [
        asyncio.create_task(transport.wait(new_id(), until=asyncio.get_running_loop().time() + 60))
        for _ in range(1200)
    ]
    while await world.store.redis.xlen(ingress) < len(waiting):
        await moment()
    await world.store.redis.delete(ingress)
    for lost in (False, True, False, False):  # nobody answers
        transport._rewind(lost=lost)
        for one in list(transport._awaited)[:600]:  # answers of before, which are read again
            await world.store.redis.xadd(
                world.store.keys.replies(AGENT, transport.process.token),
                {"re": "sync", "nonce": "0" * 32, "id": one, "state": "{}"},
                id="0-*",
            )
        while transport._rewound:
            await moment()
    entries = await world.store.redis.xrange(ingress)
    assert [len(json.loads(fields["body"])["ids"]) for _, fields in entries] == [500, 500]
    async with world.ingress().running():  # a gateway answers: all are asked about
        errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(one) for one in errors} == {NotFound}


async def test_a_gateway_that_answers_others_first_is_not_asked_again(
    world: World, client: AsyncClient
) -> None:
    """Ten thousand requests lie before a heartbeat: asking about all of them would not help."""
    transport, _, asking = await _pending(world, client)
    beating = asyncio.create_task(transport._ask("sync", {}))
    await moment()
    await _answer_another(world, client)
    with pytest.raises(Unreachable, match="busy with other clients"):
        await beating
    for _ in range(2):  # two readings later everything is asked for that it has to ask about
        await _answer_another(world, client)
    entries = await world.store.redis.xrange(world.store.keys.ingress(AGENT))
    assert [fields["body"] for _, fields in entries] == ["{}"]
    asking.cancel()


async def test_a_stream_that_began_anew_behind_our_back_is_read_from_its_start(
    world: World, client: AsyncClient
) -> None:
    """Its numbers go on where the old one's ended, so that no gap tells of what was missed."""
    transport, request, asking = await _pending(world, client)
    place = transport._cursor
    beating = asyncio.create_task(transport._ask("sync", {}))
    await moment()
    await world.store.redis.delete(
        world.store.keys.replies(AGENT, transport.process.token), world.store.keys.ingress(AGENT)
    )
    async with world.store.redis.pipeline() as pipeline:  # what is read next is one of others'
        key = world.store.keys.replies(AGENT, transport.process.token)
        state = _denied(request, "person")
        pipeline.xadd(key, {"re": "push", "nonce": "", "id": request.id, "state": state}, id="0-*")
        for _ in range(place):
            pipeline.xadd(key, {"re": "push", "nonce": "", "id": ""}, id="0-*")
        await pipeline.execute()
    with pytest.raises(Unreachable, match="busy with other clients"):
        await beating
    await _push(world, client)
    with pytest.raises(Denied):
        async with asyncio.timeout(4):  # the next heartbeat, which nobody answers, comes later
            await asking


async def test_a_refusal_reaches_the_waiter(world: World, client: AsyncClient) -> None:
    """A conflict is told to whoever asked, at once."""
    async with world.ingress().running():
        request = client.request("shell", {"command": "ls"})
        await world.approvals.submit(request, _origin())
        other = client.request("shell", {"command": "rm"})
        with pytest.raises(Conflict):
            await client.send(replace(other, id=request.id))


async def test_a_cancelled_waiter_withdraws_its_request(world: World, client: AsyncClient) -> None:
    """Cancelling the task cancels the request as abandoned; a late approval finds nothing."""
    async with world.ingress().running():
        asking = asyncio.create_task(client.ask("shell", {}))
        await world.until(lambda found: any(e.type == "submitted" for e in found))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        events = await world.until(lambda found: any(e.type == "cancelled" for e in found))
    assert events[-1].data["reason"] == "abandoned"


@pytest.mark.parametrize("verb", ["send", "submit", "stream"])
async def test_a_host_that_cannot_be_told_withdraws_the_request(
    transport: RedisTransport, world: World, verb: str
) -> None:
    """What `on_event` raises goes on to who asked; nobody waits, so no card may say so."""

    def broken(event: str, *rest: object) -> None:
        raise LookupError(event)

    async with AsyncClient(transport, on_event=broken) as client, world.ingress().running():
        with pytest.raises(LookupError, match="confirmation_required"):
            asked = getattr(client, verb)(client.request("shell", {}))
            await (anext(asked) if verb == "stream" else asked)
        events = await world.until(lambda found: any(e.type == "cancelled" for e in found))
        assert events[-1].data["reason"] == "abandoned"
        while transport._awaited:
            await moment()


async def test_an_approval_that_the_host_could_not_be_told_is_not_used(
    transport: RedisTransport, world: World
) -> None:
    """The record says that it was not run."""

    def broken(event: str, *rest: object) -> None:
        if event == "decided":
            raise LookupError(event)

    async with AsyncClient(transport, on_event=broken) as client, world.ingress().running():
        with pytest.raises(LookupError, match="decided"):
            await asyncio.gather(client.ask("shell", {}), approve_next(world))
        events = await world.until(lambda found: any(e.type == "reported" for e in found))
    assert events[-1].data["execution"] == "skipped"


async def test_leaving_a_stream_early_leaves_nothing_behind(
    world: World, client: AsyncClient
) -> None:
    """Withdrawn, and the process goes on as if it had never asked."""
    transport = client._transport
    assert isinstance(transport, RedisTransport)
    async with world.ingress().running():
        async with aclosing(client.stream(client.request("shell", {}))) as events:
            await anext(events)
        await world.until(lambda found: any(e.type == "cancelled" for e in found))
    assert not transport._awaited


async def test_one_who_gives_up_takes_nothing_from_the_others(
    world: World, client: AsyncClient
) -> None:
    """Two tasks wait for one request: when one is cancelled the other still gets the decision."""
    async with world.ingress().running():
        pending = await client.submit(client.request("shell", {}))
        waits = [asyncio.create_task(client.wait(pending, rerun=True)) for _ in range(2)]
        events = await world.until(lambda found: any(e.type == "attached" for e in found))
        waits[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits[0]
        await world.core.requests.decide(
            click(await world.core.requests.get(events[-1].request_id), identity=identity("ann"))
        )
        async with asyncio.timeout(40):
            assert (await waits[1]).decision.status is Status.APPROVED


async def test_a_cancel_by_another_process_ends_the_wait(world: World, client: AsyncClient) -> None:
    """The waiter learns that it was withdrawn, not denied."""
    async with world.ingress().running():
        asking = asyncio.create_task(client.ask("shell", {}))
        events = await world.until(lambda found: any(e.type == "submitted" for e in found))
        await world.approvals.cancel(
            events[-1].request_id, _origin(), reason=Reason.CANCELLED_BY_OPERATOR
        )
        with pytest.raises(Cancelled):
            await asking


async def test_a_reason_of_a_newer_gateway_reaches_its_waiter(
    world: World, client: AsyncClient
) -> None:
    """Reason codes are an open list: an unknown one is kept, and the outcome counts."""
    async with world.ingress().running():
        request, asking = await _asked(world, client)
        await _push(world, client, id=request.id, state=_denied(request, "quarantined"))
        with pytest.raises(Denied) as caught:
            await asyncio.wait_for(asking, 20)
    assert caught.value.decision.reason == "quarantined"


@pytest.mark.parametrize("wrong", ['{"status": "perhaps"}', "[1]", "{"])
async def test_a_reply_that_cannot_be_read_ends_its_own_wait_alone(
    world: World, client: AsyncClient, wrong: str
) -> None:
    """Of which we can make nothing: Unverified for one, and the replies after it are read."""
    async with world.ingress().running():
        request, asking = await _asked(world, client)
        other, going_on = await _asked(world, client)
        await _push(world, client, id=request.id, state=wrong)
        await world.core.requests.decide(click(await world.core.requests.get(other.id)))
        async with asyncio.timeout(20):
            assert (await going_on).decision.status is Status.APPROVED
            with pytest.raises(Unverified, match="cannot parse"):
                await asking


async def test_each_of_hundreds_of_waiters_gets_its_own_decision(
    world: World, client: AsyncClient
) -> None:
    """They wait side by side in one process."""
    count = 300
    async with world.ingress().running():
        asking = [asyncio.create_task(client.ask("n", {"n": number})) for number in range(count)]
        await world.until(lambda found: sum(e.type == "submitted" for e in found) == count)
        ids = await world.store.pending_of(AGENT)
        for record in await world.store.load_many(ids):
            assert record is not None
            await world.core.requests.decide(click(record))
        approvals = await asyncio.gather(*asking)
    assert [approval.arguments["n"] for approval in approvals] == list(range(count))


async def test_a_user_without_rights_is_told_so(server_url: str, world: World) -> None:
    """A refused credential is no outage."""
    await world.store.redis.execute_command("ACL", "SETUSER", "nobody", "on", ">pw", "+ping")
    url = server_url.replace("unix://", "unix://nobody:pw@")
    async with AsyncClient(RedisTransport(url, AGENT, "other")) as client:
        with pytest.raises(Unauthorized):
            await client.ask("x", {})


def _origin() -> MessageContext:
    return MessageContext(agent=AGENT, process="z" * 16)


async def _asked(
    world: World, client: AsyncClient
) -> tuple[ApprovalRequest, asyncio.Task[Approval]]:
    """Ask for something; return once the gateway has it."""
    request = client.request("shell", {})
    asking = asyncio.create_task(client.send(request))
    await world.until(lambda found: any(e.request_id == request.id for e in found))
    return request, asking


async def _pending(
    world: World, client: AsyncClient
) -> tuple[RedisTransport, ApprovalRequest, asyncio.Task[Approval]]:
    """Ask for something; return once the client knows that it waits, and no gateway runs."""
    transport = client._transport
    assert isinstance(transport, RedisTransport)
    async with world.ingress().running():
        request, asking = await _asked(world, client)
        while transport._unanswered:
            await moment()
    return transport, request, asking


async def _push(world: World, client: AsyncClient, **fields: str) -> None:
    """Write a reply to the client's process, as a gateway of another version could."""
    transport = client._transport
    assert isinstance(transport, RedisTransport)
    key = world.store.keys.replies(AGENT, transport.process.token)
    reply = {"re": "push", "nonce": "", "id": "", **fields}
    await world.store.redis.xadd(key, dict(reply), id="0-*")


async def _answer_another(world: World, client: AsyncClient) -> None:
    """Write a reply that nobody here waits for; return once it was read."""
    transport = client._transport
    assert isinstance(transport, RedisTransport)
    before = transport._cursor
    await _push(world, client)
    while transport._cursor == before:
        await moment()


def _denied(request: ApprovalRequest, reason: str) -> str:
    """Return the state of a request that was denied for a reason, as the wire has it."""
    decision = {
        "request_id": request.id,
        "revision": 2,
        "status": "denied",
        "action": "deny",
        "reason": reason,
        "digest": request.digest,
        "decided_by": {"kind": "rule", "name": "r"},
        "decided_at": 1,
        "expires_at": 2,
    }
    state = {"id": request.id, "status": "denied", "revision": 2, "digest": request.digest}
    return json.dumps({**state, "deadline": 3, "decision": decision})
