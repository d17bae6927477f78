"""The word to who wants to know how it ended: never lost in a crash, twice at most."""

from __future__ import annotations

import pytest

from gateway.domain.records import StoredRequest
from gateway.ports.outgoing import Copy, CopyState, DeliveryFailed, DeliveryUncertain
from tests.delivery.test_outbox import Office, route
from tests.recording import RecordingAdapter
from tests.world import World, click

LOG = "rec:log"


async def office_of(world: World, *, repeatable: bool) -> Office:
    """Return an office on a route that tells the outcome at one more place."""
    await route(world, notify=(LOG,))
    return Office(world, RecordingAdapter(repeatable=repeatable))


async def ended_in_a_crash(office: Office) -> StoredRequest:
    """Return a decided request whose outcome a gateway that died was about to tell."""
    record = await office.world.submit()
    await office.settle()
    await office.api.requests.decide(click(record))
    left = Copy(
        target=LOG,
        nonce="n" * 22,
        state=CopyState.INTENDED,
        at=office.clock.now_ms(),
        outcome=True,
        tries=1,
    )
    assert await office.outbox.put_copy(record.id, left, before=None)
    await office.settle()
    return record


async def told(office: Office, record: StoredRequest) -> CopyState:
    """Return how far the telling has come."""
    return (await office.outbox.copies(record.id))[f"outcome {LOG}"].state


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_crash_while_it_is_told_loses_nothing(world: World, repeatable: bool) -> None:
    """It is told again: at once where that makes one message, else when no other can be at it."""
    office = await office_of(world, repeatable=repeatable)
    record = await ended_in_a_crash(office)
    assert len(office.adapter.notices) == int(repeatable)
    office.clock.seconds = 31
    await office.soon()
    await office.settle()
    ((notice, card),) = office.adapter.notices
    assert notice.nonce == "n" * 22
    assert card.outcome is not None
    assert await told(office, record) is CopyState.POSTED
    assert await office.due() == 0


async def test_it_is_not_told_for_ever(world: World) -> None:
    """Where each telling may be a message of its own, the second is the last, and it is noted."""
    office = await office_of(world, repeatable=False)
    record = await ended_in_a_crash(office)
    office.adapter.after = [DeliveryUncertain("no answer")]
    for seconds in (31, 62, 93):
        office.clock.seconds = seconds
        await office.soon()
        await office.settle()
    assert len(office.adapter.notices) == 1
    assert await told(office, record) is CopyState.FAILED
    noted = [one.data for one in await office.world.events() if one.type == "undelivered"]
    assert [(one["target"], one["why"]) for one in noted] == [(LOG, "no answer")]
    assert await office.due() == 0


async def test_no_answer_is_asked_again_where_that_makes_one_message(world: World) -> None:
    """The platform tells repeated ones apart."""
    office = await office_of(world, repeatable=True)
    record = await office.world.submit()
    await office.settle()
    office.adapter.failures = [None, DeliveryUncertain("503")]
    await office.api.requests.decide(click(record))
    await office.settle()
    assert await told(office, record) is CopyState.INTENDED
    await office.soon()
    await office.settle()
    assert await told(office, record) is CopyState.POSTED


async def test_a_place_that_refuses_is_noted(world: World) -> None:
    """Nothing is told there again."""
    office = await office_of(world, repeatable=False)
    record = await office.world.submit()
    await office.settle()
    office.adapter.failures = [None, DeliveryFailed("no such channel")]
    await office.api.requests.decide(click(record))
    await office.settle()
    assert await told(office, record) is CopyState.FAILED
    assert await office.due() == 0
