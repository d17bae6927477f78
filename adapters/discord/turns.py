"""When a message may be posted or edited: in the order of the requests, and within Discord's pace.

Whoever must wait is given a slot and told when to come back, so that nobody holds others up. Slots
are shared by all replicas and kept under the copy's name: coming back takes the slot, not another.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.clock import SystemClock
from gateway.delivery import Notes, TryLater

GATHER_SECONDS = 0.05  # those that were asked for together come here in any order
_SOON = 0.2  # waits this short are waited out
_KEPT_SECONDS = 120.0  # a slot that was missed by more is taken anew
_CROWDED_SECONDS = 5.0

Waiting = list[tuple[int, int, asyncio.Future[None]]]


@dataclass(frozen=True, slots=True)
class Pace:
    """So many calls a minute, so many of them at once."""

    per_minute: float
    burst: int


class Turns:
    """Whose turn it is in each budget, and when."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._clock = SystemClock()
        self._waiting: dict[str, Waiting] = {}
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def turn(self, budget: str, pace: Pace, name: str, *, rank: int) -> AsyncIterator[None]:
        """Hold a budget for one call, once nobody of a lower rank waits for it here.

        Raises TryLater when the call must be made later; nothing is held meanwhile.
        """
        async with self._line(budget, rank):
            await self._slot(budget, pace, name)
            yield

    async def _slot(self, budget: str, pace: Pace, name: str) -> None:
        """Return in the slot of this name, given now or kept from before."""
        key = f"slot {budget} {name}"
        now = self._clock.now_ms()
        kept = await self._notes.get(key)
        if kept is None:
            wait = await self._notes.delay(budget, per_minute=pace.per_minute, burst=pace.burst)
        else:
            wait = max(0.0, (int(kept) - now) / 1000)
        if wait > _SOON:
            at = str(now + int(wait * 1000))
            await self._notes.put(key, at, seconds=wait + _KEPT_SECONDS)
            raise TryLater(wait, "Discord takes no more at once")
        await asyncio.sleep(wait)
        if kept is not None:
            await self._notes.delete(key)

    @asynccontextmanager
    async def _line(self, budget: str, rank: int) -> AsyncIterator[None]:
        """Stand in line, the lowest rank first."""
        loop = asyncio.get_running_loop()
        if budget not in self._waiting:
            self._waiting[budget] = []
            loop.call_later(GATHER_SECONDS, self._next, budget)
        mine: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting[budget], (rank, next(self._arrivals), mine))
        try:
            async with asyncio.timeout(_CROWDED_SECONDS):
                await mine
        except (TimeoutError, asyncio.CancelledError) as error:
            if mine.done() and not mine.cancelled():
                self._next(budget)  # it was our turn already
            if isinstance(error, TimeoutError):
                raise TryLater(1.0, "others are before it in this channel") from None
            raise
        try:
            yield
        finally:
            self._next(budget)

    def _next(self, budget: str) -> None:
        waiting = self._waiting[budget]
        while waiting:
            _, _, first = heapq.heappop(waiting)
            if not first.done():
                first.set_result(None)
                return
        del self._waiting[budget]
