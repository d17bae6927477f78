"""Reads what strangers send to a web server, in bounded size and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

SECONDS = 30.0  # for a whole body to arrive


class BodyTooLarge(Exception):
    """There was more than may be sent."""


class BodyTooSlow(Exception):
    """It did not arrive in time."""


async def read_whole(
    chunks: AsyncIterator[bytes], *, most: int, seconds: float | None = None
) -> bytes:
    """Return a body of at most `most` bytes, as it arrives within `seconds` (None: SECONDS).

    Raises BodyTooLarge, BodyTooSlow.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(SECONDS if seconds is None else seconds):
            async for chunk in chunks:
                body += chunk
                if len(body) > most:
                    raise BodyTooLarge
    except TimeoutError:
        raise BodyTooSlow from None
    return bytes(body)
