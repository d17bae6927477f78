"""Rows of the table of hostile inputs, where a person answers at a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.models import Origin, Risk, RiskLevel, Status
from tests.terminal.seat import seated, staffed
from tests.world import World


@pytest.fixture(autouse=True)
async def people(world: World) -> None:
    """Let ann and bob answer."""
    await staffed(world)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p\u0430ypal.example", "U+0430"),
        ("<!here> <@U1> *b* `c`", "<!here> <@U1> *b* `c`"),
        ("@everyone ||x|| **b** [x](//e)", "@everyone ||x|| **b** [x](//e)"),
    ],
)
async def test_rows_39_to_41_nothing_passes_for_something_else(
    world: World, text: str, shown: str
) -> None:
    """Letters of another script are named; what a chat would parse is text here."""
    await world.submit(arguments={"command": f"open {text}"})
    async with seated(world, size=(120, 40)) as seat:
        await seat.sees("Approval needed", shown)


async def test_row_42_a_bearer_token_is_masked(world: World) -> None:
    """On the card and in the full text."""
    token = "abcdefghijklmnop0123456789"
    await world.submit(arguments={"command": f'curl -H "Authorization: Bearer {token}" //h'})
    async with seated(world, size=(140, 40)) as seat:
        await seat.sees("Approval needed", "secret of")
        assert token not in seat.text()
        await seat.press("f")
        await seat.sees("characters, digest", "secret of")
        assert token not in seat.text()


async def test_row_48_with_nobody_on_the_list_nobody_decides(world: World) -> None:
    """Not the owner of the machine either."""
    policy = await world.store.policy()
    routes = tuple(replace(one, approvers=()) for one in policy.routes)
    await world.put(routes=routes)
    record = await world.submit()
    async with seated(world) as seat:
        await seat.sees("You can read this request but")
        await seat.press("y")
        await seat.sees("you are not an approver")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_row_50_who_asked_does_not_decide_high_risk(world: World) -> None:
    """Whom the agent asks for is refused at their own terminal."""
    origin = Origin(sender="ann", channel="terminal")
    record = await world.submit(origin=origin, risk=Risk(level=RiskLevel.HIGH))
    async with seated(world) as seat:
        await seat.sees("You can read this request but", "you submitted this request yourself")
        await seat.press("y")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
