"""Posted cards: every copy converges to the truth, whatever fails in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.approvals.request_writer import FOLLOWUPS
from gateway.delivery.outbox_worker import TIMINGS, Timings, Worker
from gateway.delivery.posting_and_editing import PostedMessages
from gateway.delivery.reminders_and_escalation import GRACE_SECONDS, Reminders, Rerouting
from gateway.delivery.request_cards import CardKeeper
from gateway.domain.policy_document import Escalation, Route
from gateway.domain.records import MessageRef, StoredRequest
from gateway.domain.store import REROUTING
from gateway.errors import Unauthorized
from gateway.models import Action, Reason, Status
from gateway.ports import AdapterApi
from gateway.ports.outgoing import (
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    NoticeKind,
    RetryLater,
)
from gateway.server.background import adapter_api
from gateway.stores.outbox import RedisOutbox
from tests.recording import RecordingAdapter
from tests.world import World, click, identity, policy


class OfficeClock:
    """A clock that stands so many seconds after the moment at which it was made."""

    def __init__(self, world: World, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._made = world.clock.now_ms()

    def now_ms(self) -> int:
        return self._made + int(self.seconds * 1000)


class Office:
    """A recording adapter with its API, and the work behind it, driven by hand."""

    def __init__(
        self, world: World, adapter: RecordingAdapter | None = None, timings: Timings = TIMINGS
    ) -> None:
        self.world = world
        self.adapter = adapter or RecordingAdapter()
        self.clock = OfficeClock(world)
        self.outbox = RedisOutbox(world.store)
        self.api: AdapterApi = adapter_api("rec", world.core, world.store)
        changes = world.core.feed.changes
        keeper = CardKeeper(self.adapter, self.api, world.core, self.clock, timings)
        followups = Reminders(world.core, self.clock)
        self.cards = Worker("rec", self.outbox, keeper.look, changes, timings=timings)
        self.steps = Worker(FOLLOWUPS, self.outbox, followups.look, changes)
        rerouting = Rerouting(world.core)
        self.routing = Worker(REROUTING, self.outbox, rerouting.look, changes)

    async def settle(self) -> None:
        """Work until nothing is due."""
        workers = (self.routing, self.cards, self.steps)
        while sum([await one.begin() for one in workers]):
            for one in workers:
                await one.finish()

    async def due(self, queue: str = "rec") -> int:
        """Return how many requests a queue still holds."""
        return int(await self.world.store.redis.zcard(self.world.store.keys.dirty(queue)))

    async def soon(self, queue: str = "rec") -> None:
        """Have everything on a queue be due now."""
        key = self.world.store.keys.dirty(queue)
        for one in await self.world.store.redis.zrange(key, 0, -1):
            await self.world.store.redis.zadd(key, {one: 0})

    async def state(self, record: StoredRequest, target: str = "rec:a") -> CopyState:
        """Return how far the copy at a target has come."""
        return (await self.outbox.copies(record.id))[target].state


@pytest.fixture
async def office(world: World) -> Office:
    """Yield an office on a route that posts to two places."""
    await route(world, targets=("rec:a", "rec:b"))
    return Office(world)


async def route(world: World, **members: object) -> None:
    """Put one route with ann and bob in force."""
    values = {"approvers": ("ann", "bob"), "targets": ("rec:a",), **members}
    await policy(world.store, Route(**values))  # type: ignore[arg-type]
    world.core.writer.forget_policy()


async def test_every_target_gets_one_card_and_every_copy_the_outcome(office: Office) -> None:
    """Two copies are posted once, and both show who decided."""
    record = await office.world.submit()
    await office.settle()
    assert {one.target for one in office.adapter.messages.values()} == {"rec:a", "rec:b"}
    assert office.adapter.shown("rec:a").controls
    await office.api.requests.decide(click(record))
    await office.settle()
    for target in ("rec:a", "rec:b"):
        card = office.adapter.shown(target)
        assert (card.word, card.controls) == ("Approved", ())
        assert card.outcome is not None
        assert "ann" in card.outcome.text
    assert await office.due() == 0


async def test_delivery_is_recorded_for_each_target(office: Office) -> None:
    """The audit says where a card was posted, and why it was not."""
    office.adapter.failures = [DeliveryFailed("no such channel")]
    record = await office.world.submit()
    await office.settle()
    told = {
        event.data["target"]: (event.type, event.data.get("why"))
        for event in await office.world.events()
        if event.data.get("request_id") == record.id and "target" in event.data
    }
    assert told["rec:a"] == ("undelivered", "no such channel")
    assert told["rec:b"] == ("delivered", None)


async def test_a_post_without_an_answer_is_not_repeated(office: Office) -> None:
    """Where posting again could make a second card, the copy stays as intended."""
    office.adapter.after = [DeliveryUncertain("no answer")]
    record = await office.world.submit()
    await office.settle()
    await office.soon()
    await office.settle()
    assert len(office.adapter.messages) == 2
    assert await office.state(record) is CopyState.INTENDED


async def test_a_repeatable_post_is_repeated_with_its_nonce(world: World) -> None:
    """Where the platform makes no second message of it, posting is tried until it is known."""
    await route(world)
    office = Office(world, RecordingAdapter(repeatable=True))
    office.adapter.after = [DeliveryUncertain("no answer")]
    record = await world.submit()
    await office.settle()
    await office.outbox.mark("rec", record.id)
    await office.settle()
    assert len(office.adapter.messages) == 1
    assert await office.state(record) is CopyState.POSTED


async def test_the_first_click_adopts_a_copy_posted_before_a_crash(office: Office) -> None:
    """A card whose place was never written down is recognised by its nonce, and kept true."""
    office.adapter.after = [DeliveryUncertain("killed before saving")]
    record = await office.world.submit()
    await office.settle()
    message = office.adapter.messages["1"]
    ref = MessageRef(adapter="rec", channel="rec:a", message="1")
    await office.api.requests.decide(click(record, copy=message.nonce, ref=ref))
    await office.settle()
    assert office.adapter.shown("rec:a").word == "Approved"
    assert await office.state(record) is CopyState.POSTED


async def test_a_click_on_a_foreign_copy_is_refused_and_audited(office: Office) -> None:
    """A card copied elsewhere, or made up, decides nothing."""
    record = await office.world.submit()
    await office.settle()
    nonce = office.adapter.messages["1"].nonce
    elsewhere = MessageRef(adapter="rec", channel="rec:a", message="999")
    for copy, ref in ((nonce, elsewhere), ("made-up", elsewhere), (None, elsewhere)):
        with pytest.raises(Unauthorized):
            await office.api.requests.decide(click(record, copy=copy, ref=ref))
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    refused = [event for event in await office.world.events() if event.type == "refused"]
    assert len(refused) == 3


async def test_a_full_channel_is_tried_again_when_it_says(office: Office) -> None:
    """Nothing was sent, so the card is posted later, once."""
    office.adapter.failures = [RetryLater(0.001), RetryLater(0.001)]
    record = await office.world.submit()
    await office.settle()
    await office.soon()
    await office.settle()
    assert len(office.adapter.messages) == 2
    assert await office.state(record) is CopyState.POSTED


async def test_a_failed_edit_is_made_later_and_undoes_nothing(office: Office) -> None:
    """The decision stands while the platform refuses the edit."""
    record = await office.world.submit()
    await office.settle()
    office.adapter.failures = [DeliveryFailed("503"), DeliveryFailed("503")]
    await office.api.requests.decide(click(record))
    await office.settle()
    assert (await office.api.requests.get(record.id)).status is Status.APPROVED
    assert office.adapter.shown("rec:a").word == "Approval needed"
    office.clock.seconds = 6
    await office.soon()
    await office.settle()
    assert office.adapter.shown("rec:a").word == "Approved"


async def test_a_deleted_copy_is_dropped_and_the_others_go_on(office: Office) -> None:
    """A message that is gone is not edited for ever."""
    record = await office.world.submit()
    await office.settle()
    del office.adapter.messages["1"]
    await office.api.requests.decide(click(record))
    await office.settle()
    assert await office.state(record) is CopyState.GONE
    assert office.adapter.shown("rec:b").word == "Approved"
    assert await office.due() == 0


async def test_a_bug_in_an_adapter_stops_no_other_request(office: Office) -> None:
    """Whatever an adapter raises, nobody relies on that copy, and others go on."""
    office.adapter.failures = [RuntimeError("a bug")]
    record = await office.world.submit()
    await office.settle()
    other = await office.world.submit(arguments={"command": "pwd"})
    await office.settle()
    assert await office.state(other) is CopyState.POSTED
    assert await office.state(record) is CopyState.INTENDED
    assert "delivery_uncertain" in [event.type for event in await office.world.events()]


async def test_a_late_edit_of_another_replica_is_corrected(office: Office) -> None:
    """A replica that was slow shows an old card after the new one; it is looked at again."""
    record = await office.world.submit()
    await office.settle()
    slow, stale = Office(office.world), office.adapter.shown("rec:a")
    slow.adapter.messages = office.adapter.messages
    before = (await office.outbox.copies(record.id))["rec:a"]
    await office.api.requests.decide(click(record))
    await office.settle()
    assert before.ref is not None
    await slow.adapter.update(before.ref, stale, before.nonce)  # the late edit
    copies = PostedMessages("rec", slow.outbox, slow.clock)
    await copies.keep(record.id, replace(before, revision=record.revision), before)
    await office.settle()
    assert office.adapter.shown("rec:a").word == "Approved"


async def test_copies_of_an_older_version_can_be_changed(office: Office) -> None:
    """Replicas compare what is written letter by letter, so an upgrade must write it as before."""
    record, store = await office.world.submit(), office.world.store
    ref = '"ref":{"adapter":"rec","channel":"old","message":"m1"}'
    written = f'{{"target":"rec:old","nonce":"n1","state":"posted","at":7,{ref},"tries":2}}'
    await store.redis.hset(store.keys.copies(record.id), "rec:old", written)
    known = (await office.outbox.copies(record.id))["rec:old"]
    newer = replace(known, revision=2)
    assert await office.outbox.put_copy(record.id, newer, before=known)
    await office.outbox.forget(record.id, newer)
    assert await office.outbox.copies(record.id) == {}


async def test_a_lease_that_ran_out_is_taken_by_another(office: Office) -> None:
    """A replica that died holding a request does not keep it."""
    record = await office.world.submit()
    (task,) = await office.outbox.lease_due("rec", limit=5, lease_ms=1)
    while not (again := await office.outbox.lease_due("rec", limit=5, lease_ms=1000)):
        pass
    assert again[0].request_id == task.request_id == record.id
    assert not await office.outbox.ack("rec", task)
    assert await office.outbox.ack("rec", again[0])


async def test_a_change_during_the_work_is_not_lost(office: Office) -> None:
    """What became dirty under a lease stays on the queue."""
    record = await office.world.submit()
    (task,) = await office.outbox.lease_due("rec", limit=5, lease_ms=int(TIMINGS.lease * 1000))
    await office.api.requests.decide(click(record))
    assert not await office.outbox.ack("rec", task)
    assert await office.due() == 1


async def test_reminders_name_those_who_may_decide(world: World) -> None:
    """A reminder is given once for each time of the route, in each copy's thread."""
    await route(world, remind_after=(60.0, 120.0))
    office = Office(world)
    await world.submit()
    await office.settle()
    assert not office.adapter.notices
    for seconds, given in ((61, 1), (62, 1), (121, 2)):
        office.clock.seconds = seconds
        await office.soon(FOLLOWUPS)
        await office.settle()
        assert len(office.adapter.notices) == given
    notice, _ = office.adapter.notices[0]
    assert (notice.kind, notice.target) == (NoticeKind.REMINDER, "rec:a")
    assert notice.ref is not None


