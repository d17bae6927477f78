"""kill -9 at every step of a card: one decision, one card at each place, and all of them true."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.delivery.outbox_worker import TIMINGS
from gateway.domain.time_and_tasks import SystemClock
from gateway.stores.credentials import RedisCredentials
from tests.faults.board import ANN, DIES, PLACES, REPEATABLE, Board
from tests.faults.invariants import problems
from tests.faults.site import Site

pytestmark = pytest.mark.thorough

STEPS = (
    "deliver 1",
    "delivered 1",
    "deliver 2",
    "delivered 2",
    "saved 1",
    "click 1",
    "click 2",
    "decided 1",
    "update 1",
    "updated 1",
    "update 2",
    "updated 2",
)
"""Every step of a card with two copies, in order. One is before two: in the midst of both."""

TELLING = ("tell 1", "told 1")
"""The steps of telling the outcome at a place that wants to know it."""
LOG = "board:log"


@asynccontextmanager
async def site_of(url: str, folder: Path, *, repeatable: bool) -> AsyncIterator[Site]:
    """Yield a namespace whose cards are posted to the board."""
    namespace = f"t{os.urandom(6).hex()}"
    (folder / namespace).mkdir()
    async with Site(url, namespace, folder / namespace) as site:
        site.env["GATEWAY_ADAPTERS"] = '["web","board"]'
        site.env[REPEATABLE] = "yes" if repeatable else "no"
        yield site


async def asked(site: Site, notify: tuple[str, ...] = ()) -> None:
    """Have an agent ask ann."""
    await RedisCredentials(site.store, SystemClock()).add_agent(site.agent)
    await site.add_approver(ANN, PLACES, notify)
    async with asyncio.timeout(40):
        await site.submit("deploy")


async def judged(site: Site) -> list[str]:
    """Return what is wrong once everything is shown."""
    async with asyncio.timeout(40):
        await site.until("approved")
        await site.until_shown()
    board = Board(site.folder)
    shown = board.messages().values()
    places = [one["target"] for one in shown]
    return [
        *problems(await site.export(), cards=board.lines()),
        *(f"two cards at {place}" for place in PLACES if places.count(place) > 1),
        *(f"{one['target']} shows {one['status']}" for one in shown if one["status"] != "approved"),
        *(["no card at all"] if not places else []),
    ]


async def killed(
    url: str, folder: Path, step: str, *, repeatable: bool, notify: tuple[str, ...] = ()
) -> list[str]:
    """Return what is wrong after a gateway died at a step and another took over."""
    async with site_of(url, folder, repeatable=repeatable) as site:
        site.env[DIES] = step
        gateway = await site.gateway()
        await asked(site, notify)
        async with asyncio.timeout(40):
            assert await gateway.ended() == -signal.SIGKILL
        site.env[DIES] = "never 1"
        await site.release_cards()
        await site.gateway()
        wrong = await judged(site)
        told = Board(site.folder).told()
        return wrong if len(told) == len(notify) else [*wrong, f"told {len(told)} times"]


@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_each_step(server_url: str, tmp_path: Path, step: str) -> None:
    """Where a post may be repeated and where not. A step that nobody passes is a failure."""
    stories = [killed(server_url, tmp_path, step, repeatable=again) for again in (True, False)]
    assert await asyncio.gather(*stories) == [[], []]


async def test_killed_while_the_outcome_is_told(server_url: str, tmp_path: Path) -> None:
    """Whoever wants to know is told, once, where a repeated notice is known as such."""
    stories = [
        killed(server_url, tmp_path, step, repeatable=True, notify=(LOG,)) for step in TELLING
    ]
    assert await asyncio.gather(*stories) == [[], []]


async def test_two_replicas_press_at_once(server_url: str, tmp_path: Path) -> None:
    """Ann's presses reach both replicas at the same time: one decision, one card at each place."""
    async with site_of(server_url, tmp_path, repeatable=False) as site:
        site.env[DIES] = "never 1"
        await site.gateway()
        site.env["GATEWAY_PORT"] = "0"
        await site.gateway()
        await asked(site)
        assert await judged(site) == []
        assert len(Board(site.folder).messages()) == len(PLACES)


async def test_the_other_replica_finishes_when_the_lease_ends(
    server_url: str, tmp_path: Path
) -> None:
    """One dies with the first of two copies changed and the request leased; nobody restarts it."""
    async with site_of(server_url, tmp_path, repeatable=False) as site:
        site.env[DIES] = "update 2"
        dying = await site.gateway()
        await asked(site)
        async with asyncio.timeout(40):
            assert await dying.ended() == -signal.SIGKILL
        site.env[DIES], site.env["GATEWAY_PORT"] = "never 1", "0"
        await site.gateway()
        async with asyncio.timeout(TIMINGS.lease + 14):
            assert await judged(site) == []
