"""Cards in conversations, whatever the platform: fail-over, overflow, and a policy that changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.approvals.request_writer import FOLLOWUPS
from gateway.cli.chats import _without_chat
from gateway.delivery.reminders_and_escalation import GRACE_SECONDS, Rerouting
from gateway.domain.policy_document import Budget, Route
from gateway.models import Origin, Status
from gateway.ports.outgoing import DeliveryFailed
from tests.delivery.test_outbox import Office, route
from tests.world import AGENT, World, click

TALK = Origin(channel="rec", chat="S/C1", thread="7.1")
PLACE = "rec:origin/S/C1/7.1"
OPEN: dict[str, Any] = {"agents": (AGENT,), "targets": ("origin", "rec:a"), "origins": ("rec:S/",)}


async def test_an_adapter_that_is_dead_is_passed_over(world: World) -> None:
    """Nobody has begun to post in the conversation after the grace time: the next target, once."""
    await route(world, **{**OPEN, "origins": ("gone:S/",)})
    office = Office(world)
    record = await world.submit(origin=replace(TALK, channel="gone"))
    await office.settle()
    assert not office.adapter.messages
    office.clock.seconds = GRACE_SECONDS + 1
    for _ in range(2):
        await office.soon(FOLLOWUPS)
        await office.settle()
    assert office.adapter.shown("rec:a").controls
    events = [one for one in await world.events(record.id) if one.type == "escalated"]
    assert [one.data for one in events] == [{"targets": ["rec:a"], "unreached": True}]


async def test_a_refused_card_is_posted_elsewhere_and_both_would_be_kept(world: World) -> None:
    """The decision is on the card that people have."""
    await route(world, **OPEN)
    office = Office(world)
    office.adapter.failures = [DeliveryFailed("archived")]
    record = await world.submit(origin=TALK)
    await office.settle()
    assert office.adapter.shown("rec:a").controls
    await office.api.requests.decide(click(await office.api.requests.get(record.id)))
    await office.settle()
    assert office.adapter.shown("rec:a").status is Status.APPROVED


async def test_overflow_cards_go_to_no_conversation(world: World) -> None:
    """An agent that names a new thread each time floods none of them."""
    await route(world, **OPEN)
    await world.put(budgets=(Budget(cards=1),))
    office = Office(world)
    for number in range(4):
        origin = replace(TALK, thread=f"7.{number}")
        await world.submit(origin=origin, arguments={"command": f"ls {number}"})
    await office.settle()
    targets = [one.target for one in office.adapter.messages.values()]
    assert sorted(targets) == ["rec:a", "rec:origin/S/C1/7.0"]


async def test_identical_calls_of_two_conversations_have_a_card_each(world: World) -> None:
    """Nobody in one is left without a card because the other has one."""
    await route(world, **OPEN)
    office = Office(world)
    await world.submit(origin=TALK)
    await world.submit(origin=replace(TALK, thread="7.2"))
    await office.settle()
    targets = {one.target for one in office.adapter.messages.values()}
    assert targets == {PLACE, "rec:origin/S/C1/7.2"}


async def test_a_policy_that_allows_it_no_more_sends_pending_requests_on(world: World) -> None:
    """The audit says why; a card that was posted stays true."""
    await route(world, **OPEN)
    office = Office(world)
    record = await world.submit(origin=TALK)
    await office.settle()
    await route(world, **{**OPEN, "origins": ("rec:S/C2",)})
    await Rerouting(world.core).look(record.id)
    await office.settle()
    (event,) = [one for one in await world.events(record.id) if one.type == "rerouted"]
    assert event.data == {"why": "rec:S/C1 is not in the `origins` of route default"}
    assert office.adapter.shown("rec:a").controls
    await office.api.requests.decide(click(await office.api.requests.get(record.id)))
    await office.settle()
    assert office.adapter.shown(PLACE).status is Status.APPROVED


def test_a_chat_that_is_removed_leaves_no_route_without_a_place() -> None:
    """Its conversations go with its channels; the inbox is left."""
    made = Route(targets=("origin", "slack:T1/C1"), origins=("slack:T1/", "discord:1/"))
    left = _without_chat(made, "slack")
    assert (left.targets, left.origins) == (("origin", "web"), ("discord:1/",))
