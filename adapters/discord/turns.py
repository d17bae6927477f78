"""One at a time to each channel, the oldest first: cards stand in the order they were asked for."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

GATHER_SECONDS = 0.05  # those that were asked for together come here in any order

Waiting = list[tuple[int, int, asyncio.Future[None]]]


class Turns:
    """Whose turn it is, for each place that somebody waits for."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def turn(self, place: str, rank: int, *, patience: float) -> AsyncIterator[None]:
        """Wait until nobody of a lower rank waits for this place, and hold it meanwhile.

        Raises TimeoutError when it takes longer than `patience` seconds.
        """
        loop = asyncio.get_running_loop()
        if place not in self._waiting:
            self._waiting[place] = []
            loop.call_later(GATHER_SECONDS, self._next, place)
        mine: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting[place], (rank, next(self._arrivals), mine))
        try:
            async with asyncio.timeout(patience):
                await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._next(place)  # it was our turn already
            raise
        try:
            yield
        finally:
            self._next(place)

    def _next(self, place: str) -> None:
        waiting = self._waiting[place]
        while waiting:
            _, _, first = heapq.heappop(waiting)
            if not first.done():
                first.set_result(None)
                return
        del self._waiting[place]
