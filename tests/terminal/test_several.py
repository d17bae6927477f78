"""Approving several at the terminal: what was listed, as it was listed, after a typed yes."""

from __future__ import annotations

import pytest

from gateway.models import Action, Status
from tests.terminal.seat import by_bob, seated, staffed
from tests.world import World


@pytest.fixture(autouse=True)
async def people(world: World) -> None:
    """Let ann and bob answer."""
    await staffed(world)


@pytest.mark.parametrize("words", ["some", "-1", "1.5", "²"])
async def test_several_takes_a_number_or_all(world: World, words: str) -> None:
    """Anything else approves nothing, and is told what is expected."""
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("1 of 1")
        await seat.press("a")
        await seat.type(words)
        await seat.sees("a number, or all")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_several_takes_a_typed_yes(world: World) -> None:
    """Another word, an empty line and Escape approve none of those that are listed."""
    asked = [await world.submit(arguments={"command": f"echo {n}"}) for n in range(2)]
    async with seated(world) as seat:
        await seat.sees("1 of 2")
        for words in ("y", "", None):
            await seat.press("a")
            await seat.type("all")
            await seat.sees("Approve these 2?", "echo 0", "echo 1")
            await (seat.press("escape") if words is None else seat.type(words))
            await seat.until(lambda: "Approve these 2?" not in seat.text())
    for one in asked:
        assert (await world.core.requests.get(one.id)).status is Status.PENDING


async def test_several_approves_only_what_was_listed(world: World) -> None:
    """What came after the list waits, what was decided or edited meanwhile stays as it is, and the
    others are approved all the same."""
    asked = [await world.submit(arguments={"command": f"echo {n}"}) for n in range(4)]
    shown, denied, edited, last = sorted(asked, key=lambda one: (one.created, one.id))
    async with seated(world) as seat:
        await seat.sees("1 of 4")
        await seat.press("a")
        await seat.type("all")
        await seat.sees("Approve these 4?")
        await by_bob(world, denied, action=Action.DENY)
        await by_bob(world, edited, action=Action.EDIT, arguments={"command": "echo bob"})
        later = await world.submit(arguments={"command": "rm -rf x"})
        await seat.until(lambda: len(seat.screen._queue) == 3)
        await seat.type("yes")
        await seat.sees("decided already", "by bob")
        for one in (shown, last):
            assert (await seat.ended(one)).status is Status.APPROVED
    found = {one.id: await world.core.requests.get(one.id) for one in (denied, edited, later)}
    assert found[denied.id].status is Status.DENIED
    assert found[later.id].status is Status.PENDING
    decision = found[edited.id].decision
    assert decision is not None
    assert (decision.decided_by.name, decision.arguments) == ("bob", {"command": "echo bob"})


async def test_several_approves_nothing_that_was_edited_after_it_was_listed(world: World) -> None:
    """It waits for two people still, and my yes was to what stood there before."""
    await staffed(world, quorum=2)
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("1 of 1")
        await seat.press("a")
        await seat.type("all")
        await seat.sees("Approve these 1?", " ls ")
        await by_bob(world, record, action=Action.EDIT, arguments={"command": "rm -rf x"})
        await seat.type("yes")
        await seat.sees("changed since you saw it")
    found = await world.core.requests.get(record.id)
    assert (found.status, [vote.person for vote in found.votes]) == (Status.PENDING, ["bob"])


async def test_whoever_may_only_look_approves_none_of_several(world: World) -> None:
    """Nothing is listed, and nothing is sent that the gateway would have to refuse."""
    record = await world.submit()
    async with seated(world, "eve") as seat:
        await seat.sees("You can read this request but")
        await seat.press("a")
        await seat.sees("each of these requests needs")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    assert not [event for event in await world.events() if event.type == "refused"]
