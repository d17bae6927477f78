"""Edits that a platform refuses: made again after longer and longer, and given up with a record."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest

from gateway.delivery.outbox_worker import TIMINGS, Timings, measure_outbox
from gateway.domain.policy_document import Escalation
from gateway.domain.records import MessageRef, StoredRequest
from gateway.models import Action
from gateway.ports.outgoing import (
    CopyGone,
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    RetryLater,
)
from tests.delivery.test_outbox import Office, route
from tests.recording import RecordingAdapter
from tests.world import World, click, identity

_DAY = 24 * 3600


@pytest.fixture
async def office(world: World) -> Office:
    """Return an office with one card, by a clock that the test turns."""
    await route(world)
    return Office(world)


async def claimed(office: Office) -> StoredRequest:
    """Return a request whose card is up, and which has changed since."""
    record = await office.world.submit()
    await office.settle()
    await office.api.requests.claim(record.id, identity("ann"))
    return record


async def tries_of(office: Office, seconds: int) -> list[float]:
    """Turn the clock for so long; return when each edit was tried, in seconds of that clock."""
    tried, begun = list[float](), int(office.clock.seconds)
    for second in range(begun, begun + seconds):
        office.clock.seconds = second
        at = office.clock.now_ms() / 1000
        left = len(office.adapter.failures)
        await office.soon()
        await office.settle()
        tried += [at] * (left - len(office.adapter.failures))
    return tried


async def test_they_are_made_after_longer_and_longer(office: Office) -> None:
    """After 5, 10, 20 seconds; whoever looks in between does not ask the platform."""
    await claimed(office)
    office.adapter.failures = [DeliveryFailed("not allowed")] * 10
    tried = await tries_of(office, 45)
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert [int((pause + 1) // 5) for pause in pauses][:3] == [1, 2, 4]
    office.adapter.failures = []
    office.clock.seconds = _DAY
    await office.soon()
    await office.settle()
    assert office.adapter.shown("rec:a").claimed
    assert await office.due() == 0


async def test_the_end_is_written_down_and_the_next_change_begins_anew(office: Office) -> None:
    """The copy is stuck, the audit says why, once; it is tried on, more seldom, and a decision
    afterwards is shown at once."""
    office = Office(office.world, timings=Timings(most_refusals=3))
    record = await claimed(office)
    office.adapter.failures = [DeliveryFailed("not allowed")] * 4
    for turn in range(4):
        office.clock.seconds = turn * _DAY
        await office.soon()
        await office.settle()
    assert await office.state(record) is CopyState.STUCK
    assert await office.due() == 1
    (stuck,) = [one for one in await office.world.events() if one.type == "copy_stuck"]
    assert (stuck.data["target"], stuck.data["why"]) == ("rec:a", "not allowed")
    assert office.adapter.messages["1"].edits == 0
    message = office.adapter.messages["1"]
    known = (await office.outbox.copies(record.id))["rec:a"]
    pressed = click(record, Action.DENY, copy=message.nonce, ref=known.ref)
    await office.api.requests.decide(pressed)
    await office.settle()
    assert office.adapter.shown("rec:a").word == "Denied"
    assert await office.state(record) is CopyState.POSTED


async def test_what_was_stuck_heals_by_itself(office: Office) -> None:
    """What was refused for days is allowed again: the card comes true without another change."""
    office = Office(office.world, timings=Timings(most_refusals=2))
    record = await claimed(office)
    office.adapter.failures = [DeliveryFailed("locked")] * 5
    for turn in range(6):
        office.clock.seconds = turn * _DAY
        await office.soon()
        await office.settle()
    assert await office.state(record) is CopyState.POSTED
    assert office.adapter.shown("rec:a").claimed
    assert await office.due() == 0


async def test_a_deleted_card_is_posted_again_twice(office: Office) -> None:
    """Whoever deletes it a third time does not want it there; what ended is not posted again."""
    record = await claimed(office)
    gone = CopyGone("deleted", deleted=True)
    for count in range(3):
        office.adapter.failures = [gone]
        await office.api.requests.doubt_copies(lambda target, ref: target == "rec:a")
        for _ in range(2):
            await office.settle()
            await office.soon()
        assert len(office.adapter.messages) == min(count + 2, 3)
    assert await office.state(record) is CopyState.GONE
    ended = await office.world.submit(arguments={"n": 2})
    await office.settle()
    office.adapter.failures = [gone]
    await office.api.requests.decide(click(ended))
    await office.settle()
    assert len(office.adapter.messages) == 4
    assert await office.state(ended) is CopyState.GONE


@dataclass
class SilentAdapter(RecordingAdapter):
    """Its platform does not tell of deleted messages, and says when it is asked."""

    checks_copies: bool = True
    asked: int = 0

    async def check_copy(self, ref: MessageRef) -> None:
        self.asked += 1
        self._fail(self.failures)


async def test_what_no_platform_tells_is_asked_every_few_minutes(world: World) -> None:
    """Not sooner, whoever else looks, and not once it ended. No answer is no deletion. What waits
    for the next question is not counted as something to be looked at."""
    await route(world)
    adapter = SilentAdapter()
    office = Office(world, adapter)
    record = await world.submit()
    for seconds, answer, asked in (
        (0, None, 0),
        (299, None, 0),
        (301, None, 1),
        (302, None, 1),
        (602, DeliveryFailed("no access"), 2),
        (603, None, 2),
        (903, RetryLater(7), 3),
        (911, CopyGone("deleted", deleted=True), 4),
    ):
        office.clock.seconds = seconds
        await office.soon()
        adapter.failures = [answer] if asked > adapter.asked else []
        await office.settle()
        assert adapter.asked == asked, seconds
        assert await office.due() == 1
    await office.soon()
    await office.settle()
    assert (adapter.asked, len(adapter.messages)) == (4, 2)
    figures = await measure_outbox("rec", world.store, office.outbox, world.clock)
    assert (figures.waiting, figures.overdue, await office.due()) == (0, 0, 1)
    await office.api.requests.decide(click(record))
    await office.settle()
    assert (adapter.asked, await office.due()) == (4, 0)


async def test_a_place_where_nobody_can_answer_is_no_place(world: World) -> None:
    """Only waiting requests are concerned; what stood there is edited all the same."""
    step = Escalation(after=900, targets=("rec:b",))
    await route(world, escalations=(step,))
    office = Office(world)
    record = await world.submit()
    await office.settle()
    await office.api.requests.doubt_copies(lambda target, ref: True, away="removed")
    office.adapter.failures = [DeliveryFailed("not a member")]
    await office.settle()
    assert office.adapter.shown("rec:b").asks
    (gone,) = [one for one in await world.events() if one.type == "copy_gone"]
    assert gone.data["why"] == "removed"
    await office.api.requests.decide(click(await office.api.requests.get(record.id)))
    await office.settle()
    assert {one.card.word for one in office.adapter.messages.values()} == {"Approved"}


async def test_a_platform_that_does_not_answer_is_asked_until_it_does(office: Office) -> None:
    """However long it is gone, within half a minute of its return the card is true."""
    record = await claimed(office)
    office.adapter.failures = [DeliveryUncertain("503")] * (TIMINGS.most_refusals + 5)
    while office.adapter.failures:
        office.clock.seconds += 30
        await office.soon()
        await office.settle()
    assert await office.state(record) is CopyState.POSTED
    office.clock.seconds += 30
    await office.soon()
    await office.settle()
    assert office.adapter.shown("rec:a").claimed


async def test_a_reminder_that_is_refused_does_not_make_the_card_untrue(world: World) -> None:
    """The card is as it should be, and the reminder is not made every few seconds."""
    await route(world, remind_after=(60.0,))
    office = Office(world)
    record = await world.submit()
    await office.settle()
    office.clock.seconds = 61
    office.adapter.failures = [None, DeliveryFailed("thread is locked")]
    for _ in range(2):
        await office.soon("followups")
        await office.settle()
    assert (await office.outbox.copies(record.id))["rec:a"].reminders == 1
    assert office.adapter.notices == []
    assert await office.due() == 0
