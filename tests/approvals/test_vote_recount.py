"""Votes under a policy that changes: cards say at once what counts at the next click."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.cards.card import card_of
from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.errors import Unauthorized
from gateway.models import Status
from gateway.server.background import adapter_api, follow_policy
from tests.world import World, click, identity, policy

PAIR = Route(approvers=("ann", "bob", "eve"), quorum=2)


def progress(record: StoredRequest) -> str:
    """Return what a card says of the votes."""
    return card_of(record, lines=5, chars=500).progress


async def test_a_removed_approvers_vote_leaves_the_card(world: World) -> None:
    """Without a click, on every waiting request that can be read, with an event; those of the
    others stay."""
    await world.route(PAIR)
    corrupt = await world.core.requests.decide(click(await world.submit()))
    await world.store.redis.hset(world.store.keys.record(corrupt.id), "body", "{")
    both = [await world.submit(), await world.submit()]
    for record, name in zip(both, ("ann", "bob"), strict=True):
        await world.core.requests.decide(click(record, identity=identity(name)))
    following = asyncio.create_task(follow_policy(world.core, world.store))
    await world.credentials.revoke_approver("ann")
    events = await world.until(lambda found: found[-1].type == "recounted")
    following.cancel()
    assert [event.request_id for event in events if event.type == "recounted"] == [both[0].id]
    first, second = [await world.core.requests.get(one.id) for one in both]
    assert (progress(first), progress(second)) == (
        "0 of 2 approvals; waits for bob and eve",
        "1 of 2 approvals: bob; waits for eve",
    )
    # Cards of the revision before still take a click: what would run is the same.
    after = await world.core.requests.decide(click(both[0], identity=identity("bob")))
    told = "1 of 2 approvals: bob; waits for eve"
    assert (after.status, progress(after)) == (Status.PENDING, told)


async def test_who_was_removed_reveals_and_lifts_nothing(world: World) -> None:
    """Also on a replica that has not heard of the new policy yet: no script checks these."""
    record = await world.submit(arguments={"token": "ghp_" + "a" * 36})
    api = adapter_api("web", world.core, world.store)
    await api.requests.reveal(record.id, identity("ann"))
    await world.credentials.revoke_approver("ann")
    with pytest.raises(Unauthorized):
        await api.requests.reveal(record.id, identity("ann"))
    await policy(world.store, Route(approvers=("bob",)))
    assert await api.operator.lift("bot", identity("bob")) is False
    await policy(world.store, Route(approvers=("eve",)))
    with pytest.raises(Unauthorized):
        await api.operator.lift("bot", identity("bob"))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
async def test_a_quorum_may_be_raised_for_what_waits_and_never_lowered(
    world: World, before: int, after: int
) -> None:
    """The stricter of the two holds: that of its birth, or that of now."""
    await world.route(replace(PAIR, quorum=before))
    record = await world.submit()
    await world.route(replace(PAIR, quorum=after))
    voted = await world.core.requests.decide(click(record, identity=identity("ann")))
    assert not voted.final
    both = click(voted, identity=identity("bob"))
    assert (await world.core.requests.decide(both)).status is Status.APPROVED
