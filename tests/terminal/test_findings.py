"""What the guardrails find, wherever somebody may decide at a terminal: shown, and inert."""

from __future__ import annotations

import pytest

from gateway.models import Risk, RiskLevel
from tests.danger import HOSTILE, QUOTED, REMOVES
from tests.terminal.seat import seated, staffed
from tests.world import World

FOUND = "⚠ Guardrail: removes folders whole, in command"


@pytest.fixture(autouse=True)
async def people(world: World) -> None:
    """Let ann and bob answer."""
    await staffed(world)


async def test_a_finding_is_on_the_card_in_the_full_view_and_in_the_list(world: World) -> None:
    """Wherever a key approves it."""
    await world.submit(**REMOVES)
    async with seated(world) as seat:
        await seat.sees("Approval needed", FOUND)
        await seat.press("f")
        await seat.sees("characters, digest", FOUND)
        await seat.press("escape", "a")
        await seat.type("")
        await seat.sees("Approve these 1?", FOUND)


async def test_a_harmless_request_has_no_warning(world: World) -> None:
    """No colour and no word."""
    await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        assert "⚠" not in seat.text()


async def test_a_hostile_path_is_shown_as_it_is(world: World) -> None:
    """On the card, and again where high risk is confirmed."""
    await world.submit(**HOSTILE, risk=Risk(level=RiskLevel.HIGH))
    async with seated(world, size=(200, 40)) as seat:
        await seat.sees("Approval needed", f"⚠ {QUOTED}")
        await seat.press("y")
        await seat.sees("This is high risk", 'Guardrail: names "/a/.ssh/x\\"')
