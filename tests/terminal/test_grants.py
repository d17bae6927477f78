"""What is remembered, at a terminal: told, listed, and taken back by whoever may."""

from __future__ import annotations

from gateway.domain.records import Remember
from gateway.models import Status
from tests.terminal.seat import seated, staffed
from tests.world import World, click


async def test_what_is_remembered_is_told_listed_and_taken_back(world: World) -> None:
    """Eve sees it and may not; ann takes back one by its number, then all."""
    await staffed(world)
    for number in range(3):
        record = await world.submit(arguments={"command": f"ls {number}"})
        await world.core.requests.decide(click(record, remember=Remember()))
    async with seated(world, "eve", size=(120, 40)) as seat:
        await seat.press("g")
        await seat.sees("1. Approval remembered", "exactly this", "Remembered by ann", "not used")
        await seat.type("1")
        await seat.sees("only an admin or an approver")
    assert len(await world.core.grants.all()) == 3
    async with seated(world, size=(120, 40)) as seat:
        await seat.press("g")
        await seat.type("9")
        await seat.sees("a number of the list")
        await seat.press("g")
        await seat.type("1")
        await seat.sees("Revoked: exactly this")
        await seat.sees('a grant of agent "bot" ended: revoked; press g')
        await seat.press("g")
        await seat.type("all")
        await seat.sees("Revoked: 2")
        await seat.press("g")
        await seat.sees("nothing is remembered")
    assert (await world.submit(arguments={"command": "ls 0"})).status is Status.PENDING