async def test_it_escalates_when_nobody_answers(world: World) -> None:
    """After the time of the route the next places get the card too, and the old copies say so."""
    await route(world, escalations=(Escalation(after=300, targets=("rec:boss",)),))
    office = Office(world)
    record = await world.submit()
    await office.settle()
    assert len(office.adapter.messages) == 1
    office.clock.seconds = 301
    await office.soon(FOLLOWUPS)
    await office.settle()
    assert office.adapter.shown("rec:boss").controls
    assert "Escalated: nobody answered in time." in office.adapter.shown("rec:a").notices
    assert (await office.api.requests.get(record.id)).tier == 1


async def test_it_fails_over_when_nothing_was_delivered(world: World) -> None:
    """The next place is tried at once when every one before failed."""
    await route(world, escalations=(Escalation(after=300, targets=("rec:boss",)),))
    office = Office(world)
    office.adapter.failures = [DeliveryFailed("archived")]
    await world.submit()
    await office.settle()
    assert office.adapter.shown("rec:boss").controls


async def test_the_agent_hears_at_once_that_nobody_can_be_reached(office: Office) -> None:
    """Undeliverable everywhere ends the request, and is told as what it is."""
    office.adapter.failures = [DeliveryFailed("archived"), DeliveryFailed("not in channel")]
    record = await office.world.submit()
    await office.settle()
    decision = (await office.api.requests.get(record.id)).decision
    assert decision is not None
    assert (decision.status, decision.reason) == (Status.DENIED, Reason.UNDELIVERABLE)


