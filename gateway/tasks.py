"""Ends background tasks for certain."""

from __future__ import annotations

import asyncio
from typing import Any

_AGAIN_SECONDS = 0.1


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until they are done.

    redis-py may lose a cancellation that comes while a connection is taken from its pool, so one
    `cancel` is not enough.
    """
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=_AGAIN_SECONDS)
