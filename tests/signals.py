"""Handlers of signals, which a command may replace as long as it is a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back what handled SIGINT, SIGTERM and SIGALRM before, and end its timer."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    held = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in held.items():
            if signal.getsignal(number) is not handler:  # which only a main thread can do
                signal.signal(number, handler)
