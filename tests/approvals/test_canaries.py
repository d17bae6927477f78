"""Requests of the gateway's own: they look like any other, and nothing can ever come of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest

from gateway.approvals.canaries import BAITS, Canaries
from gateway.approvals.transitions import close_record
from gateway.cards.card import card_of
from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Query, Record, Remember, RequestOutcome
from gateway.domain.store import Transition, WriteResult
from gateway.errors import BatchRefused, Conflict, GatewayError, InvalidRequest, WasCanary
from gateway.models import Action, Execution, Kind, Reason, Report, Status, new_id
from gateway.policy.policy_file import BadPolicy, read_policy
from gateway.stores.outbox import RedisNotes
from tests.world import (
    AGENT,
    PROCESS,
    World,
    assembled,
    click,
    identity,
    over_http,
    policy,
    request,
)

_PAST = count(1)
RATE = 2.0
NAME = f"shells {RATE:g}"
SHELLS = Route(name="shells", tools=("shell",), approvers=("ann", "bob"), canaries_per_day=RATE)


@pytest.fixture
async def replica(world: World, server_url: str) -> AsyncIterator[World]:
    """Yield another gateway process on the world's namespace."""
    async with assembled(server_url, world.store.keys.namespace) as other:
        yield other


def maker(world: World) -> Canaries:
    """Return what makes canaries in this process."""
    notes = RedisNotes(world.store, "canaries")
    return Canaries(world.store, world.core.writer, notes, world.clock, Random(7))


async def due(world: World) -> None:
    """Let the time of the route's next canary have come."""
    await RedisNotes(world.store, "canaries").put(NAME, str(next(_PAST)))


async def route(world: World, **changes: Any) -> None:
    """Put the route that wants canaries in force."""
    await policy(world.store, replace(SHELLS, **changes), Route(approvers=("ann", "bob")))
    world.core.writer.forget_policy()


async def canary(world: World, **changes: Any) -> Record:
    """Return a canary that was just made, after a real request that is out of the way."""
    await route(world, **changes)
    real = await world.submit(kind=Kind.COMMAND, timeout=60.0)
    await world.core.requests.decide(click(real, Action.DENY))
    await due(world)
    (made,) = await maker(world).tick()
    return made


async def test_one_is_made_when_due_by_one_replica_and_looks_like_the_real_ones(
    world: World, replica: World
) -> None:
    """Never at once, never twice; its card tells nothing, and no agent or session has it."""
    await route(world)
    replica.core.writer.forget_policy()
    real = await world.submit(kind=Kind.COMMAND, session="s1", turn="t1")
    assert await maker(world).tick() == []
    planned = await RedisNotes(world.store, "canaries").get(NAME)
    assert planned is not None and int(planned) > world.clock.now_ms()
    await due(world)
    made = await asyncio.gather(maker(world).tick(), maker(replica).tick())
    (found,) = [one for some in made for one in some]
    assert found.request.arguments["command"] in BAITS
    assert await world.core.requests.get(found.id) == found
    card, other = (card_of(one, lines=50, chars=5000) for one in (found, real))
    assert " wants to " in card.summary and " wants to " in other.summary
    assert (card.title, card.facts, card.notices, card.controls) == (
        other.title,
        other.facts,
        other.notices,
        other.controls,
    )
    assert await world.store.pending_of(AGENT) == [real.id]
    assert [one.name for one in await world.store.sessions(None)] == ["s1"]
    mine = await world.core.requests.page(Query(agent=AGENT))
    assert [one.id for one in mine.items] == [real.id]
    assert {one.id for one in (await world.core.requests.page(Query())).items} == {
        real.id,
        found.id,
    }
    (event,) = await world.events(found.id)
    assert (event.agent, event.data["canary"]) == ("", True)


@pytest.mark.parametrize("action", [Action.APPROVE, Action.DENY])
async def test_no_agent_can_reach_one_before_or_after_its_end(world: World, action: Action) -> None:
    """Not even the agent that people see on it, and that knows the id."""
    found = await canary(world)
    for _ in range(2):
        for attempt in (
            world.approvals.consume(found.id, over_http()),
            world.approvals.cancel(found.id, over_http(), reason=Reason.ABANDONED),
            world.approvals.report(found.id, Report(execution=Execution.SUCCEEDED), over_http()),
            world.approvals.state(found.id, over_http()),
            world.approvals.submit(request(id=found.id), over_http()),
        ):
            with pytest.raises(GatewayError) as refused:
                await attempt
            assert refused.value.code in ("not_found", "unauthorized")
        assert await world.approvals.sync([found.id], over_http()) == []
        nonce = await world.send("sync", {"ids": [found.id]})
        await world.handled()
        told = await world.reply()
        assert (told["nonce"], told["error"]["code"]) == (nonce, "not_found")
        if not (await world.core.requests.get(found.id)).final:
            with pytest.raises(WasCanary):
                await world.core.requests.decide(click(found, action))
    ended_ = await world.core.requests.page(Query(final=True, agent=AGENT))
    assert found.id not in {one.id for one in ended_.items}


