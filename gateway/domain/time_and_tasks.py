"""The only place that reads the wall clock; and the sure end of tasks."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol


class Clock(Protocol):
    """Wall time as the gateway sees it. Deadlines are judged by the Redis server's time instead."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""


class SystemClock:
    """The host's clock."""

    def now_ms(self) -> int:
        """Return the host's milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


# Ends tasks for certain.
#
# redis-py may lose a cancellation that comes while a connection is taken from its pool: the command
# goes on as if nobody had asked.

_AGAIN_SECONDS = 0.1


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they are done, because one `cancel` may be lost."""
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=_AGAIN_SECONDS)


def check_wanted() -> None:
    """Raise CancelledError when the current task was cancelled; call it before each wait of a
    loop, because the cancellation may have been lost."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
