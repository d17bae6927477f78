"""Read the wall clock, and cancel tasks reliably. No other module reads the wall clock."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol


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