async def test_a_live_view_counts_as_reached(world: World) -> None:
    """With the inbox on the route a failed post is not the end."""
    await route(world, targets=("web", "rec:a"))
    office = Office(world)
    office.adapter.failures = [DeliveryFailed("archived")]
    record = await world.submit()
    await office.settle()
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_a_dead_adapter_is_passed_over(world: World) -> None:
    """When nobody has begun to post after the grace time, the next place is asked."""
    await route(
        world, targets=("gone:x",), escalations=(Escalation(after=900, targets=("rec:a",)),)
    )
    office = Office(world)
    record = await world.submit()
    await office.settle()
    assert not office.adapter.messages
    office.clock.seconds = GRACE_SECONDS + 1
    await office.soon(FOLLOWUPS)
    await office.settle()
    assert office.adapter.shown("rec:a").controls
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_who_wants_to_know_is_told_the_outcome_once(world: World) -> None:
    """`notify` gets one notice when the request has ended."""
    await route(world, notify=("rec:log",))
    office = Office(world)
    record = await world.submit()
    await office.settle()
    await office.api.requests.decide(click(record, Action.DENY, message="not today"))
    await office.settle()
    await office.outbox.mark("rec", record.id)
    await office.settle()
    ((notice, card),) = office.adapter.notices
    assert (notice.kind, notice.target) == (NoticeKind.OUTCOME, "rec:log")
    assert card.outcome is not None
    assert "not today" in card.outcome.text


async def test_a_claim_shows_on_every_copy(office: Office) -> None:
    """Others see who is looking, and a stranger cannot claim."""
    record = await office.world.submit()
    await office.api.requests.claim(record.id, identity("ann"))
    await office.settle()
    assert office.adapter.shown("rec:b").claimed == "ann is looking at it"
    with pytest.raises(Unauthorized):
        await office.api.requests.claim(record.id, identity("eve"))
    await office.api.requests.claim(record.id, identity("ann"), on=False)
    await office.settle()
    assert office.adapter.shown("rec:b").claimed == ""


async def test_a_waiter_that_comes_back_corrects_the_cards(office: Office) -> None:
    """Nobody waits, then somebody does: the copies say so both times."""
    record = await office.world.submit()
    await office.settle()
    await office.world.store.redis.delete(office.world.store.keys.processes)
    await office.world.store.expire_process("bot", "p" * 16)
    await office.settle()
    gone = "The agent stopped waiting. If the agent asks again, it gets your decision."
    assert gone in office.adapter.shown("rec:a").notices
    await office.world.send("sync", {"ids": [record.id]})
    await office.world.handled()
    await office.settle()
    assert gone not in office.adapter.shown("rec:a").notices
