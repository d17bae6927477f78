"""Who stands on a group's card, whatever dies, changes or comes at once: each stands on one."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from gateway.cards.batch_cards import GroupCard
from gateway.delivery.outbox_worker import Timings
from gateway.delivery.request_cards import RequestCopies
from gateway.domain.records import MessageRef, Record
from gateway.errors import Unauthorized
from gateway.models import Action, Status
from gateway.ports.outgoing import CopyGone, CopyState, shows_group
from tests.delivery.test_outbox import Office, route
from tests.recording import RecordingAdapter
from tests.world import World, ascending_ids, click


@dataclass
class Board(RecordingAdapter):
    """Posts groups, too, into `boards`; so many of them fit."""

    boards: dict[str, GroupCard] = field(default_factory=dict)
    nonces: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    fits: int = 12
    dies: bool = False

    async def withdraw(self, target: str, nonce: str) -> None:
        self.left.append((target, nonce))

    def list_fitting(self, group: GroupCard) -> tuple[str, ...]:
        return tuple(card.request_id for card in group.items)[: self.fits]

    async def deliver_group(self, target: str, group: GroupCard, nonce: str) -> MessageRef:
        self._fail(self.failures)
        self.nonces.append(nonce)
        message = f"b{len(self.nonces)}"
        self.boards[message] = group
        self.changed.set()
        if self.dies:
            await asyncio.Event().wait()
        self._fail(self.after)
        return MessageRef(adapter=self.name, channel=target, message=message)

    async def update_group(self, ref: MessageRef, group: GroupCard, nonce: str) -> None:
        self._fail(self.failures)
        if ref.message not in self.boards:
            raise CopyGone("the message was deleted", deleted=True)
        self.boards[ref.message] = group

    def on_boards(self) -> Counter[str]:
        """Return how often each request that waits stands somewhere with buttons."""
        cards = [card for board in self.boards.values() for card in board.waiting]
        cards += [one.card for one in self.messages.values() if not one.card.final]
        return Counter(card.request_id for card in cards)


@pytest.fixture
async def office(world: World) -> Office:
    """Yield an office that posts groups to one place, in which nobody joins a group any more."""
    await route(world)
    office = Office(world, Board())
    office.clock.seconds = 20
    return office


def board(office: Office) -> Board:
    """Return the adapter of an office."""
    assert isinstance(office.adapter, Board)
    return office.adapter


async def batch(world: World, count: int = 3, word: str = "ls") -> list[Record]:
    """Ask for so much as one group."""
    return [
        await world.submit(id=one, group="g", arguments={"command": f"{word} {number}"})
        for number, one in enumerate(ascending_ids(count))
    ]


async def once_each(office: Office, records: list[Record]) -> None:
    """Have all queues worked off, and check that each request stands on one card."""
    for _ in range(9):
        await office.soon()
        await office.settle()
    assert board(office).on_boards() == Counter(record.id for record in records)


async def test_a_group_is_one_card_and_each_has_its_copy(office: Office, world: World) -> None:
    """Every request of it knows where it stands, and a click on it is recognised there alone."""
    records = await batch(world)
    await once_each(office, records)
    assert list(board(office).boards) == ["b1"]
    copies = [(await office.outbox.copies(one.id))["rec:a"] for one in records]
    assert {(one.nonce, one.ref.message if one.ref else "") for one in copies} == {
        (board(office).nonces[0], "b1")
    }
    assert shows_group(copies[0].nonce)
    other = MessageRef(adapter="rec", channel="rec:a", message="b2")
    with pytest.raises(Unauthorized):
        await office.desk.requests.decide(click(records[1], copy=copies[1].nonce, ref=other))
    await office.desk.requests.decide(click(records[1], copy=copies[1].nonce, ref=copies[1].ref))
    await office.settle()
    shown = board(office).boards["b1"].items
    assert [card.status for card in shown] == [Status.PENDING, Status.APPROVED, Status.PENDING]
    assert [card.request_id for card in shown] == [record.id for record in records]


async def test_what_is_asked_for_while_a_group_grows_waits_a_moment(world: World) -> None:
    """Nothing is posted until nothing joined for a moment; then all of it is one card."""
    await route(world)
    office = Office(world, Board(), Timings(gather_ms=60_000))
    records = await batch(world, 2)
    await office.settle()
    assert not board(office).boards
    records += await batch(world, 2, "cat")
    office.clock.seconds = 90
    await once_each(office, records)
    assert len(board(office).boards["b1"].items) == 4


@pytest.mark.parametrize("claimed", [0, 1, 2])
async def test_killed_before_it_was_posted_it_is_one_card_all_the_same(
    office: Office, world: World, claimed: int
) -> None:
    """The set was written down, and so many of its members; whoever looks first goes on with it."""
    records = await batch(world)
    ids = tuple(record.id for record in records)
    copies = RequestCopies(board(office), world.core, office.clock)._copies
    led = copies.new("rec:a", members=ids)
    assert await office.outbox.put_copy(ids[0], led, before=None)
    for record in records[1 : 1 + claimed]:
        within = replace(led, members=(), within=ids[0])
        assert await office.outbox.put_copy(record.id, within, before=None)
    await once_each(office, records)
    assert list(board(office).boards) == ["b1"]


async def test_killed_after_it_was_posted_any_click_adopts_it(office: Office, world: World) -> None:
    """Nobody wrote down where it stands: the first click on any request of it tells, and no second
    card is made."""
    board(office).dies = True
    records = await batch(world)
    dying = asyncio.create_task(
        RequestCopies(board(office), world.core, office.clock).look(records[0].id)
    )
    await board(office).changed.wait()
    dying.cancel()
    await asyncio.wait({dying})
    ref = MessageRef(adapter="rec", channel="rec:a", message="b1")
    nonce = board(office).nonces[0]
    await office.desk.requests.decide(click(records[2], copy=nonce, ref=ref))
    await office.settle()
    ended = [card.request_id for card in board(office).boards["b1"].items if card.final]
    assert ended == [records[2].id]
    for record in records:
        copy = (await office.outbox.copies(record.id))["rec:a"]
        assert (copy.state, copy.ref) == (CopyState.POSTED, ref)
    assert len(board(office).boards) == 1


async def test_two_replicas_put_each_request_on_one_card(office: Office, world: World) -> None:
    """Both look at all of a group at once, each without knowing of the other."""
    records = await batch(world, 6)
    looks = [RequestCopies(board(office), world.core, office.clock).look for _ in range(2)]
    await asyncio.gather(*(look(record.id) for record in records for look in looks))
    await once_each(office, records)
    assert not board(office).messages


async def test_one_that_ends_before_it_is_posted_is_not_on_it(office: Office, world: World) -> None:
    """The leader is denied while the platform asks to wait: the others stand without it."""
    records = await batch(world)
    ids = tuple(record.id for record in records)
    copies = RequestCopies(board(office), world.core, office.clock)._copies
    assert await office.outbox.put_copy(ids[0], copies.new("rec:a", members=ids), before=None)
    await office.desk.requests.decide(click(records[0], Action.DENY))
    await once_each(office, records[1:])
    shown = [card.request_id for one in board(office).boards.values() for card in one.items]
    assert ids[0] not in shown


async def test_of_two_of_which_one_ends_before_it_is_posted_the_other_stands_alone(
    office: Office, world: World
) -> None:
    """One request is no group: it gets its own card, and the place is free for it. The group's
    card leaves the line of its place."""
    records = await batch(world, 2)
    ids = tuple(record.id for record in records)
    copies = RequestCopies(board(office), world.core, office.clock)._copies
    assert await office.outbox.put_copy(ids[0], copies.new("rec:a", members=ids), before=None)
    await office.desk.requests.decide(click(records[1], Action.DENY))
    (waiting,) = (await office.outbox.copies(ids[0])).values()
    await once_each(office, records[:1])
    assert not board(office).boards
    assert ("rec:a", waiting.nonce) in board(office).left


async def test_what_does_not_fit_has_cards_of_its_own(office: Office, world: World) -> None:
    """Of three, two fit: the third is posted alone."""
    board(office).fits = 2
    records = await batch(world)
    await once_each(office, records)
    assert len(board(office).boards["b1"].items) == 2
    assert len(office.adapter.messages) == 1


async def test_a_group_is_reminded_of_once(world: World) -> None:
    """Three requests of one card wait for a minute: one reminder beside the card, not three."""
    await route(world, remind_after=(60.0,))
    office = Office(world, Board())
    office.clock.seconds = 20
    records = await batch(world)
    await once_each(office, records)
    office.clock.seconds = 61
    for _ in range(4):
        await office.soon("followups")
        await office.soon()
        await office.settle()
    ((notice, card),) = office.adapter.notices
    assert notice.ref is not None
    assert (notice.ref.message, card.tool.text) == ("b1", '3 requests of "bot"')


async def test_a_card_that_may_be_gone_is_looked_at_through_any_of_its_requests(
    office: Office, world: World
) -> None:
    """The platform tells that it was deleted, after its leader ended: it is posted again, with
    those that wait, and under buttons that the old message does not have."""
    records = await batch(world)
    await once_each(office, records)
    await office.desk.requests.decide(click(records[0]))
    await office.settle()
    del board(office).boards["b1"]
    await office.desk.requests.doubt_copies(lambda _, ref: ref.message == "b1")
    await once_each(office, records[1:])
    assert len(set(board(office).nonces)) == 2


async def test_without_its_leader_each_gets_a_card_of_its_own(office: Office, world: World) -> None:
    """The leader ended so long ago that it was forgotten, and its copies with it: what still waits
    is asked for anew, and the buttons of the old card count no more."""
    records = await batch(world)
    await once_each(office, records)
    nonce, ref = board(office).nonces[0], MessageRef(adapter="rec", channel="rec:a", message="b1")
    await office.desk.requests.decide(click(records[0]))
    await office.settle()
    await world.store.redis.delete(world.store.keys.copies(records[0].id))
    board(office).boards.clear()
    for record in records[1:]:
        await office.outbox.mark("rec", record.id)
    await once_each(office, records[1:])
    world.core.copies._places.clear()  # as after a restart
    with pytest.raises(Unauthorized):
        await office.desk.requests.decide(click(records[1], copy=nonce, ref=ref))


async def test_a_request_that_its_card_does_not_name_gets_its_own(
    office: Office, world: World
) -> None:
    """Two replicas made up two sets, and this one is in the set that was not posted."""
    records = await batch(world, 2)
    await once_each(office, records)
    nonce = board(office).nonces[0]
    late = await world.submit(group="g", arguments={"command": "ls late"})
    led = (await office.outbox.copies(records[0].id))["rec:a"]
    within = replace(led, members=(), within=records[0].id, nonce=nonce)
    await office.outbox.put_copy(late.id, within, before=None)
    await once_each(office, [*records, late])
    assert len(board(office).boards["b1"].items) == 2
