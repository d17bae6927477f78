"""Keeps under Slack's rate limits, together with all other replicas, without holding anybody up.

Who must wait is given a turn and told when to come back; the turn is kept under the copy's name, so
that whichever replica comes back takes it. A message that changed meanwhile is edited once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gateway.clock import Clock
from gateway.delivery import Notes, TryLater

_NOW = 0.02  # waits this short are waited out
_GRACE = 120.0
_MINUTE_MS = 60_000
_SPARE = 1  # how much of Slack's limit is left for what comes late


@dataclass(frozen=True, slots=True)
class Limit:
    """A budget: so many a minute, so many of them at once."""

    per_minute: float
    burst: int


# Slack's tier 3 is 50 in any minute: 45, a burst of 2, and one for what is late. What no
# person decided leaves room for edits that show a decision. A channel takes one post a second.
UPDATES = Limit(45, 2)
OTHER_UPDATES = Limit(35, 2)
POSTS = Limit(57, 3)


class Pace:
    """Hands out turns."""

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock
        self._busy: dict[str, float] = {}  # until when each budget is used up by what was done
        self._promised: dict[str, float] = {}

    async def turn(self, budget: str, limit: Limit, name: str) -> None:
        """Return when it is this caller's turn; raises TryLater when that is not now."""
        key = f"turn {budget} {name}"
        kept = await self._notes.get(key)
        now = self._clock.now_ms()
        if kept is None:
            wait = await self._notes.delay(budget, per_minute=limit.per_minute, burst=limit.burst)
            if wait > _NOW:
                await self._notes.put(key, str(now + int(wait * 1000)), seconds=wait + _GRACE)
                raise TryLater(wait)
            await asyncio.sleep(wait)
        elif int(kept) > now:
            raise TryLater((int(kept) - now) / 1000)
        if early := self._early(budget, limit, now):
            await self._notes.put(key, str(now + int(early)), seconds=early / 1000 + _GRACE)
            raise TryLater(early / 1000)
        if kept is not None:
            await self._notes.delete(key)

    def _early(self, budget: str, limit: Limit, now: int) -> float:
        """Return the ms to wait because turns that were missed all come now; mostly 0.

        They are given new ones, one after the other.
        """
        each = _MINUTE_MS / limit.per_minute
        busy = max(self._busy.get(budget, 0.0), now)
        ahead = busy - now - (limit.burst + _SPARE - 1) * each
        if ahead <= 0:
            self._busy[budget] = busy + each
            return 0.0
        slot = max(self._promised.get(budget, 0.0), now + ahead)
        self._promised[budget] = slot + each
        return slot - now
