"""Cards posted just before a crash come to show the truth, where the platform tells them apart."""

from __future__ import annotations

import asyncio

import pytest

from gateway.cards.card import Card
from gateway.delivery.outbox_worker import TIMINGS, Timings
from gateway.domain.records import MessageRef
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.models import Action
from gateway.ports.outgoing import CopyState, DeliveryUncertain, RetryLater
from tests.delivery.test_outbox import Office, route
from tests.recording import RecordingAdapter
from tests.waiting import moment
from tests.world import World, click


@pytest.fixture
async def office(world: World) -> Office:
    """Return an office whose platform makes one message of a nonce, and loses one answer."""
    await route(world)
    office = Office(world, RecordingAdapter(repeatable=True))
    office.adapter.after = [DeliveryUncertain("no answer")]
    return office


async def settled(office: Office) -> None:
    """Look until nothing is left to do."""
    while await office.due():
        await office.soon()
        await office.settle()


async def test_it_shows_what_changed_meanwhile(office: Office) -> None:
    """Posting again changes nothing on the platform, so the message is edited afterwards."""
    record = await office.world.submit()
    await office.settle()
    await office.world.core.requests.decide(
        click(record, Action.EDIT, arguments={"command": "ls -l"})
    )
    await settled(office)
    assert office.adapter.shown("rec:a").word == "Approved with changes"
    assert await office.state(record) is CopyState.POSTED


async def test_it_shows_the_end_though_the_platform_was_busy_at_first(office: Office) -> None:
    """Being told to wait does not mean that the message is not there."""
    record = await office.world.submit()
    await office.settle()
    office.adapter.failures = [RetryLater(0.001), RetryLater(0.001)]
    await office.soon()
    await office.settle()
    await office.world.core.requests.decide(click(record, Action.DENY))
    await settled(office)
    assert len(office.adapter.messages) == 1
    assert office.adapter.shown("rec:a").word == "Denied"


async def test_nothing_is_posted_of_what_ended_before(office: Office) -> None:
    """A card that was never sent is not sent of an ended request."""
    office.adapter.after, office.adapter.failures = [], [RetryLater(60)]
    record = await office.world.submit()
    await office.settle()
    await office.world.core.requests.decide(click(record, Action.DENY))
    await settled(office)
    assert office.adapter.messages == {}


async def test_what_takes_long_is_left_to_whoever_began_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases are short, so that a killed replica is soon replaced, and renewed while one works."""
    await route(world)
    office, seconds = Office(world, timings=Timings(lease=0.3)), asyncio.get_running_loop().time
    posting, go_on = asyncio.Event(), asyncio.Event()
    deliver = office.adapter.deliver

    async def slowly(target: str, card: Card, nonce: str) -> MessageRef:
        posting.set()
        await go_on.wait()
        return await deliver(target, card, nonce)

    monkeypatch.setattr(office.adapter, "deliver", slowly)
    await world.submit()
    working = asyncio.create_task(office.cards.run())
    await posting.wait()
    until = seconds() + 1.0
    while seconds() < until:
        assert await office.outbox.lease_due("rec", limit=5, lease_ms=1000) == []
    go_on.set()
    while await office.due():
        await moment()
    await cancel_and_wait(working)
    assert len(office.adapter.messages) == 1


async def test_what_a_killed_replica_looked_at_is_soon_looked_at_by_another(world: World) -> None:
    """Its lease runs out by itself, within seconds."""
    await route(world)
    office = Office(world)
    await world.submit()
    (task,) = await office.outbox.lease_due("rec", limit=5, lease_ms=int(TIMINGS.lease * 1000))
    now = world.clock.now_ms()
    assert now < int(task.lease) <= now + 6_100
