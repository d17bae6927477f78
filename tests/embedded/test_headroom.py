"""The append-only file has room behind its end, and stays as it is."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
import redis.asyncio

from gateway.embedded import running_engine
from gateway.headroom import ROOM, keep_headroom
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


async def test_a_link_is_not_followed_and_the_engine_does_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else's file is left alone; that there is no room is said once, and is no error."""
    caplog.set_level("INFO", logger="gateway.headroom")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("not ours")
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof").symlink_to(elsewhere)
    async with asyncio.timeout(20):
        await keep_headroom(tmp_path)
    assert [record.__dict__["event"] for record in caplog.records] == ["no_headroom"]
    assert elsewhere.stat().st_blocks * 512 < ROOM
