"""Limit the data that unknown callers can send: the size and time of a body, and failed
credentials."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

MAX_REMEMBERED = 10_000  # addresses


@dataclass(slots=True)
class FailureLimit:
    """Counts failures: at most `most` per address and `in_all` in total are allowed within `window`
    seconds.

    Only failures are limited. Callers that use the same proxy share its address, so one that fails
    on purpose must not lock out the others. `now` returns monotonic seconds.
    """

    now: Callable[[], float]
    most: int = 20
    in_all: int = 2000
    window: float = 60.0
    _failures: OrderedDict[str, tuple[float, int]] = field(default_factory=OrderedDict)
    _of_all: tuple[float, int] = (float("-inf"), 0)

    def count(self, address: str) -> bool:
        """Count a failure; return False if there were too many already."""
        now = self.now()
        self._of_all, of_all = self._next(self._of_all, now, self.in_all)
        kept = self._failures.get(address, (now, 0))
        self._failures[address], of_address = self._next(kept, now, self.most)
        self._failures.move_to_end(address)
        if len(self._failures) > MAX_REMEMBERED:
            self._failures.popitem(last=False)
        return of_all and of_address

    def _next(
        self, kept: tuple[float, int], now: float, most: int
    ) -> tuple[tuple[float, int], bool]:
        """Return a window with one more failure, and whether the failure was within the limit."""
        began, count = kept
        if now - began >= self.window:
            began, count = now, 0
        return (began, min(count + 1, most)), count < most


# Reads a request body in bounded size and time.

SECONDS = 30.0  # for a whole body to arrive


class BodyTooLarge(Exception):
    """The body is larger than allowed."""


class BodyTooSlow(Exception):
    """The client did not send the body before the timeout."""


async def read_whole(
    chunks: AsyncIterator[bytes], *, most: int, seconds: float | None = None
) -> bytes:
    """Return a body of at most `most` bytes that arrives within `seconds` (None: SECONDS).

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
