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
_STALE_SECONDS = 3.0  # turns that were missed by more would come in a crowd


@dataclass(frozen=True, slots=True)
class Limit:
    """A budget: so many a minute, so many of them at once."""

    per_minute: float
    burst: int


# Slack's tier 3 is 50 in any minute: 45, a burst of 2, and what may come 3 seconds late. What no
# person decided leaves room for the edits that show a decision. A channel takes one message a second.
UPDATES = Limit(45, 2)
OTHER_UPDATES = Limit(35, 2)
POSTS = Limit(57, 3)


class Pace:
    """Hands out turns."""

    def __init__(self, notes: Notes, clock: Clock, *, speed: float = 1.0) -> None:
        self._notes = notes
        self._clock = clock
        self._speed = speed

    async def turn(self, budget: str, limit: Limit, name: str) -> None:
        """Return when it is this caller's turn; raises TryLater when that is not now."""
        key = f"turn {budget} {name}"
        kept = await self._notes.get(key)
        now = self._clock.now_ms()
        if kept is not None:
            if int(kept) > now:
                raise TryLater((int(kept) - now) / 1000)
            await self._notes.delete(key)
            if now - int(kept) < _STALE_SECONDS * 1000 / self._speed:
                return
        per_minute = limit.per_minute * self._speed
        wait = await self._notes.delay(budget, per_minute=per_minute, burst=limit.burst)
        if wait <= _NOW:
            await asyncio.sleep(wait)
            return
        await self._notes.put(key, str(now + int(wait * 1000)), seconds=wait + _GRACE)
        raise TryLater(wait)
