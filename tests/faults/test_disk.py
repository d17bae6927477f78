"""A disk that is full: what was answered stays, what cannot be kept is refused, and all goes on.

A server is given a limit on the length of its files, which is what a full disk is to it: the part
of a write that fits is written, the rest is not.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.domain.audit import verify
from gateway.domain.records import Record
from gateway.errors import Unreachable
from gateway.models import Action, Status
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.scripts import NotRecorded
from gateway.stores.seals import export
from tests.audit.test_archive import archived, reopened, sealed
from tests.faults.server import Server, own_server
from tests.waiting import moment
from tests.world import World, assembled, click

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's prlimit"),
    pytest.mark.thorough,
]

REFUSED: tuple[type[Exception], ...] = (Unreachable, *REDIS_ERRORS)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Server]:
    """Yield a server of its own."""
    async with own_server(tmp_path) as server:
        yield server


@contextmanager
def no_room(most: int = 0) -> Iterator[None]:
    """Have this process write no file beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def ended(world: World, count: int) -> list[Record]:
    """Return requests that were answered."""
    return [await world.core.requests.decide(click(await world.submit())) for _ in range(count)]


async def test_a_server_that_syncs_always_ends_and_nothing_that_was_answered_is_lost(
    engine: Server, tmp_path: Path
) -> None:
    """It goes down with the first write that does not fit. With room, and started again, it has
    every answer that was given, and what waited waits and can be answered."""
    async with assembled(engine.url, "gw") as world:
        answered = await ended(world, 5)
        waiting = [await world.submit() for _ in range(3)]
        engine.leave_room(0)
        tries = (world.core.requests.decide(click(record)) for record in waiting)
        failed = await asyncio.gather(*tries, return_exceptions=True)
        assert [isinstance(one, REFUSED) for one in failed] == [True] * 3
        assert await engine.gone() != 0
        engine.free_room()
        await engine.start()
        for record in answered:
            assert await world.store.load(record.id) == record
        for record in waiting:
            done = await world.core.requests.decide(click(record, Action.DENY))
            assert done.status is Status.DENIED
        assert verify([line async for line in export(world.store)]).problems == []


async def test_a_server_that_syncs_each_second_refuses_until_there_is_room(engine: Server) -> None:
    """It stays up and says why, to people too; what it has taken is there after a kill."""
    async with assembled(engine.url, "gw") as world:
        redis = world.store.redis
        await redis.config_set("appendfsync", "everysec")
        answered = await ended(world, 5)
        waiting = [await world.submit() for _ in range(3)]
        engine.leave_room(0)
        while (await redis.info("persistence"))["aof_last_write_status"] == "ok":
            await redis.set("{gw}:filler", "x")
        for record in waiting:
            with pytest.raises(NotRecorded, match="cannot write to its disk"):
                await world.core.requests.decide(click(record))
        with pytest.raises(NotRecorded, match="cannot write to its disk"):
            await world.store.probe()
        engine.free_room()
        while (await redis.info("persistence"))["aof_last_write_status"] != "ok":
            await moment()
        for record in waiting:
            done = await world.core.requests.decide(click(record))
            assert done.status is Status.APPROVED
            answered.append(done)
        await redis.config_set("appendfsync", "always")
        await redis.set("{gw}:filler", "x")
        await engine.kill()
        await engine.start()
        for record in answered:
            assert await world.store.load(record.id) == record


@pytest.mark.parametrize("room", [0, 1, 100])
async def test_an_archive_whose_disk_is_full_drops_nothing(
    world: World, tmp_path: Path, room: int
) -> None:
    """Redis keeps what could not be written, and no half of a segment is left behind; with room
    it is archived."""
    store = reopened(world, tmp_path / "archive")
    await sealed(world)
    await archived(store)
    await sealed(world)
    whole = [line async for line in export(store)]
    with no_room(room), pytest.raises(OSError, match="File too large"):
        await archived(store)
    assert [path.name for path in (tmp_path / "archive").iterdir()] == ["0000000001.jsonl.gz"]
    assert [line async for line in export(store)] == whole
    assert await archived(store) == 1
    assert [line async for line in export(store)] == whole
    assert verify(whole).problems == []
