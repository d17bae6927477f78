"""Keeps under a platform's rate limits, together with all other replicas, holding nobody up.

Who must wait stands in a line that all replicas share, the lowest rank first, and is told when to
come back. It stands there under its name, so that whichever replica comes back takes the turn, and
a message that changed meanwhile is edited once. Where a platform refuses all the same, nobody calls
until it may.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum

from gateway.cards.card import Card
from gateway.models import Status
from gateway.ports.outgoing import AdapterStorage, Limited, RetryLater

GATHER_SECONDS = 0.05  # those that were asked for together come here in any order
_NOW = 0.2  # seconds; waits this short are waited out
_CROWDED_SECONDS = 5.0
_PLACE_SECONDS = 300.0  # by then the line has forgotten who did not come back
_LAST_MS = 10**13  # later than any time in ms

Waiting = list[tuple[int, int, asyncio.Future[None]]]


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many calls in any so many seconds."""

    most: int
    seconds: float


class Priority(IntEnum):
    """How soon people should see an edit. The first two take buttons away that do nothing more."""

    CLICKED = 0  # somebody looks at this very card, and waits
    DECIDED = 1  # a person decided
    ENDED = 2  # nobody decided: it ran out, or was taken back
    OTHER = 3

    def rank(self, at: int) -> int:
        """Return the rank of an edit about what happened at this time, in ms."""
        return self * _LAST_MS + min(max(at, 0), _LAST_MS - 1)


def rank_edit(card: Card) -> int:
    """Return the rank of the edit that shows a card: first those that take buttons away."""
    if not card.disarms:
        return Priority.OTHER.rank(card.created)
    decided = card.status in (Status.APPROVED, Status.DENIED)
    return (Priority.DECIDED if decided else Priority.ENDED).rank(card.decided_at or card.created)


class RateLimiter:
    """Hands out turns of budgets, which are an adapter's own."""

    def __init__(self, notes: AdapterStorage) -> None:
        self._notes = notes
        self._waiting: dict[str, Waiting] = {}
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def turn(
        self, budget: str, rate: Rate, name: str, *, rank: int = 0, about: str = ""
    ) -> AsyncIterator[None]:
        """Hold a budget for one call, once nobody of a lower rank waits for it here.

        Raises RetryLater when the call must be made later; nothing is held meanwhile.
        """
        slot = self.slot(budget, rate, name, rank=rank, about=about)
        try:
            async with self._line(budget, rank), slot:
                yield
        except RetryLater:
            place = json.dumps([budget, rate.most, rate.seconds])
            await self._notes.put(_place_of(name), place, seconds=_PLACE_SECONDS)
            raise

    async def leave(self, name: str) -> None:
        """Leave the line with a call that is not to be made any more."""
        if (place := await self._notes.get(_place_of(name))) is not None:
            budget, most, seconds = json.loads(place)
            await self._notes.leave_line(budget, name, most=most, seconds=seconds)

    @asynccontextmanager
    async def slot(
        self, budget: str, rate: Rate, name: str, *, rank: int, leave: int = 0, about: str = ""
    ) -> AsyncIterator[None]:
        """Make one call in its turn, whoever else is under way. It leaves so many to others.

        Raises RetryLater when its turn is not now. What it is `about` is looked at again when its
        turn comes sooner than that says.
        """
        while wait := await self._notes.take_turn(
            budget,
            name,
            rank=rank,
            most=rate.most,
            seconds=rate.seconds,
            leave=leave,
            about=about,
        ):
            if wait > _NOW:
                raise RetryLater(wait, "the platform takes no more at once")
            await asyncio.sleep(wait)
        try:
            yield
        except Limited as limit:
            await self._notes.shut(budget, seconds=limit.seconds)
            raise
        except RetryLater as later:
            if later.unsent:
                await self._notes.return_turn(budget, name)
            raise

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


def _place_of(name: str) -> str:
    """Return the note that says in which line a call stands."""
    return f"stands {name}"
