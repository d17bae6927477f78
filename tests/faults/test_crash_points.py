"""kill -9 of the gateway at every step, under a waiting agent: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.faults.invariants import problems
from tests.faults.site import Site

SCRIPTS = (
    "answer",
    "apply",
    "attach",
    "change",
    "claim",
    "due",
    "lapse",
    "lease",
    "note",
    "register",
    "seal",
    "submit",
    "take",
)
STEPS = (
    *(f"{script}:{side}" for script in SCRIPTS for side in ("before", "after")),
    "ingress:read",
    "entry:before",
    "entry:after",
    "dead:before",
    "dead:written",
    "dead:after",
)
PAIRS = [STEPS[place : place + 2] for place in range(0, len(STEPS), 2)]


async def story(site: Site, step: str, nth: int) -> list[str]:
    """Live through everything that can happen, with a gateway that dies at a step.

    Returns the steps that the last gateway passed.
    """
    await site.leave_poison()
    async with asyncio.timeout(30), site.succession(step, nth) as second:
        await site.add_approver()
        async with site.agent_at_work() as agent:
            approving = asyncio.create_task(site.approve())
            await site.send_nonsense()
            orphan = await site.lose_a_waiter()
            assert await agent.ended() == 0
            await site.until("waiter_lost", orphan)
            await site.until("dead_letter")
            await site.until("refused")
            approving.cancel()
        await site.deny_the_rest()
        async with asyncio.timeout(5):
            last = await second
    return await site.stopped(last)


async def lived(server_url: str, folder: Path, step: str, nth: int = 1) -> list[str]:
    """Return what is wrong after a gateway died at a step."""
    folder = folder / step.replace(":", "-")
    folder.mkdir()
    async with Site(server_url, f"t{os.urandom(6).hex()}", folder) as site:
        await story(site, step, nth)
        return problems(await site.export(), site.logs())


@pytest.mark.parametrize("steps", PAIRS, ids="+".join)
async def test_killed_at_a_step(server_url: str, tmp_path: Path, steps: tuple[str, ...]) -> None:
    """It dies there, another one takes over, and all invariants hold; every answer is right.

    Two at a time, each in a namespace of its own. A step that nothing passes is a failure.
    """
    lives = [lived(server_url, tmp_path, step) for step in steps]
    assert await asyncio.gather(*lives) == [[] for _ in steps]
