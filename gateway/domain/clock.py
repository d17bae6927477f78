"""The only place of the gateway that reads the wall clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time as the gateway sees it. Deadlines are judged by the Redis server's time instead."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""


class SystemClock:
    """The host's clock."""

    def now_ms(self) -> int:
        """Return the host's milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000
