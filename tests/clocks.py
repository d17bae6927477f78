"""The clocks of tests: one that stands, and one that is ahead of the machine's or behind it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.domain.time_and_tasks import SystemClock


@dataclass
class StandingClock:
    """Shows one moment, in ms, until it is set to another."""

    now: int

    def now_ms(self) -> int:
        """Return that moment."""
        return self.now


@dataclass
class ShiftedClock:
    """Shows the machine's time and so many seconds more."""

    ahead: float = 0

    def now_ms(self) -> int:
        """Return the shifted time."""
        return SystemClock().now_ms() + int(self.ahead * 1000)
