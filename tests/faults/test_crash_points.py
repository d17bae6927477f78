"""kill -9 of the gateway at every step, under a waiting agent: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import pytest

from gateway.domain.time_and_tasks import cancel_and_wait
from tests.faults.invariants import problems
from tests.faults.roles import ANY
from tests.faults.site import Site

pytestmark = pytest.mark.thorough

SCRIPTS = sorted(
    file.name.removesuffix(".lua")
    for file in (files("gateway.stores") / "lua").iterdir()
    if file.name != "shared_functions.lua"
)
LIVES = [
    *((f"{script}:before", f"{script}:after") for script in SCRIPTS),
    ("ingress:read", "entry:before", "entry:after"),
    ("dead:before", "dead:written", "dead:after"),
    ("segment:written", "segment:linked", "segment:kept"),
]
"""Every step there is, in the order in which the gateways of one story die of them."""


async def story(site: Site, steps: Sequence[str], nth: int = 1) -> None:
    """Live through everything that can happen, with a gateway that dies at each step in turn."""
    await site.leave_poison()
    async with asyncio.timeout(100), site.succession(steps, nth) as last:
        await site.ready.wait()
        await site.add_approver()
        async with site.agent_at_work() as agent:
            approving = asyncio.create_task(site.approve())
            await site.send_nonsense()
            orphan = await site.lose_a_waiter()
            assert await agent.ended() == 0
            await site.until("waiter_lost", orphan)
            await site.until("dead_letter")
            await site.until("refused")
            await site.crowd()
            await site.remember()
            await site.join()
            await site.declare(orphan)
            await cancel_and_wait(approving)
        await site.deny_the_rest()
        await site.until_shown()
        # Were a step not passed, its gateway would still live.
        async with asyncio.timeout(40):
            await site.stopped(await last)


async def judged(server_url: str, folder: Path, steps: Sequence[str], nth: int = 1) -> list[str]:
    """Return what is wrong after such a story."""
    namespace = f"t{os.urandom(6).hex()}"
    (folder / namespace).mkdir()
    async with Site(server_url, namespace, folder / namespace) as site:
        if any(step.startswith("place_reviewed:") for step in steps):
            site.env["GATEWAY_DECIDERS"] = '["slow"]'
        await story(site, steps, nth)
        return problems(await site.export(), site.logs(), site.cards())


def _named(lives: Sequence[Sequence[str]]) -> str:
    return ",".join("+".join(steps) for steps in lives)


@pytest.mark.parametrize(
    "lives", [LIVES[place : place + 4] for place in range(0, len(LIVES), 4)], ids=_named
)
async def test_killed_at_each_step(
    server_url: str, tmp_path: Path, lives: list[Sequence[str]]
) -> None:
    """One dies there, the next takes over, and all invariants hold; every answer is right.

    Four stories at a time, each in a namespace of its own. A step that nobody passes is a failure.
    """
    stories = [judged(server_url, tmp_path, steps) for steps in lives]
    assert await asyncio.gather(*stories) == [[] for _ in lives]


@pytest.mark.slow
@pytest.mark.parametrize("nth", range(5, 206, 20))
async def test_killed_anywhere(server_url: str, tmp_path: Path, nth: int) -> None:
    """Killed at the 5th, 10th, 15th, … step of any kind that it passes: all invariants hold."""
    stories = [judged(server_url, tmp_path, [ANY], nth + more) for more in (0, 5, 10, 15)]
    assert await asyncio.gather(*stories) == [[]] * 4
