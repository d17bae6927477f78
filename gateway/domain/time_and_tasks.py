"""Read the wall clock, and complete or cancel tasks reliably. No other module reads the wall
clock."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

log = logging.getLogger("gateway")

T = TypeVar("T")


class Clock(Protocol):
    """Wall time for display and records. Deadlines use the Redis server's time instead."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        """Return this machine's time in milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


# Cancels tasks reliably.
#
# redis-py may lose a cancellation that arrives while it takes a connection from its pool: the
# command then continues.

_AGAIN_SECONDS = 0.1


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, several times if necessary, until all are done."""
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=_AGAIN_SECONDS)


def check_wanted() -> None:
    """Raise CancelledError if the current task was cancelled. Call this before each wait in a loop,
    because an earlier wait may have swallowed the cancellation."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def run_to_end(work: Awaitable[T]) -> T:
    """Return the result of a write, which is completed even if its caller disconnects."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            # The caller is gone, so only the log can report it.
            log.warning("a write failed: %r", error, extra={"event": "write_unheard"})
        raise
