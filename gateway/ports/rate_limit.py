"""Stay below a platform's rate limits across all replicas. Start reading at `RateLimiter.turn`.

A call that must wait joins a line that all replicas share, lowest rank first, and gets a time at
which to try again. The line stores the call's name, so any replica can use the turn. A message that
changed several times meanwhile is edited only once. If the platform still rejects a call, all calls
pause.
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

GATHER_SECONDS = 0.05  # calls that start together may arrive in any order
_NOW = 0.2  # seconds; wait this long before giving up the turn
_CROWDED_SECONDS = 5.0
_PLACE_SECONDS = 300.0  # by then the line has dropped a name that did not return
_LAST_MS = 10**13  # later than any time in ms

Waiting = list[tuple[int, int, asyncio.Future[None]]]


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `most` calls in any `seconds`."""

    most: int
    seconds: float


class Priority(IntEnum):
    """The urgency of an edit. Edits with the first three priorities remove buttons that no longer
    work."""

    CLICKED = 0  # a person clicked this card and waits
    DECIDED = 1  # a person decided
    ENDED = 2  # expired or cancelled without a decision
    OTHER = 3

    def rank(self, at: int) -> int:
        """Return the rank of an edit about an event at this time, in ms since the epoch."""
        return self * _LAST_MS + min(max(at, 0), _LAST_MS - 1)


def rank_edit(card: Card) -> int:
    """Return the rank of the edit that shows a card. Cards that lose their buttons come first."""
    if not card.disarms:
        return Priority.OTHER.rank(card.created)
    decided = card.status in (Status.APPROVED, Status.DENIED)
    return (Priority.DECIDED if decided else Priority.ENDED).rank(card.decided_at or card.created)


class RateLimiter:
    """Distributes the turns of an adapter's rate budgets."""

    def __init__(self, notes: AdapterStorage) -> None:
        self._notes = notes
        self._waiting: dict[str, Waiting] = {}
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def turn(
        self, budget: str, rate: Rate, name: str, *, rank: int = 0, about: str = ""
    ) -> AsyncIterator[None]:
        """Take a turn for one call, after all calls with a lower rank in this process.

        Raises RetryLater if the call must be made later. No turn is reserved until then.
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
        """Remove a call that is no longer needed from the line."""
        if (place := await self._notes.get(_place_of(name))) is not None:
            budget, most, seconds = json.loads(place)
            await self._notes.leave_line(budget, name, most=most, seconds=seconds)

    @asynccontextmanager
    async def slot(
        self, budget: str, rate: Rate, name: str, *, rank: int, leave: int = 0, about: str = ""
    ) -> AsyncIterator[None]:
        """Take a turn for one call, in any order within this process; `leave` turns stay free.

        Raises RetryLater if the call must wait. If its turn comes earlier than announced, the
        adapter's queue handles the subject `about` again.
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
                raise RetryLater(wait, "the platform's rate limit is reached")
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
        """Wait in this process's line, lowest rank first."""
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
                self._next(budget)  # the turn had already come
            if isinstance(error, TimeoutError):
                raise RetryLater(1.0, "other calls to this channel are sent first") from None
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
    """Return the name of the note that stores the line in which a call waits."""
    return f"stands {name}"
