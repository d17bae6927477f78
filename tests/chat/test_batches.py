"""A batch is opened, shown as far as there is room, and decided all at once or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.batch_cards import BatchCard
from gateway.chat.lists_and_batches import ChatBatches
from gateway.domain.records import StoredRequest
from gateway.errors import Conflict, InvalidRequest
from gateway.models import Action, Risk, RiskLevel, Status
from gateway.ports import AdapterApi
from tests.world import World, click, identity

HIGH = Risk(level=RiskLevel.HIGH, reasons=("deletes data",))
ANN = identity("ann")


@pytest.fixture
def batches(api: AdapterApi) -> ChatBatches:
    """Return what shows batches."""
    return ChatBatches(api, chars=9000, each=1500)


async def several(world: World, *more: dict[str, Any]) -> list[StoredRequest]:
    """Ask for all of it."""
    calls = ({"arguments": {"command": "ls a"}}, {"arguments": {"command": "ls b"}}, *more)
    return [await world.submit(**call) for call in calls]


async def states(world: World, asked: list[StoredRequest]) -> list[Status]:
    """Return how they stand."""
    return [(await world.core.requests.get(one.id)).status for one in asked]


@pytest.mark.parametrize("action", [Action.APPROVE, Action.DENY])
async def test_all_that_was_shown_is_decided(
    world: World, batches: ChatBatches, action: Action
) -> None:
    """By one tap, with one answer."""
    asked = await several(world)
    assert await batches.count(ANN, asked[0].id) == 2
    batch = await batches.open(ANN, asked[0].id, "k")
    assert batch is not None and batch.together
    said = await batches.decide(ANN, "k", action, "n")
    (state,) = set(await states(world, asked))
    assert said == f"All 2 are {state.value}."
    assert await batches.open(ANN, asked[0].id, "k") is None


@pytest.mark.parametrize(
    "alone",
    [
        {"arguments": {"command": "drop"}, "risk": HIGH},
        {"arguments": {"command": "x" * 5_000}},
        {"arguments": {"command": "echo password=shutdown-now | sh"}},
    ],
    ids=["high risk", "cut", "hiding"],
)
async def test_what_was_not_shown_whole_is_not_approved_at_once(
    world: World, batches: ChatBatches, alone: dict[str, Any]
) -> None:
    """A forged press decides nothing; denying takes no reading."""
    asked = await several(world, alone)
    batch = await batches.open(ANN, asked[0].id, "k")
    assert batch is not None and not batch.together
    with pytest.raises(InvalidRequest, match="not all of these requests can be read here"):
        await batches.decide(ANN, "k", Action.APPROVE, "n")
    assert await states(world, asked) == [Status.PENDING] * 3
    await batches.decide(ANN, "k", Action.DENY, "n")
    denied = [one.request_id for one in batch.items]
    for record in asked:
        now = await world.core.requests.get(record.id)
        assert (now.status is Status.DENIED) == (record.id in denied)


async def test_what_finds_no_room_is_not_decided(world: World, batches: ChatBatches) -> None:
    """A chat leaves out what it cannot show: it is counted, and nothing is approved at once."""
    asked = await several(world, {"arguments": {"command": "ls c"}})

    def fit(batch: BatchCard) -> BatchCard:
        return replace(batch, items=batch.items[:2], more=1)

    batch = await batches.open(ANN, asked[0].id, "k", fit)
    assert batch is not None and not batch.together and batch.deniable
    with pytest.raises(InvalidRequest):
        await batches.decide(ANN, "k", Action.APPROVE, "n")
    await batches.decide(ANN, "k", Action.DENY, "n")
    assert sorted(await states(world, asked)) == [Status.DENIED, Status.DENIED, Status.PENDING]


async def test_a_batch_of_which_one_changed_is_not_decided(
    world: World, batches: ChatBatches
) -> None:
    """Which stopped it, and why, is said for each."""
    asked = await several(world)
    await batches.open(ANN, asked[0].id, "k")
    await world.core.requests.decide(click(asked[1], Action.DENY))
    said = await batches.decide(ANN, "k", Action.APPROVE, "n")
    assert "othing was decided" in said and asked[1].id[:8] in said
    assert await states(world, asked) == [Status.PENDING, Status.DENIED]


async def test_a_batch_that_is_gone_says_so(batches: ChatBatches) -> None:
    """It is kept for an hour."""
    with pytest.raises(Conflict, match="open for too long"):
        await batches.decide(ANN, "gone", Action.DENY, "n")