@pytest.mark.parametrize(
    ("action", "reason", "words"),
    [
        (Action.APPROVE, Reason.CANARY_MISSED, "nothing ran"),
        (Action.DENY, Reason.CANARY_CAUGHT, "Well seen"),
        (Action.ABORT, Reason.CANARY_CAUGHT, "Well seen"),
        (Action.EDIT, Reason.CANARY_CAUGHT, "Well seen"),
    ],
)
async def test_whatever_is_answered_it_ends_as_a_test_and_who_answered_is_told(
    world: World, action: Action, reason: Reason, words: str
) -> None:
    """Cancelled, with a reason of its own; told again when retried; others read no name."""
    found = await canary(world, quorum=2)
    answer = click(found, action, arguments={"command": "ls"}, remember=Remember())
    for _ in range(2):
        with pytest.raises(WasCanary, match=words):
            await world.core.requests.decide(answer)
    with pytest.raises(Conflict, match="a test by the gateway") as late:
        await world.core.requests.decide(click(found, identity=identity("bob")))
    assert "ann" not in str(late.value)
    decision = (await world.core.requests.get(found.id)).decision
    assert decision is not None
    assert (decision.status, decision.action) == (Status.CANCELLED, None)
    assert (decision.reason, decision.decided_by.name) == (reason, "ann")
    assert (decision.arguments, decision.result) == (None, None)
    kinds = [event.type for event in await world.events()]
    assert "grant_made" not in kinds
    assert kinds.count("approved") == 0


async def test_nothing_can_approve_one(world: World) -> None:
    """Neither a grant, nor our own code, nor a transition that claims it: the script refuses."""
    found = await canary(world)
    real = await world.submit(arguments=found.request.arguments, kind=Kind.COMMAND)
    remembered = click(real, remember=Remember(everywhere=True))
    await world.core.requests.decide(remembered)
    assert not (await world.core.requests.get(found.id)).final
    approval = RequestOutcome(status=Status.APPROVED, reason=Reason.RULE)
    with pytest.raises(InvalidRequest):
        close_record(found, approval, revision=2, now=1, sign=lambda one: one)
    forged = close_record(
        replace(found, canary=False), approval, revision=2, now=1, sign=lambda one: one
    )
    change = Transition(before=found, after=replace(forged, canary=True), event="approved")
    assert await world.store.change(change) == WriteResult.GONE
    assert not (await world.core.requests.get(found.id)).final


async def test_one_among_others_stops_a_batch_of_approvals(world: World) -> None:
    """Who did not see it has not read the others: none of those is decided, also when retried."""
    found = await canary(world)
    real = [await world.submit() for _ in range(2)]
    nonce = new_id()
    batch = [click(one, nonce=nonce) for one in (*real, found)]
    for _ in range(2):
        with pytest.raises(BatchRefused, match="nothing ran") as refused:
            await world.core.requests.decide_all(batch)
        assert list(refused.value.reasons) == [found.id]
    assert [one and one.final for one in await world.store.load_many([r.id for r in real])] == [
        False,
        False,
    ]
    other = await canary(world)
    denials = [click(one, Action.DENY, nonce=nonce) for one in (*real, other)]
    after = await world.core.requests.decide_all(denials)
    assert [one.status for one in after] == [Status.DENIED, Status.DENIED, Status.CANCELLED]


async def test_none_is_made_where_nobody_wants_or_expects_one(world: World) -> None:
    """Off by default; not on a route that asks nobody, without real requests, or while stopped."""
    for changes in ({"canaries_per_day": 0.0}, {"mode": Mode.AUTO_DENY}, {}):
        await route(world, **changes)
        await due(world)
        assert await maker(world).tick() == []
    await world.submit(arguments={"path": "a"})  # nothing that a command could be put into
    await world.submit(tool="other", kind=Kind.COMMAND)
    assert await maker(world).tick() == []
    await world.submit(kind=Kind.COMMAND)
    await world.store.set_stopped(True, by="test")
    assert await maker(world).tick() == []
    with pytest.raises(BadPolicy, match="canaries_per_day"):
        read_policy('[[routes]]\ncanaries_per_day = 25\napprovers = ["x:y"]')


async def test_the_report_counts_them_apart(world: World) -> None:
    """Caught and missed by person, unanswered too; none of it is a decision or an agent's."""
    for action in (Action.APPROVE, Action.DENY):
        found = await canary(world)
        with pytest.raises(WasCanary):
            await world.core.requests.decide(click(found, action))
    left = await canary(world, timeout=0.001)
    while not (await world.core.requests.get(left.id)).final:
        await world.approvals.expire(left.id)
    report = await world.core.reporting.read()
    (ann,) = report.approvers
    assert (ann.decisions, ann.denials) == (3, 3)
    assert (ann.canaries_caught, ann.canaries_missed) == (1, 1)
    assert [(one.name, one.requests, one.ended) for one in report.agents] == [(AGENT, 3, 3)]
    counts = report.canaries
    assert (counts.made, counts.caught, counts.missed, counts.unanswered) == (3, 1, 1, 1)
    pushed = await world.store.redis.xlen(world.store.keys.replies(AGENT, PROCESS))
    assert pushed == 0
