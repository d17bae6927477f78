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

import aiohttp
import pytest
from pydantic import SecretStr

from gateway.doctor import FAIL, examine
from gateway.domain.audit import verify
from gateway.domain.health_and_metrics import DISK_FULL
from gateway.domain.records import StoredRequest
from gateway.errors import Unreachable
from gateway.models import Action, Status
from gateway.server.app import run_gateway
from gateway.server.background import HealthWatch
from gateway.server.connections import open_backend
from gateway.server.settings import Settings
from gateway.stores.archiver import Archiver, Trimming
from gateway.stores.audit import export
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.embedded_server import DataFolder
from gateway.stores.scripts import NotRecorded
from tests.audit.test_archive import AT_ONCE, archived, reopened, sealed
from tests.faults.server import Server, own_server
from tests.waiting import moment
from tests.world import AGENT, World, assembled, click

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


async def ended(world: World, count: int) -> list[StoredRequest]:
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


async def test_a_full_disk_is_named_by_readiness(engine: Server, tmp_path: Path) -> None:
    """The gateway's own server is gone then; what it said last, or the disk itself, says why."""
    folder = DataFolder(tmp_path)
    async with assembled(engine.url, "gw") as world:
        watch = HealthWatch(
            world.core.health, world.store, (), {}, serves_api=True, is_disk_full=folder.is_full
        )
        assert (await watch.look()).down == ()
        assert not folder.is_full()
        engine.leave_room(0)
        with pytest.raises(REFUSED):
            await world.submit()
        await engine.gone()
        watch._looked = None
        assert (await watch.look()).down == (DISK_FULL,)
        settings = Settings(data_dir=tmp_path, adapters=())
        found = await examine(settings, lambda: open_backend(settings, engine.url))
        (redis,) = (one for one in found if one.name == "redis")
        assert (redis.result, "is full" in redis.says) == (FAIL, True)
        engine.free_room()
        await engine.start()
        watch._looked = None
        assert (await watch.look()).down == ()


async def test_a_full_disk_is_told_to_agents(
    engine: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent reads why nothing can be recorded, where the gateway knows it."""
    monkeypatch.setattr("gateway.server.background._HEALTH_LOOK_SECONDS", 1000.0)
    settings = Settings(
        data_dir=tmp_path / "data", port=0, adapters=(), REDIS_URL=SecretStr(engine.url)
    )
    async with run_gateway(settings) as gateway:
        token = (await gateway.backend.credentials.add_agent(AGENT)).token
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(gateway.url, headers=headers) as http:
            async with http.post("/v1/sync", json={"ids": [], "process": "p" * 16}) as answer:
                assert answer.status == 200
            engine.leave_room(0)
            with pytest.raises(REFUSED):
                await gateway.backend.store.probe()
            await engine.gone()
            gateway.core.health.note("redis", DISK_FULL, down=True)
            async with http.post("/v1/sync", json={"ids": [], "process": "p" * 16}) as answer:
                assert answer.status == 503
                assert (await answer.json())["detail"].startswith(DISK_FULL)
        engine.free_room()
        await engine.start()


async def test_an_archive_whose_disk_is_full_is_a_trouble(world: World, tmp_path: Path) -> None:
    """Readiness names it as long as it lasts."""
    store = reopened(world, tmp_path / "archive")
    await sealed(world)
    told = asyncio.Queue[str | None]()
    archiver = Archiver(store, Trimming(store), AT_ONCE, tell=told.put_nowait)
    with no_room():
        running = asyncio.create_task(archiver.run())
        said = await told.get()
    running.cancel()
    assert said is not None
    assert "not archived" in said
    assert "File too large" in said


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
