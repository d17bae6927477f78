"""The floor: the time that redis-py's asyncio client alone needs for the same hops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic_ns
from typing import Any

import redis.asyncio

THERE, BACK = "floor:there", "floor:back"
BODY = "x" * 400
_BLOCK_MS = 4000


def raw(url: str) -> Any:
    """Return a plain client."""
    return redis.asyncio.Redis.from_url(url, decode_responses=True, socket_timeout=None)


async def hop(client: Any, stream: str = THERE) -> None:
    """Write one entry."""
    await client.xadd(stream, {"body": BODY})


async def follow(client: Any, stream: str, last: str, woken: Callable[[int], Any]) -> None:
    """Read a stream for ever; call `woken` with the monotonic time (ns) of each batch."""
    while True:
        found = await client.xread({stream: last}, block=_BLOCK_MS)
        at = monotonic_ns()
        for _, entries in found:
            last = entries[-1][0]
            result = woken(at)
            if result is not None:
                await result


@asynccontextmanager
async def follow_in_background(
    url: str, stream: str, woken: Callable[[int], Any]
) -> AsyncIterator[None]:
    """Follow the new entries of a stream in the background, on a connection of its own."""
    client = raw(url)
    newest = await client.xrevrange(stream, count=1)
    last = newest[0][0] if newest else "0"
    task = asyncio.create_task(follow(client, stream, last, woken))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.aclose()


@asynccontextmanager
async def echo_entries(url: str) -> AsyncIterator[None]:
    """Answer every entry of THERE with one of BACK, as a gateway without any work would."""
    client = raw(url)

    async def answer(_: int) -> None:
        await hop(client, BACK)

    async with follow_in_background(url, THERE, answer):
        yield
    await client.aclose()
