"""What the log says of work that failed and is begun again."""

from __future__ import annotations

import asyncio
import logging

import pytest
from redis.exceptions import ConnectionError as NoConnection

from gateway.server import background
from gateway.server.background import run_in_background


@pytest.mark.parametrize(
    ("error", "level"), [(NoConnection("gone"), "WARNING"), (ValueError("odd"), "ERROR")]
)
async def test_a_lost_connection_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    level: str,
) -> None:
    """A warning without a traceback; any other error keeps it. Both begin again."""
    monkeypatch.setattr(background, "_RESTART_SECONDS", 0.0)
    again, count = asyncio.Event(), 0

    async def work() -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise error
        again.set()
        await asyncio.Future()

    with caplog.at_level(logging.INFO, "gateway.server"):
        async with run_in_background("a task", work):
            await again.wait()
    (line,) = caplog.records
    assert line.levelname == level
    assert bool(line.exc_info) is (level == "ERROR")
