"""The card of a remembered decision: where it was made, true on every copy, announced once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import ToolRow
from gateway.domain.records import MessageRef, Person
from gateway.errors import Conflict, Unauthorized
from gateway.policy.grants.grant import Effect, Grant
from gateway.policy.grants.offers import offers
from gateway.ports import ManualGrantRequest
from gateway.ports.outgoing import GRANT, DeliveryUncertain, RetryLater
from gateway.stores.retention import Retention
from tests.approvals.test_grant_creation import remember, widest
from tests.delivery.test_outbox import Office, route
from tests.world import World, identity, request

SECRET = "channel-of-the-board"


@pytest.fixture
async def office(world: World) -> Office:
    """Yield an office on a route that posts to two places."""
    await route(world, targets=("rec:a", "rec:b"))
    return Office(world)


async def made(office: Office, **how: Any) -> Grant:
    """Have ann remember a whole tool that is declared harmless, and the cards posted."""
    current = await office.world.store.policy()
    declared = replace(current, tools=(ToolRow(name="tell", harmless=True),))
    await office.world.store.apply(declared, by="test")
    office.world.core.writer.forget_policy()
    record = await office.world.submit(tool="tell", arguments={"channel": SECRET, "n": 1})
    await office.settle()
    grant = await remember(office.world, record, offer=widest(record), **how)
    await office.settle()
    return grant


async def test_a_grant_has_a_card_at_every_place_and_revoking_is_shown_on_each(
    office: Office,
) -> None:
    """Who, what, until when, how often, how far; then who took it back, and no button."""
    grant = await made(office, max_uses=5, everywhere=True)
    cards = [plate.card for plate in office.adapter.plates.values()]
    assert [plate.target for plate in office.adapter.plates.values()] == ["rec:a", "rec:b"]
    assert cards[0] == cards[1]
    facts = {fact.label: fact.text.text for fact in cards[0].facts}
    assert facts["Remembered by"] == "ann"
    assert facts["Where"] == "all sessions of this agent"
    said = "everything that tell can do with n and what is declared, always with channel = "
    assert cards[0].words.text.startswith(said)
    assert cards[0].asked is not None
    assert SECRET in cards[0].asked.text
    assert cards[0].until == grant.expires_at
    assert cards[0].uses == "used 0 of 5 times"
    assert "It would have covered 1 of the last 1 requests" in cards[0].reach
    assert cards[0].confirm
    await office.api.grants.revoke(grant.id, identity("bob"))
    await office.settle()
    for plate in office.adapter.plates.values():
        assert plate.card.word == "Approval no longer remembered"
        assert plate.card.outcome == "revoked by bob"
        assert plate.card.confirm == ""
    assert await office.due() == 0


async def test_the_button_checks_who_presses_and_says_who_was_first(office: Office) -> None:
    """A stranger revokes nothing; the second press is told of the first."""
    grant = await made(office)
    for nobody in ("eve", "stranger"):
        with pytest.raises(Unauthorized):
            await office.api.grants.revoke(grant.id, identity(nobody))
    assert (await office.api.grants.card(grant.id)).ended is False
    await office.api.grants.revoke(grant.id, identity("bob"))
    with pytest.raises(Conflict, match="ended already: revoked, by bob"):
        await office.api.grants.revoke(grant.id, identity("ann"))


async def test_a_card_posted_just_before_a_crash_is_adopted_by_its_first_press(
    office: Office,
) -> None:
    """Nobody wrote down where it stands; the press does, and it comes to show the end."""
    record = await office.world.submit()
    await office.settle()
    office.adapter.after = [DeliveryUncertain("killed before saving")]
    grant = await remember(office.world, record)
    await office.settle()
    plate = office.adapter.plates["g1"]
    ref = MessageRef(adapter="rec", channel="rec:a", message="g1")
    await office.api.grants.revoke(grant.id, identity("ann"), copy=plate.nonce, ref=ref)
    await office.settle()
    assert plate.card.ended


async def test_what_was_put_off_is_posted_later_but_not_once_it_ended(office: Office) -> None:
    """A limit of the platform delays a card; a grant that ended meanwhile gets none."""
    record = await office.world.submit()
    await office.settle()
    office.adapter.failures = [RetryLater(60)] * 4  # the request's cards too
    grant = await remember(office.world, record)
    await office.settle()
    assert office.adapter.plates == {}
    await office.api.grants.revoke(grant.id, identity("ann"))
    await office.soon()
    await office.settle()
    assert office.adapter.plates == {}


async def test_an_end_to_come_is_announced_once_on_all_replicas(office: Office) -> None:
    """A tenth of its life before, beside every copy; then its end is shown, and said no more."""
    grant = await made(office, lifetime="1h")
    assert grant.expires_at is not None
    assert grant.announced_at == grant.expires_at - 360_000
    await past(office.world, grant, "grants_ending")
    await asyncio.gather(*(office.world.sweeper.sweep() for _ in range(3)))
    await office.settle()
    await office.world.sweeper.sweep()
    await office.settle()
    assert [notice.target for notice, _ in office.adapter.announced] == ["rec:a", "rec:b"]
    assert "ends soon" in office.adapter.plates["g1"].card.notices[0]
    types = [event.type for event in await office.world.events()]
    assert types.count("grant_ending") == 1
    await past(office.world, grant, "grants_due")
    await office.world.store.redis.hset(office.world.store.keys.grant(grant.id), "expires", "1")
    await office.world.sweeper.sweep()
    await office.settle()
    assert office.adapter.plates["g1"].card.outcome == "expired, by gateway"
    assert len(office.adapter.announced) == 2


async def test_what_nobody_used_is_announced_when_it_is_dropped(office: Office) -> None:
    """Once, though every replica looks."""
    grant = await made(office, lifetime="revoked")
    office.world.core.grants._clock = office.clock
    office.clock.seconds = 31 * 86_400
    look_over = office.world.core.grants.look_over
    await asyncio.gather(*(look_over() for _ in range(3)))
    office.clock.seconds = 0
    await office.settle()
    plate = office.adapter.plates["g1"]
    assert plate.card.outcome == "unused for 30 days, by gateway"
    assert len(office.adapter.announced) == 2
    ended = [event for event in await office.world.events() if event.type == "grant_ended"]
    assert [event.data["grant"] for event in ended] == [grant.id]


async def test_erasing_a_request_erases_what_was_remembered_of_it(office: Office) -> None:
    """From the grant, its card and the audit; and what it allowed is asked about again."""
    world = office.world
    record = await world.submit(
        tool="post_message", arguments={"to": "#a", "cc": SECRET, "text": "a word " * 9}
    )
    await office.settle()
    (offer,) = [one for one in offers(record) if "with any text" in one.words]
    grant = await remember(world, record, offer=offer.id)
    covered = await world.submit(
        tool="post_message", arguments={"to": "#a", "cc": SECRET, "text": "b word " * 9}
    )
    assert covered.decision is not None
    assert covered.decision.decided_by.name == grant.id
    await office.settle()
    assert SECRET in office.adapter.plates["g1"].card.words.text
    await world.approvals.erase(record.id, by="root")
    await world.approvals.erase(record.id, by="root")
    await office.settle()
    assert SECRET not in str(office.adapter.plates["g1"].card)
    outcome = office.adapter.plates["g1"].card.outcome
    assert outcome == "the content of its request was erased, by root"
    assert SECRET not in str(await world.events())
    keys = [key async for key in world.store.redis.scan_iter(world.store.keys.of("grant*"))]
    for key in keys:
        if await world.store.redis.type(key) == "hash":
            assert SECRET not in str(await world.store.redis.hgetall(key)), key
    assert (
        await world.submit(
            tool="post_message", arguments={"to": "#a", "cc": SECRET, "text": "c word " * 9}
        )
    ).final is (False)


async def test_before_there_is_a_route_a_grant_has_no_card(world: World) -> None:
    """An admin's grant is listed and taken back all the same."""
    current = await world.store.policy()
    root = Person(name="root", identities=("token:root",), admin=True)
    await world.store.apply(replace(current, people=(*current.people, root), routes=()), by="test")
    asked = request()
    (exact, *_) = await world.core.grant_service.offers(
        identity("root"), "bot", asked, Effect.ALLOW
    )
    wish = ManualGrantRequest(agent="bot", effect=Effect.ALLOW, chosen=exact.id)
    grant = await world.core.grant_service.create(identity("root"), asked, wish)
    office = Office(world)
    await office.settle()
    assert grant.queues == ()
    assert office.adapter.plates == {}
    assert [one.id for one in await office.api.grants.revoke_all(identity("root"))] == [grant.id]


async def test_a_grant_that_ended_is_forgotten_with_the_events_that_name_it(
    office: Office,
) -> None:
    """Its body and where its cards stood."""
    grant = await made(office)
    await office.api.grants.revoke(grant.id, identity("ann"))
    await office.settle()
    store = office.world.store
    retention = Retention(store, office.clock, days=1)
    await retention._forget_grants(office.clock.now_ms() - 86_400_000)
    assert (await office.api.grants.card(grant.id)).ended
    await retention._forget_grants(office.clock.now_ms() + 1000)
    assert not await store.redis.exists(
        store.keys.grant(grant.id), store.keys.copies(GRANT + grant.id)
    )


async def past(world: World, grant: Grant, which: str) -> None:
    """Have the moment of an index be past for a grant."""
    await world.store.redis.zadd(getattr(world.store.keys, which), {grant.id: 1})
