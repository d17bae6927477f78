"""One copy of a card fails, or the policy changes meanwhile: the other copies stay true."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.approvals.request_writer import FOLLOWUPS, PostedCopies
from gateway.cards.card import Card
from gateway.delivery.outbox_worker import Timings
from gateway.delivery.reminders_and_escalation import GRACE_SECONDS
from gateway.domain.policy_document import Escalation
from gateway.domain.records import MessageRef
from gateway.models import Status
from gateway.ports import Notice, Rate, RateLimiter, Shown
from gateway.ports.outgoing import Copy, CopyState, DeliveryUncertain, RetryLater
from gateway.stores.outbox import RedisAdapterStorage, RedisOutbox
from tests.delivery.test_outbox import Office, route
from tests.recording import RecordingAdapter
from tests.world import World, click

BOTH = ("rec:a", "rec:b")


async def test_a_bug_at_one_copy_stops_no_other(world: World) -> None:
    """Both copies are edited in one look, though editing the first one raises."""
    await route(world, targets=BOTH)
    office = Office(world)
    record = await world.submit()
    await office.settle()
    office.adapter.failures = [RuntimeError("a bug")]
    await office.api.requests.decide(click(record))
    await office.settle()
    assert office.adapter.shown("rec:a").word == "Approval needed"
    assert office.adapter.shown("rec:b").word == "Approved"
    office.clock.seconds = 6
    await office.soon()
    await office.settle()
    assert office.adapter.shown("rec:a").word == "Approved"


async def test_an_edit_that_hangs_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up in time for the other copies, and made later."""
    await route(world, targets=BOTH)
    office = Office(world, timings=Timings(call=0.2))
    record = await world.submit()
    await office.settle()
    update = office.adapter.update

    async def hangs(ref: MessageRef, card: Card, nonce: str) -> None:
        if ref.channel == "rec:a":
            await asyncio.Event().wait()
        await update(ref, card, nonce)

    monkeypatch.setattr(office.adapter, "update", hangs)
    await office.api.requests.decide(click(record))
    await office.settle()
    assert office.adapter.shown("rec:b").word == "Approved"
    assert await office.due() == 1


async def test_a_place_that_was_removed_meanwhile_gets_no_card(world: World) -> None:
    """It was to be posted later; by then the policy names another place."""
    await route(world)
    office = Office(world)
    office.adapter.failures = [RetryLater(60)]
    await world.submit()
    await office.settle()
    await route(world, targets=("rec:b",))
    await office.soon()
    await office.settle()
    assert [one.target for one in office.adapter.messages.values()] == ["rec:b"]


async def test_an_escalation_reaches_an_adapter_that_was_added_meanwhile(world: World) -> None:
    """Its queue hears of the request from then on, of its end too."""
    await route(world)
    office = Office(world)
    record = await world.submit()
    await office.settle()
    await route(world, escalations=(Escalation(after=300, targets=("new:boss",)),))
    office.clock.seconds = 301
    await office.outbox.mark(FOLLOWUPS, record.id)
    await office.settle()
    (task,) = await office.outbox.lease_due("new", limit=5, lease_ms=1000)
    assert await office.outbox.ack("new", task)
    await office.api.requests.decide(click(await office.api.requests.get(record.id)))
    assert await office.due("new") == 1


async def test_the_next_place_is_asked_when_nobody_knows_of_the_first(world: World) -> None:
    """A post without an answer is not relied on, and is not the end of the request either."""
    await route(world, escalations=(Escalation(after=900, targets=("rec:boss",)),))
    office = Office(world)
    office.adapter.after = [DeliveryUncertain("no answer")] * 2
    record = await world.submit()
    await office.settle()
    assert len(office.adapter.messages) == 1
    for seconds in (GRACE_SECONDS + 1, 2 * GRACE_SECONDS + 2):
        office.clock.seconds = seconds
        await office.soon(FOLLOWUPS)
        await office.settle()
    assert {one.target for one in office.adapter.messages.values()} == {"rec:a", "rec:boss"}
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


RATE = Rate(1, 60.0)  # of one place


