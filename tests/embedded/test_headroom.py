"""The append-only file has room behind its end, and stays as it is."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
import redis.asyncio

from gateway.domain.tasks import ended
from gateway.stores import preallocation as headroom
from gateway.stores.embedded_server import running_engine
from gateway.stores.preallocation import ROOM, keep_headroom
from tests.waiting import moment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes room ahead")


def files(folder: Path) -> list[Path]:
    """Return the append-only files of an engine's folder."""
    return list(folder.glob("appendonlydir/*.incr.aof"))


async def roomy(folder: Path, other_than: list[Path]) -> Path:
    """Wait for a file with room behind its end, and return it."""
    async with asyncio.timeout(20):
        while True:
            for path in files(folder):
                found = path.stat()
                if path not in other_than and found.st_blocks * 512 - found.st_size >= ROOM // 2:
                    return path
            await moment()


async def test_room_is_kept_ahead_of_what_is_written_and_rewritten(tmp_path: Path) -> None:
    """It is there behind the first file and behind its successor, and what was written loads."""
    async with (
        running_engine(tmp_path / "data") as engine,
        redis.asyncio.Redis.from_url(engine.url) as client,
    ):
        await client.set("word", "kept")
        first = await roomy(engine.data_dir, [])
        assert first.read_bytes().endswith(b"kept\r\n"), "nothing is added to what was written"
        await client.bgrewriteaof()
        second = await roomy(engine.data_dir, [first])
        await client.set("word", "kept again")
        assert second.read_bytes().endswith(b"kept again\r\n")
    async with (
        running_engine(tmp_path / "data") as engine,
        redis.asyncio.Redis.from_url(engine.url, decode_responses=True) as client,
    ):
        assert await client.get("word") == "kept again"


def logs(folder: Path) -> tuple[Path, Path]:
    """Return two append-only files of a folder, of which the second is written to."""
    (folder / "appendonlydir").mkdir()
    paths = tuple(folder / "appendonlydir" / f"appendonly.aof.{one}.incr.aof" for one in (1, 2))
    for path in paths:
        path.write_bytes(b"word")
        os.utime(path, (1, 1))
    paths[1].write_bytes(b"words")
    return paths[0], paths[1]


def taken(path: Path) -> int:
    """Return how many bytes of the disk a file has."""
    return path.stat().st_blocks * 512


def test_only_what_is_appended_to_gets_room_and_only_on_a_disk_with_plenty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nearly full disk is needed for what is written; a file that is left over, for nothing."""
    older, newer = logs(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(headroom, "SPARE", 2**62)
        headroom.make_room(tmp_path)
        assert max(map(taken, (older, newer))) < ROOM // 2
    for _ in range(2):
        headroom.make_room(tmp_path)
    assert ROOM // 2 < taken(newer) < 2 * ROOM
    assert taken(older) < ROOM // 2
    assert (older.read_bytes(), newer.read_bytes()) == (b"word", b"words")


@pytest.mark.parametrize("kind", ["link", "pipe"])
async def test_what_is_no_file_is_left_alone_and_the_engine_does_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Neither followed nor waited for; that there is no room is said once, and is no error."""
    caplog.set_level("INFO", logger="gateway.headroom")
    elsewhere, (_, path) = tmp_path / "elsewhere", logs(tmp_path)
    elsewhere.write_text("not ours")
    path.unlink()
    if kind == "link":
        path.symlink_to(elsewhere)
    else:
        os.mkfifo(path)
    keeping = asyncio.create_task(keep_headroom(tmp_path))
    async with asyncio.timeout(20):
        while not caplog.records:
            await moment()
    await ended(keeping)
    assert [record.__dict__["event"] for record in caplog.records] == ["no_headroom"]
    assert taken(elsewhere) < ROOM // 2
