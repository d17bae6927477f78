"""A name that is given again: the new holder of an agent's name inherits nothing from the old."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.approvals.deadlines import dismiss
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.store import MessageContext
from gateway.errors import NotFound, Unauthorized
from gateway.models import Action, Execution, Reason, Report, Status, new_id
from gateway.policy.grants.grant import Effect
from gateway.policy.grants.offers import LIFETIMES
from gateway.wire.codec import plain
from tests.world import AGENT, PROCESS, World, click, over_http, request


async def successor(world: World, process: str = PROCESS) -> MessageContext:
    """Revoke the agent as the operator does, give its name to somebody else; return who that is."""
    await world.credentials.revoke_agent(AGENT)
    await dismiss(world.core, world.store, AGENT)
    made = await world.credentials.add_agent(AGENT)
    holder = await world.credentials.authenticate(made.token)
    assert holder is not None
    return MessageContext(agent=AGENT, process=process, owner=holder.owner, since=holder.since)


async def test_what_waits_of_a_revoked_agent_is_cancelled(world: World) -> None:
    """By the operator, in words of its own, in every session; nobody can approve it any more."""
    waiting = [await world.submit(session=name) for name in ("one", "two", "two")]
    await world.credentials.revoke_agent(AGENT)
    assert sorted(await dismiss(world.core, world.store, AGENT)) == sorted(
        one.id for one in waiting
    )
    for one in waiting:
        record = await world.core.requests.get(one.id)
        assert record.status is Status.CANCELLED
        assert record.decision is not None
        assert record.decision.reason is Reason.CANCELLED_BY_OPERATOR
    assert await world.core.operator.list_sessions(AGENT) == []
    assert await dismiss(world.core, world.store, AGENT) == []


@pytest.mark.parametrize("process", [PROCESS, "q" * 16])
async def test_an_approval_is_nothing_to_a_later_holder(world: World, process: str) -> None:
    """Not consumed, seen, reported, cancelled or submitted again, even with the process's token."""
    approved = []
    for waiter in (over_http(), over_http(None)):
        record, _ = await world.approvals.submit(request(), waiter)
        approved.append(await world.core.requests.decide(click(record)))
    mine = await successor(world, process)
    for one in approved:
        for refused in (
            world.approvals.consume(one.id, mine),
            world.approvals.state(one.id, mine),
            world.approvals.report(one.id, Report(execution=Execution.STARTED), mine),
            world.approvals.cancel(one.id, mine, reason=Reason.SUPERSEDED),
        ):
            with pytest.raises(NotFound):
                await refused
        with pytest.raises(Unauthorized):
            await world.approvals.submit(one.request, mine)
    assert await world.approvals.sync([one.id for one in approved], mine) == []
    assert [(await world.core.requests.get(one.id)).consumers for one in approved] == [
        (PROCESS,),
        (),
    ]


async def test_a_session_that_a_later_holder_ends_is_its_own(world: World) -> None:
    """What was left over from before, as by a crash, neither ends with it nor keeps it open."""
    old = await world.submit(session="s")
    mine = replace(over_http(), since=old.created + 1)
    own = await world.submit(session="s", arguments={"command": "pwd"})
    while own.created < mine.since:
        own = await world.submit(session="s", arguments={"command": "pwd"})
    ended = await world.core.sessions.end("s", mine)
    assert own.id in ended
    assert old.id not in ended
    assert (await world.core.requests.get(old.id)).status is Status.PENDING


async def test_over_redis_a_later_holder_is_told_nothing(world: World) -> None:
    """The same over streams: an answer, and nothing in it."""
    record = await world.submit()
    await world.core.requests.decide(click(record))
    await successor(world)
    world.cursors.clear()
    for verb, body in (
        ("sync", {"ids": [record.id]}),
        ("consume", {"id": record.id}),
        ("submit", plain(record.request)),
    ):
        await world.send(verb, body)
        await world.handled()
        answer = await world.reply()
        assert answer["error"]["code"] in ("not_found", "unauthorized"), verb
        assert "state" not in answer


async def test_rotating_keeps_what_is_the_agents_own(world: World) -> None:
    """New secrets, same holder: what was approved is still there to be used."""
    record, _ = await world.approvals.submit(request(), over_http(None))
    await world.core.requests.decide(click(record))
    made = await world.credentials.rotate_agent(AGENT)
    holder = await world.credentials.authenticate(made.token)
    assert holder is not None
    mine = replace(over_http(), since=holder.since)
    assert (await world.approvals.consume(record.id, mine)).decision is not None


async def test_what_was_remembered_is_not_left_to_a_later_holder(world: World) -> None:
    """Neither a grant everywhere nor a session's; a denial stays, for it lets nothing through."""
    for everywhere in (True, False):
        record = await world.submit(arguments={"command": f"ls {everywhere}"})
        wish = Remember(everywhere=everywhere, lifetime=LIFETIMES[0][0])
        await world.core.requests.decide(click(record, remember=wish))
    refused = await world.submit(arguments={"command": "rm"})
    wish = Remember(everywhere=True, lifetime=LIFETIMES[0][0])
    await world.core.requests.decide(click(refused, Action.DENY, remember=wish))
    mine = await successor(world)
    assert [one.effect for one in await world.core.grants.all(AGENT)] == [Effect.DENY]

    async def asked(command: str) -> StoredRequest:
        draft = request(id=new_id(), arguments={"command": command})
        return (await world.approvals.submit(draft, mine))[0]

    assert (await asked("ls True")).status is Status.PENDING
    assert (await asked("ls False")).status is Status.PENDING
    assert (await asked("rm")).status is Status.DENIED
