"""Who stops a turn stops all that waits of it, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client import AsyncClient
from gateway.client.redis_transport import RedisTransport
from gateway.domain.store import MessageContext
from gateway.errors import Aborted
from gateway.models import Action, Status
from tests.waiting import moment
from tests.world import AGENT, PROCESS, World, click, request

TURN = {"session": "s1", "turn": "t1"}


async def test_stopping_one_request_ends_its_turn(world: World) -> None:
    """The siblings are denied by whom and as what the one was; a second look changes nothing."""
    first, second = [await world.submit(arguments={"n": n}, **TURN) for n in range(2)]
    others = [
        await world.submit(arguments={"n": 2}, session="s1", turn="t2"),
        await world.submit(arguments={"n": 3}, session="s2", turn="t1"),
        await world.submit(arguments={"n": 4}, session="s1"),
    ]
    origin = MessageContext(agent="another", process=PROCESS)
    theirs, _ = await world.approvals.submit(request(agent="another", **TURN), origin)
    others.append(theirs)
    stop = click(first, Action.ABORT)
    await world.core.requests.decide(stop)
    await world.core.requests.decide(stop)
    ended = await world.core.requests.get(second.id)
    assert ended.decision is not None
    assert (ended.status, ended.decision.abort) == (Status.DENIED, "turn")
    assert ended.decision.decided_by.name == "ann"
    assert [event.type for event in await world.events(second.id)] == ["submitted", "denied"]
    for other in others:
        assert (await world.core.requests.get(other.id)).status is Status.PENDING


@pytest.mark.parametrize(("action", "turn"), [(Action.DENY, "t1"), (Action.ABORT, None)])
async def test_a_denial_or_a_nameless_turn_ends_one(
    world: World, action: Action, turn: str | None
) -> None:
    """A plain no is about one request; and without a name, "the turn" could be anything."""
    first, second = [
        await world.submit(arguments={"n": n}, session="s1", turn=turn) for n in range(2)
    ]
    await world.core.requests.decide(click(first, action))
    assert (await world.core.requests.get(second.id)).status is Status.PENDING


async def test_every_waiter_of_the_turn_is_told(
    world: World, server_url: str, namespace: str
) -> None:
    """Two calls of one turn, asked together: both raise Aborted."""
    transport = RedisTransport(server_url, AGENT, namespace)
    async with AsyncClient(transport) as client, world.ingress().running():
        allowed = (Action.APPROVE, Action.DENY, Action.ABORT)
        requests = [client.request("shell", {"n": n}, turn="t1", allowed=allowed) for n in range(2)]
        asking = [asyncio.create_task(client.send(request)) for request in requests]
        for request in requests:
            while await world.store.load(request.id) is None:
                await moment()
        record = await world.core.requests.get(requests[0].id)
        await world.core.requests.decide(click(record, Action.ABORT))
        for one in asking:
            with pytest.raises(Aborted):
                await one
