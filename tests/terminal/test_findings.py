"""What the guardrails find, wherever somebody may decide at a terminal: shown, and inert."""

from __future__ import annotations

import pytest

from gateway.domain.policy_document import Guardrails
from gateway.models import Risk, RiskLevel
from tests.danger import HOSTILE, QUOTED, RAISED, REMOVES, UNSEEN, watch
from tests.terminal.seat import Seat, seated, staffed
from tests.world import World

FOUND = '⚠ Guardrail: removes folders whole (in "command")'


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


AMBER = "#fd971f"  # what the screen's theme makes of yellow


def colours(seat: Seat, word: str) -> set[str]:
    """Return the colours in which a word stands on the screen."""
    lines = seat.screen.screen._compositor.render_strips(seat.screen.size)
    return {
        str(segment.style and segment.style.color and segment.style.color.name)
        for strip in lines
        for segment in strip
        if word in segment.text
    }


@pytest.mark.parametrize("mode", [Guardrails.SHADOW, Guardrails.ASK])
async def test_a_finding_is_amber_in_shadow_and_red_in_force(
    world: World, mode: Guardrails
) -> None:
    """In force the risk is high, too. Rules in shadow are seen nowhere."""
    await watch(world.core, world.store, mode)
    await world.submit(**REMOVES)
    async with seated(world) as seat:
        await seat.sees("Approval needed", "Guardrail: removes")
        text = seat.text()
        shades = colours(seat, "Guardrail: removes")
        red = {str(one) for one in colours(seat, "high risk")}
        await seat.press("f")
        await seat.sees("characters, digest", "Guardrail: removes")
        assert UNSEEN not in text + seat.text()
    if mode is Guardrails.ASK:
        assert ("🔴 Guardrail" in text, RAISED in text) == (True, True)
        assert shades == red
    else:
        assert ("⚠ Guardrail" in text, RAISED in text, red) == (True, False, set())
        assert shades == {AMBER}
    assert len(shades) == 1


async def test_a_harmless_request_has_no_warning(world: World) -> None:
    """No colour and no word."""
    await world.submit()
    async with seated(world) as seat:
        await seat.sees("Approval needed")
        assert not [word for word in ("⚠", "🔴", "Guardrail") if word in seat.text()]


async def test_a_hostile_path_is_shown_as_it_is(world: World) -> None:
    """On the card, and again where high risk is confirmed."""
    await world.submit(**HOSTILE, risk=Risk(level=RiskLevel.HIGH))
    async with seated(world, size=(200, 40)) as seat:
        await seat.sees("Approval needed", f"⚠ {QUOTED}")
        await seat.press("y")
        await seat.sees("This is high risk", 'Guardrail: names "/a/.ssh/x\\"')
