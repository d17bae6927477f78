"""Keeps under a platform's rate limits, together with all other replicas, holding nobody up.

Who must wait is given a turn and told when to come back; the turn is kept under the copy's name, so
that whichever replica comes back takes it. A message that changed meanwhile is edited once.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.domain.clock import Clock
from gateway.ports.outgoing import Notes, RetryLater

GATHER_SECONDS = 0.05  # those that were asked for together come here in any order
_NOW = 0.2  # seconds; waits this short are waited out
_GRACE = 120.0
_CROWDED_SECONDS = 5.0
_SPARE = 1  # how much of the platform's limit is left for what comes late

Waiting = list[tuple[int, int, asyncio.Future[None]]]


@dataclass(frozen=True, slots=True)
class Rate:
    """So many calls a minute, so many of them at once."""

    per_minute: float
    burst: int


class Pace:
    """Hands out turns of budgets, which are an adapter's own."""

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock
        self._busy: dict[str, float] = {}  # until when each budget is used up by what was done
        self._promised: dict[str, float] = {}
        self._waiting: dict[str, Waiting] = {}
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def turn(
        self, budget: str, rate: Rate, name: str, *, rank: int = 0
    ) -> AsyncIterator[None]:
        """Hold a budget for one call, once nobody of a lower rank waits for it here.

        Raises RetryLater when the call must be made later; nothing is held meanwhile.
        """
        async with self._line(budget, rank):
            kept = await self._due(budget, rate, name)
            # Turns that were missed come now, one after the other.
            await asyncio.sleep(self._ahead(budget, rate) / 1000)
            await self._spend(budget, rate, kept)
            yield

    async def slot(self, budget: str, rate: Rate, name: str) -> None:
        """Return when it is this name's turn, whoever else is under way.

        Raises RetryLater when that is not now.
        """
        kept = await self._due(budget, rate, name)
        if ahead := self._ahead(budget, rate):
            # Turns that were missed all come now: each is given a new one.
            now = self._clock.now_ms()
            at = max(self._promised.get(budget, 0.0), now + ahead)
            self._promised[budget] = at + _each(rate)
            await self._put_off(_note(budget, name), now, (at - now) / 1000)
        await self._spend(budget, rate, kept)

    async def _due(self, budget: str, rate: Rate, name: str) -> str | None:
        """Return in the turn of this name: the note that kept it, None if it is given now."""
        note = _note(budget, name)
        at, now = await self._notes.get(note), self._clock.now_ms()
        if at is None:
            wait = await self._notes.delay(budget, per_minute=rate.per_minute, burst=rate.burst)
        else:
            wait = max(0.0, (int(at) - now) / 1000)
        if wait > _NOW:
            await self._put_off(note, now, wait)
        await asyncio.sleep(wait)
        return None if at is None else note

    async def _put_off(self, note: str, now: int, wait: float) -> None:
        await self._notes.put(note, str(now + int(wait * 1000)), seconds=wait + _GRACE)
        raise RetryLater(wait, "the platform takes no more at once")

    def _ahead(self, budget: str, rate: Rate) -> float:
        """Return the ms by which what was done here is ahead of the budget; mostly 0."""
        spare = (rate.burst + _SPARE - 1) * _each(rate)
        return max(0.0, self._busy.get(budget, 0.0) - self._clock.now_ms() - spare)

    async def _spend(self, budget: str, rate: Rate, kept: str | None) -> None:
        busy = max(self._busy.get(budget, 0.0), self._clock.now_ms())
        self._busy[budget] = busy + _each(rate)
        if kept is not None:
            await self._notes.delete(kept)

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
                raise RetryLater(1.0, "others are before it in this channel") from None
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


def _each(rate: Rate) -> float:
    """Return the ms that one call takes of a budget."""
    return 60_000 / rate.per_minute


def _note(budget: str, name: str) -> str:
    return f"turn {budget} {name}"
