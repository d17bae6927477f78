"""Clicks on requests that this process, or another one, has seen before."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.errors import Conflict, NotFound, Unauthorized
from gateway.models import Action, Status
from gateway.server.background import adapter_api
from tests.world import World, assembled, click, identity, policy


@pytest.fixture
async def replica(world: World, server_url: str) -> AsyncIterator[World]:
    """Yield another gateway process on the world's namespace."""
    async with assembled(server_url, world.store.keys.namespace) as other:
        yield other


async def edited_elsewhere(world: World, replica: World) -> tuple[StoredRequest, StoredRequest]:
    """Return a request as one process remembers it, and as another has edited it since."""
    await policy(world.store, Route(approvers=("ann", "bob"), quorum=2))
    for one in (world, replica):
        one.core.writer.forget_policy()
    record = await world.submit()
    edit = click(record, Action.EDIT, arguments={"command": "pwd"})
    return record, await replica.core.requests.decide(edit)


async def test_a_click_on_a_request_seen_before_is_one_round_trip(world: World) -> None:
    """The record need not be read again: the script compares its revision."""
    record = await world.submit()
    await world.core.requests.decide(
        click(await world.submit())
    )  # the script and the policy are known
    reads = (await world.store.redis.info("commandstats")).get("cmdstat_hgetall", {"calls": 0})
    assert (await world.core.requests.decide(click(record))).final
    again = (await world.store.redis.info("commandstats")).get("cmdstat_hgetall", {"calls": 0})
    assert reads["calls"] == again["calls"]


async def test_a_remembered_request_that_another_replica_decided_is_decided(
    world: World, replica: World
) -> None:
    """Memory never wins: the late click is told how the request stands."""
    record = await world.submit()
    await replica.core.requests.decide(click(record, Action.DENY))
    assert world.store.recent(record.id) == record
    with pytest.raises(Conflict, match="denied by ann"):
        await world.core.requests.decide(click(record, identity=identity("bob")))
    assert (await world.core.requests.get(record.id)).status is Status.DENIED


async def test_a_remembered_request_that_was_edited_elsewhere_is_looked_at_again(
    world: World, replica: World
) -> None:
    """A click on the new revision is good, though this process remembers the old one."""
    record, edited = await edited_elsewhere(world, replica)
    assert world.store.recent(record.id) == record
    with pytest.raises(Conflict, match="changed since"):
        await world.core.requests.decide(click(record, identity=identity("bob")))
    final = await world.core.requests.decide(click(edited, identity=identity("bob")))
    assert final.decision is not None
    assert final.decision.arguments == {"command": "pwd"}


async def test_what_a_card_shows_is_read_again_only_for_a_card_of_another_revision(
    world: World, replica: World
) -> None:
    """An old card is judged by what it shows, and its click refused; a new one by what is new."""
    record, edited = await edited_elsewhere(world, replica)
    api = adapter_api("web", world.core, world.store)
    assert await api.requests.get(record.id, revision=record.revision) == record
    assert await api.requests.get(record.id, revision=edited.revision) == edited
    with pytest.raises(NotFound):
        await api.requests.get("0" * 32, revision=1)


async def test_a_refusal_is_audited_once(world: World) -> None:
    """Also when the first look was from memory."""
    record = await world.submit()
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(record, identity=identity("eve")))
    assert [event.type for event in await world.events()].count("refused") == 1


async def test_each_vote_of_a_quorum_is_told_the_truth_when_retried(world: World) -> None:
    """A retried click is not called a second vote, also when others voted since."""
    await policy(world.store, Route(approvers=("ann", "bob", "eve"), quorum=3))
    world.core.writer.forget_policy()
    record = await world.submit()
    first, second = click(record), click(record, identity=identity("bob"))
    await world.core.requests.decide(first)
    await world.core.requests.decide(second)
    for retried in (first, second):
        assert len((await world.core.requests.decide(retried)).votes) == 2
    final = await world.core.requests.decide(click(record, identity=identity("eve")))
    assert await world.core.requests.decide(first) == final
    with pytest.raises(Conflict, match="already"):
        await world.core.requests.decide(click(record))
