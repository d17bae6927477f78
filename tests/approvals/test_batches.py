"""One answer to several requests: all of them are decided, or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.domain.policy_document import Route
from gateway.domain.records import Click, Remember, StoredRequest
from gateway.errors import BatchRefused, InvalidRequest
from gateway.models import Action, Reason, Risk, RiskLevel, Status, new_id
from gateway.wire.codec import plain
from tests.world import World, assembled, click, identity, over_http, policy, request

HIGH = Risk(level=RiskLevel.HIGH)


@pytest.fixture
async def replica(world: World, server_url: str) -> AsyncIterator[World]:
    """Yield another gateway process on the world's namespace."""
    async with assembled(server_url, world.store.keys.namespace) as other:
        yield other


def ticked(
    records: list[StoredRequest], action: Action = Action.APPROVE, **more: object
) -> list[Click]:
    """Return ann's one answer to these requests."""
    nonce = new_id()
    return [click(record, action, nonce=nonce, **more) for record in records]


async def ended(world: World) -> dict[str, int]:
    """Return how many decisions the audit holds of each request."""
    found: dict[str, int] = {}
    for event in await world.events():
        if event.type in ("approved", "denied", "expired", "cancelled"):
            found[event.request_id] = found.get(event.request_id, 0) + 1
    return found


async def test_each_decision_of_a_batch_is_an_ordinary_one(world: World) -> None:
    """Its own record, event, signature and reply; what was not ticked still waits."""
    asked = [request(arguments={"command": f"ls {n}"}) for n in range(3)]
    for one in asked:
        await world.send("submit", plain(one))
        await world.handled()
        await world.reply()
    first, second, third = await world.store.load_many([one.id for one in asked])
    assert first and second and third
    after = await world.core.requests.decide_all(
        ticked([first, second], Action.DENY, message="not on a Friday", note="ticket 1")
    )
    assert [record.status for record in after] == [Status.DENIED] * 2
    for record, now in zip((first, second), after, strict=True):
        found = await world.core.requests.get(record.id)
        assert found == now
        decision = found.decision
        assert decision is not None and decision.signature is not None
        assert (decision.digest, decision.decided_by.name) == (record.digest, "ann")
        told = await world.reply()
        assert told["state"]["decision"]["message"] == "not on a Friday"
        denied = [one for one in await world.events(record.id) if one.type == "denied"]
        assert [one.data["note"] for one in denied] == ["ticket 1"]
    assert not (await world.core.requests.get(third.id)).final


Spoil = Callable[[World, StoredRequest], Awaitable[StoredRequest]]


async def _edited(world: World, record: StoredRequest) -> StoredRequest:
    edit = click(record, Action.EDIT, identity=identity("bob"), arguments={"command": "pwd"})
    await world.core.requests.decide(edit)
    return record


async def _ended(world: World, record: StoredRequest) -> StoredRequest:
    await world.approvals.cancel(record.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    return record


async def _unknown(world: World, record: StoredRequest) -> StoredRequest:
    return replace(record, request=replace(record.request, id=new_id()))


async def _voted(world: World, record: StoredRequest) -> StoredRequest:
    return await world.core.requests.decide(click(record))


async def _late(world: World, record: StoredRequest) -> StoredRequest:
    await world.store.redis.hset(world.store.keys.record(record.id), "deadline", record.created)
    return await world.core.requests.get(record.id)


async def _high(world: World, record: StoredRequest) -> StoredRequest:
    return await world.submit(risk=HIGH)


async def _not_hers(world: World, record: StoredRequest) -> StoredRequest:
    return await world.submit(tool="deploy")


async def _own(world: World, record: StoredRequest) -> StoredRequest:
    made, _ = await world.approvals.submit(request(tool="own"), replace(over_http(), owner="ann"))
    return made


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_edited, "changed since you saw it"),
        (_ended, "cancelled by the agent"),
        (
            _unknown,
            "there is no such request",
        ),
        (_voted, "You approved; waits for 1 more"),
        (_late, "expired before your decision"),
        (_high, "decide high-risk requests one at a time"),
        (_not_hers, "not an approver"),
        (_own, "submitted this request yourself"),
    ],
)
@pytest.mark.parametrize("place", [0, 2])
async def test_one_that_cannot_be_decided_stops_all(
    world: World, spoil: Spoil, why: str, place: int
) -> None:
    """Nothing is decided, wherever it stands, and the person is told which one it was."""
    await policy(
        world.store,
        Route(name="deploys", tools=("deploy",), approvers=("bob",)),
        Route(name="own", tools=("own",), approvers=("ann", "bob"), self_approval=False),
        Route(name="all", approvers=("ann", "bob"), quorum=2),
    )
    world.core.writer.forget_policy()
    good = [await world.submit() for _ in range(2)]
    bad = await spoil(world, await world.submit())
    before = await world.store.load_many([one.id for one in good])
    clicks = ticked([*good[:place], bad, *good[place:]])
    with pytest.raises(BatchRefused, match=why) as refused:
        await world.core.requests.decide_all(clicks)
    assert list(refused.value.reasons) == [bad.id]
    assert await world.store.load_many([one.id for one in good]) == before


