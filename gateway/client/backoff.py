"""Pauses between tries: each is random, up to a bound that doubles.

No `random`, whose import would cost each tool call 3 ms."""

from __future__ import annotations

import os

FIRST_BOUND, LAST_BOUND = 0.2, 5.0
_STEPS = 1 << 16


class Backoff:
    """The pauses of one caller. Random ones keep many callers from coming back at once."""

    def __init__(self) -> None:
        self._bound = FIRST_BOUND

    def pause(self, at_least: float = 0.0) -> float:
        """Return how many seconds to wait before the next try; `at_least` is the gateway's wish."""
        bound, self._bound = self._bound, min(2 * self._bound, LAST_BOUND)
        return at_least + bound * int.from_bytes(os.urandom(2), "big") / _STEPS
