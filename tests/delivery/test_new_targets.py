"""A policy that changes while requests wait: the places that it adds get their cards."""

from __future__ import annotations

from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.domain.store import REROUTING
from gateway.models import Action
from tests.delivery.test_outbox import Office, route
from tests.world import World, assembled, click, policy


def places(office: Office) -> list[str]:
    """Return where cards stand."""
    return sorted(one.target for one in office.adapter.messages.values())


async def waiting(office: Office) -> StoredRequest:
    """Return a request whose card is up, and its routing looked at."""
    record = await office.world.submit()
    await office.settle()
    return record


async def test_a_place_that_is_added_meanwhile_gets_its_card(world: World) -> None:
    """At once, though nothing happens to the request; and one card only."""
    await route(world)
    office = Office(world)
    record = await waiting(office)
    await route(world, targets=("rec:a", "rec:b"))
    await office.settle()
    assert places(office) == ["rec:a", "rec:b"]
    await office.api.requests.decide(click(record, Action.DENY))
    await office.settle()
    assert office.adapter.shown("rec:b").word == "Denied"


async def test_the_word_of_the_change_may_be_late(world: World) -> None:
    """What is kept of the older policy in this process is not relied on."""
    await route(world)
    office = Office(world)
    await waiting(office)
    await office.world.core.writer.policy()
    await policy(world.store, Route(approvers=("ann",), targets=("rec:b",)))
    await office.settle()
    assert places(office) == ["rec:a", "rec:b"]


async def test_an_adapter_that_is_added_meanwhile_hears_of_the_request(world: World) -> None:
    """Its queue has it now, and again when it ends; the audit says that it was rerouted."""
    await route(world)
    office = Office(world)
    record = await waiting(office)
    await route(world, targets=("rec:a", "new:x"))
    await office.settle()
    (task,) = await office.outbox.lease_due("new", limit=5, lease_ms=1000)
    assert await office.outbox.ack("new", task)
    events = await office.world.events(record.id)
    (rerouted,) = [one for one in events if one.type == "rerouted"]
    assert rerouted.data["queues"] == ["new"]
    await office.api.requests.decide(click(await office.api.requests.get(record.id)))
    assert await office.due("new") == 1


async def test_it_is_asked_for_until_it_is_there(world: World) -> None:
    """An adapter that does not know of the new policy yet, or is not running, misses nothing."""
    await route(world)
    office = Office(world)
    record = await waiting(office)
    await route(world, targets=("rec:a", "rec:b"))
    await office.routing.begin()
    await office.routing.finish()
    (task,) = await office.outbox.lease_due("rec", limit=5, lease_ms=1000)
    await office.outbox.ack("rec", task)  # it has looked by the older policy
    assert places(office) == ["rec:a"]
    await office.soon(REROUTING)
    await office.settle()
    assert places(office) == ["rec:a", "rec:b"]
    await office.soon(REROUTING)
    await office.settle()
    assert await office.due(REROUTING) == 0
    assert len(await office.outbox.copies(record.id)) == 2


async def test_a_gateway_that_died_just_then_is_no_loss(
    world: World, server_url: str, namespace: str
) -> None:
    """The change and the queue are one step: whoever comes next posts what lacks."""
    await route(world)
    office = Office(world)
    await waiting(office)
    await policy(world.store, Route(approvers=("ann",), targets=("rec:a", "rec:b")))
    async with assembled(server_url, namespace) as next_world:
        successor = Office(next_world)
        successor.adapter.messages = office.adapter.messages
        await successor.settle()
    assert places(office) == ["rec:a", "rec:b"]


async def test_what_has_ended_is_let_be(world: World) -> None:
    """No card is posted for a request that was decided before."""
    await route(world)
    office = Office(world)
    record = await waiting(office)
    await office.api.requests.decide(click(record))
    await route(world, targets=("rec:a", "rec:b"))
    await office.settle()
    assert places(office) == ["rec:a"]
    assert await office.due(REROUTING) == 0
