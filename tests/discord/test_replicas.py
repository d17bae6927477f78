"""Several real processes on one token: who listens, what a death costs, and deploys that cost
nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.models import Status
from tests.discord.furnished import Server
from tests.discord.ground import Ground
from tests.discord.processes import Replica
from tests.discord.stage import Stage, private_text

pytestmark = pytest.mark.thorough


@asynccontextmanager
async def two(ground: Ground) -> AsyncIterator[tuple[Stage, Replica, Replica]]:
    """Run two gateways, of which the first listens, and a stage that only asks."""
    first, second = ground.replica("a"), ground.replica("b")
    await first.start()
    gateway = ground.server.discord.gateway
    try:
        async with ground.staged(adapters=()) as stage:
            await gateway.until(lambda: gateway.connected == 1)
            await second.start()
            yield stage, first, second
    finally:
        await asyncio.gather(first.kill(), second.kill())


@pytest.fixture
async def pair(
    server: Server,
    ground: Ground,
) -> AsyncIterator[tuple[Stage, Replica, Replica]]:
    """Two gateways, and a stage that only asks."""
    async with two(ground) as found:
        yield found


async def test_13_two_processes_that_listen_make_one_decision(
    pair: tuple[Stage, Replica, Replica],
) -> None:
    """The lease is lost, so that both hear every click: one decision, one audit row, one truth on
    the card, no error in any log. Then one of them leaves the line again."""
    stage, first, second = pair
    gateway = stage.server.discord.gateway
    record, card = await stage.asked()
    store = stage.gateway.backend.store
    async with asyncio.timeout(20):
        while gateway.connected < 2:
            await store.redis.delete(store.keys.note("discord", "gateway connection"))
    done = await stage.click(stage.server.ann, card, "Approve")
    assert not done.failed
    assert (await stage.ended(record)).status is Status.APPROVED
    await stage.shows(card, "Approved", "ann")
    await gateway.until(lambda: gateway.connected == 1)
    assert len(await stage.events("approved")) == 1
    assert not await stage.events("refused")
    await asyncio.gather(first.stop(), second.stop())
    for said in (first.said, second.said):
        assert b" INFO " in said and b" ERROR " not in said


async def test_38_another_takes_over_from_a_listener_that_is_killed(
    pair: tuple[Stage, Replica, Replica],
) -> None:
    """kill -9: a tap fails while nobody listens; within the lease the other one does."""
    stage, first, _ = pair
    gateway = stage.server.discord.gateway
    record, card = await stage.asked()
    await first.kill()
    await gateway.until(lambda: gateway.connected == 0)
    lost = await stage.click(stage.server.ann, card, "Approve", wait=False)
    await gateway.until(lambda: gateway.connected == 1)
    assert lost.failed
    await stage.click(stage.server.ann, card, "Approve")
    assert (await stage.ended(record)).status is Status.APPROVED
    assert len(await stage.events("approved")) == 1


async def test_21_and_43_a_rolling_deploy_fails_no_tap(
    pair: tuple[Stage, Replica, Replica],
) -> None:
    """The listener is told to stop while people tap: it leaves the line when the other one is on
    it, and every tap is answered within Discord's three seconds."""
    stage, first, _ = pair
    cards = await stage.spread(30)
    stopping = asyncio.create_task(first.stop())
    for record, channel, card in cards:
        done = await stage.click(stage.server.ann, card, "Approve", channel=channel)
        assert not done.failed, private_text(done)
        assert (await stage.ended(record)).status is Status.APPROVED
        await asyncio.wait({stopping}, timeout=0.1)
    await stopping
    assert stage.server.discord.gateway.identified == 2
    assert len(await stage.events("approved")) == len(cards)