class Queueing(RecordingAdapter):
    """Its places take so many posts, in turn."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.notes = RedisAdapterStorage(world.store, "rec")
        self.pace = RateLimiter(self.notes)

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        async with self.pace.turn(target, RATE, nonce):
            return await super().deliver(target, shown, nonce)

    async def tell(self, notice: Notice, shown: Shown) -> None:
        async with self.pace.turn(notice.target, RATE, notice.nonce):
            await super().tell(notice, shown)


async def line(world: World, target: str) -> list[str]:
    """Return who stands in the line of a place."""
    key = world.store.keys.note("rec", f"line {target}")
    found: list[str] = await world.store.redis.zrange(key, 0, -1)
    return found


async def test_a_card_that_is_not_to_be_posted_leaves_its_line(world: World) -> None:
    """It waits at two places: one is no longer in the policy, at the other the request ends."""
    await route(world, targets=BOTH)
    adapter = Queueing(world)
    office = Office(world, adapter)
    for target in BOTH:
        async with adapter.pace.turn(target, RATE, "another"):
            pass
    record = await world.submit()
    await office.settle()
    due = {one.target: one.nonce for one in (await office.outbox.copies(record.id)).values()}
    assert [await line(world, target) for target in BOTH] == [[due[target]] for target in BOTH]
    await route(world, targets=("rec:a",))
    await office.soon()
    await office.settle()
    assert [await line(world, target) for target in BOTH] == [[due["rec:a"]], []]
    await office.api.requests.decide(click(record))
    await office.settle()
    assert await line(world, "rec:a") == []
    assert await office.outbox.copies(record.id) == {}
    await office.soon()
    await office.settle()
    assert await office.due() == 0
    assert not adapter.messages


async def test_a_reminder_of_what_ended_leaves_its_line(world: World) -> None:
    """The reminder waits for its turn when the request is decided: it is not given any more."""
    await route(world, remind_after=(60.0,))
    adapter = Queueing(world)
    office = Office(world, adapter)
    record = await world.submit()
    await office.settle()
    office.clock.seconds = 61
    await office.soon(FOLLOWUPS)
    await office.settle()
    (copy,) = (await office.outbox.copies(record.id)).values()
    assert await line(world, copy.target) == [copy.nonce]
    await office.api.requests.decide(click(await office.api.requests.get(record.id)))
    await office.settle()
    assert await line(world, copy.target) == []
    assert not adapter.notices
    assert await office.due() == 0


async def test_a_reminder_without_an_answer_is_not_repeated(world: World) -> None:
    """One reminder too few is better than one every few seconds."""
    await route(world, remind_after=(60.0,))
    office = Office(world)
    await world.submit()
    await office.settle()
    office.clock.seconds = 61
    office.adapter.after = [None, DeliveryUncertain("no answer")]
    for _ in range(2):
        await office.soon()
        await office.soon(FOLLOWUPS)
        await office.settle()
    assert len(office.adapter.notices) == 1


async def test_a_place_that_also_wants_to_know_gets_a_card_and_a_notice(world: World) -> None:
    """`notify` and `targets` name one place: the card stays a card, and the outcome is told."""
    await route(world, notify=("rec:a",))
    office = Office(world)
    record = await world.submit()
    await office.settle()
    message = office.adapter.messages["1"]
    ref = MessageRef(adapter="rec", channel="rec:a", message="1")
    await office.api.requests.decide(click(record, copy=message.nonce, ref=ref))
    await office.settle()
    assert office.adapter.shown("rec:a").word == "Approved"
    assert [notice.target for notice, _ in office.adapter.notices] == ["rec:a"]
    assert await office.due() == 0


class _Beside(RedisOutbox):
    """Writes to a copy just after it was read, as whoever posts it does."""

    why = "no answer"

    async def copies(self, request_id: str) -> dict[str, Copy]:
        found = await super().copies(request_id)
        for copy in found.values() if self.why else ():
            await self.put_copy(request_id, replace(copy, why=self.why), before=copy)
        self.why = ""
        return found


async def test_a_card_is_adopted_whatever_is_written_beside_the_click(world: World) -> None:
    """The first click after a crash says where a card stands; that it is not known, written down at
    the same time, does not undo this."""
    outbox = _Beside(world.store)
    record = await world.submit()
    copy = Copy(target="recording:c", nonce="n", state=CopyState.INTENDED, at=0)
    assert await outbox.put_copy(record.id, copy, before=None)
    ref = MessageRef(adapter="recording", channel="c", message="1")
    await PostedCopies(world.store, outbox).adopt(record.id, "n", ref)
    (kept,) = (await outbox.copies(record.id)).values()
    assert (kept.ref, kept.state, kept.why) == (ref, CopyState.POSTED, "no answer")
