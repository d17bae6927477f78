"""What the metrics say of an outbox: which cards still have buttons that do nothing any more."""

from __future__ import annotations

from gateway.delivery.outbox_worker import measure_outbox
from gateway.ports.outgoing import DeliveryFailed, OutboxFigures
from tests.delivery.test_outbox import Office, route
from tests.world import World, click


async def measured(office: Office) -> OutboxFigures:
    """Return the figures of the recording adapter."""
    return await measure_outbox("rec", office.world.store, office.outbox, office.clock)


async def test_a_card_is_stale_until_it_shows_the_end(world: World) -> None:
    """Decided, and the platform refuses the edit: counted with its age, until the edit is taken."""
    await route(world, targets=("rec:a", "rec:b"))
    office = Office(world)
    record = await world.submit()
    await office.settle()
    assert await measured(office) == OutboxFigures(
        adapter="rec", waiting=0, overdue=0, stale=0, oldest_stale=0
    )
    office.adapter.failures = [DeliveryFailed("locked")]
    await office.api.requests.decide(click(record))
    office.clock.seconds = 6
    found = await measured(office)
    assert (found.waiting, found.stale) == (1, 2)
    assert 5 <= found.overdue < 10
    await office.settle()
    office.clock.seconds = 100
    found = await measured(office)
    assert (found.waiting, found.stale) == (1, 1)
    assert 99 < found.oldest_stale < 110
    await office.soon()
    await office.settle()
    assert (await measured(office)).stale == 0


async def test_what_waits_or_was_never_posted_is_not_stale(world: World) -> None:
    """A pending request on the queue has buttons that work; a refused post has none."""
    await route(world)
    office = Office(world)
    office.adapter.failures = [DeliveryFailed("no such channel")]
    refused = await world.submit()
    await office.settle()
    waiting = await world.submit(arguments={"n": 2})
    await office.settle()
    assert (await office.api.requests.get(refused.id)).final
    for record in (refused, waiting):
        await office.outbox.mark("rec", record.id)
    found = await measured(office)
    assert (found.waiting, found.stale) == (2, 0)