async def test_high_risk_is_denied_with_others(world: World) -> None:
    """It is approved alone; whoever denies need not read all of it."""
    records = [await world.submit(), await _high(world, await world.submit())]
    done = await world.core.requests.decide_all(ticked(records, action=Action.DENY))
    assert [one.status for one in done] == [Status.DENIED] * 2


async def test_the_kill_switch_stops_a_batch_of_approvals(world: World) -> None:
    """The script itself looks, as for a single click; a batch of denials still goes through."""
    records = [await world.submit() for _ in range(2)]
    await world.store.set_stopped(True, by="test")
    with pytest.raises(BatchRefused, match="kill switch"):
        await world.core.requests.decide_all(ticked(records))
    assert await ended(world) == {}
    await world.core.requests.decide_all(ticked(records, Action.DENY))
    assert await ended(world) == {record.id: 1 for record in records}


async def test_a_batch_is_one_answer_of_one_person_to_one_agent(world: World) -> None:
    """Anything else is refused as a whole, before anybody looks."""
    one, two = await world.submit(), await world.submit()
    await world.credentials.add_agent("other")
    other, _ = await world.approvals.submit(request(agent="other"), over_http(agent="other"))
    mixed = [click(one), click(two, Action.DENY)]
    two_people = [click(one), click(two, identity=identity("bob"))]
    for clicks in (
        [],
        ticked([one, one]),
        ticked([one, other]),
        mixed,
        two_people,
        ticked([one, two], Action.RESPOND, result="x"),
        ticked([one, two], remember=Remember()),
        ticked([replace(one, request=replace(one.request, id=new_id())) for _ in range(51)]),
    ):
        with pytest.raises(InvalidRequest):
            await world.core.requests.decide_all(clicks)
    assert await ended(world) == {}


async def test_a_retried_batch_is_told_what_it_did(world: World, replica: World) -> None:
    """The same batch again, also elsewhere, is told that it won; a part of it is told the end."""
    records = [await world.submit() for _ in range(3)]
    clicks = ticked(records)
    first = await world.core.requests.decide_all(clicks)
    again = await replica.core.requests.decide_all(list(reversed(clicks)))
    assert again == list(reversed(first))
    with pytest.raises(BatchRefused, match="decided already"):
        await world.core.requests.decide_all(clicks[:2])
    assert await ended(world) == {record.id: 1 for record in records}


async def test_a_quorum_counts_the_people_of_two_batches(world: World) -> None:
    """The first batch votes on each, the second decides each."""
    await policy(world.store, Route(approvers=("ann", "bob"), quorum=2))
    world.core.writer.forget_policy()
    records = [await world.submit() for _ in range(2)]
    voted = await world.core.requests.decide_all(ticked(records))
    assert [len(one.votes) for one in voted] == [1, 1]
    done = await world.core.requests.decide_all(ticked(voted, identity=identity("bob")))
    assert [one.status for one in done] == [Status.APPROVED] * 2


async def test_racing_batches_and_clicks_decide_each_request_once(
    world: World, replica: World
) -> None:
    """Two replicas, batches that overlap, and single clicks between: every batch is whole."""
    for _ in range(8):
        records = [await world.submit() for _ in range(6)]
        batches = [
            (world, ticked(records[:4])),
            (replica, ticked(records[2:], Action.DENY, identity=identity("bob"))),
            (replica, ticked(records[1:3], identity=identity("bob"))),
        ]
        single = world.core.requests.decide(click(records[5], Action.DENY))
        answers = await asyncio.gather(
            *(one.core.requests.decide_all(clicks) for one, clicks in batches),
            single,
            return_exceptions=True,
        )
        for (_, clicks), answer in zip(batches, answers, strict=False):
            assert not isinstance(answer, Exception) or isinstance(answer, BatchRefused), answer
            for each in clicks:
                decision = (await world.core.requests.get(each.request_id)).decision
                mine = decision is not None and (
                    decision.decided_by.name == each.identity.id and decision.action == each.action
                )
                if isinstance(answer, list):
                    assert mine
        assert any(isinstance(answer, list) for answer in answers[:3])
    assert set((await ended(world)).values()) == {1}


KINDS = ("good", "stale", "ended", "high", "foreign")


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
async def test_whatever_is_in_a_batch_all_or_none_of_it_is_decided(
    server_url: str, kinds: list[str]
) -> None:
    """Of any mixture, either everything is decided as asked, or the audit has not grown."""
    async with assembled(server_url, f"t{new_id()}") as world:
        await policy(
            world.store,
            Route(tools=("deploy",), approvers=("bob",)),
            Route(approvers=("ann", "bob")),
        )
        world.core.writer.forget_policy()
        records = []
        for kind in kinds:
            risk = HIGH if kind == "high" else None
            record = await world.submit(tool="deploy" if kind == "foreign" else "ls", risk=risk)
            if kind == "stale":
                record = replace(record, revision=record.revision + 1)
            if kind == "ended":
                await world.core.requests.decide(click(record, identity=identity("bob")))
            records.append(record)
        before = await world.events()
        try:
            await world.core.requests.decide_all(ticked(records))
        except BatchRefused as refused:
            bad = {one.id for one, kind in zip(records, kinds, strict=True) if kind != "good"}
            assert set(refused.reasons) == bad
            after = await world.events()
            assert [one for one in after if one.type != "refused"] == before
        else:
            assert set(kinds) == {"good"}
            assert await ended(world) == {record.id: 1 for record in records}
