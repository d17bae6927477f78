"""Scenario 45: hours of people and of broken connections, on a simulated clock."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from tests.discord.town import Json

pytestmark = pytest.mark.thorough


async def soaked(kind: str, hours: float, pause: float) -> Json:
    """Run tests/discord/soak.py in a process of its own; return what it counted."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.discord.soak", kind, str(hours), str(pause)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await process.communicate()
    assert process.returncode == 0, said.decode()[-4000:]
    counted: Json = json.loads(out)
    return counted


def fine(counted: Json) -> None:
    """Every request ended as it was meant to, once, and its card says so (soak.py checked that);
    nothing is kept, nothing grew, nothing was logged as an error, and Discord refused nothing."""
    assert counted["errors"] == []
    assert counted["cached"] == 0
    assert counted["grown"] == {}
    assert counted["invalid"] == 0
    faults = ("cut", "forgotten", "reconnect", "resumable", "invalid", "zombie", "broken_event")
    assert all(counted["did"][name] for name in faults)
    assert counted["resumed"] > 2 and counted["identified"] > 2


@pytest.mark.timeout(300)
async def test_45_every_fault_and_person_leaves_nothing_behind() -> None:
    """Each twice, a fault after every person: what the second time keeps is what grows."""
    counted = await soaked("brief", 0.9, 1)
    fine(counted)
    assert min(counted["did"].values()) >= 2 and len(counted["did"]) == 16


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_45_an_hour_leaves_nothing_behind() -> None:
    """More requests than faults, as it is in earnest."""
    fine(await soaked("day", 1.2, 10))


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_45_a_day_leaves_nothing_behind() -> None:
    """Hundreds of requests, a hundred faults; new sessions stay far below the thousand of a day."""
    counted = await soaked("day", 24, 100)
    fine(counted)
    assert sum(counted["did"].values()) > 500
    assert counted["identified"] < 200


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_40_a_storm_of_ended_sessions_stays_within_the_day() -> None:
    """A thousand are allowed in 24 hours. In six of them a hundred begin at once, the others as
    the day has room for them; and when the storm is over, the next tap counts."""
    counted = await soaked("storm", 6, 0)
    assert 100 <= counted["identified"] <= 100 + 6 * 36 + 2
