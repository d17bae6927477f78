"""Read the wall clock, nowhere else in the product, and cancel tasks reliably."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol


class Clock(Protocol):
    """Wall time for display and records. The Redis server's time decides deadlines instead."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""


class SystemClock:
    """The host's clock."""

    def now_ms(self) -> int:
        """Return the host's milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


# Cancels tasks reliably.
#
# redis-py may lose a cancellation that arrives while it takes a connection from its pool: the
# command then continues.

_AGAIN_SECONDS = 0.1


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, repeatedly if necessary, until all are done."""
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=_AGAIN_SECONDS)


def check_wanted() -> None:
    """Raise CancelledError if the current task was cancelled. Call it before each wait of a loop,
    because the cancellation may have been lost."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
