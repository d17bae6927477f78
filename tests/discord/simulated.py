"""A day in seconds: an event loop whose clock jumps to the next thing that is due.

Sockets, tasks and threads are real; only time is not. It stands still while anything is under way,
so that nothing is ever late.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Executor
from typing import Any

import discord.gateway
from discord.gateway import KeepAliveHandler

from gateway.domain.time_and_tasks import SystemClock

_SETTLE_SECONDS = 0.002  # of the real clock, while a thread works


class Clock:
    """The simulated time: seconds since the start, and how many threads are at work in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.busy = 0
        self._began = SystemClock().now_ms()

    def rule(self) -> None:
        """Be the clock of this process from now on; there is no way back."""
        time.monotonic = time.perf_counter = lambda: self.now
        time.time = lambda: self._began / 1e3 + self.now  # noqa: TID251 (this is the clock)
        time.time_ns = lambda: int(self._began * 1e6 + self.now * 1e9)  # noqa: TID251 (as above)


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if self._clock.busy or timeout is None:
            return super().select(_SETTLE_SECONDS)
        self._clock.now += timeout
        return []


class Loop(asyncio.SelectorEventLoop):
    """Runs on a simulated clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(_Selector(clock))
        self.clock = clock

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Run in a thread, for which time stands still."""
        future = super().run_in_executor(executor, func, *args)
        self.clock.busy += 1
        future.add_done_callback(lambda _: self._released())
        return future

    def _released(self) -> None:
        self.clock.busy -= 1


class _Alarm(threading.Event):
    """An event on which a thread waits in simulated time. `out` says that the thread is at work."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop
        self._rung = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.out = True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, or return at once when it is set."""
        if self.is_set():
            return True
        self._rung.clear()
        self._loop.call_soon_threadsafe(self._arm, timeout or 0.0)
        self._rung.wait()
        return self.is_set()

    def set(self) -> None:
        """Wake the thread for good."""
        super().set()
        self._rung.set()

    def _arm(self, timeout: float) -> None:
        self.come_back()
        self._timer = self._loop.call_later(timeout, self._ring)

    def _ring(self) -> None:
        if not self.is_set():
            self.out = True
            self._loop.clock.busy += 1
            self._rung.set()

    def come_back(self) -> None:
        if self.out:
            self.out = False
            self._loop.clock.busy -= 1


class _KeepAlive(KeepAliveHandler):
    """discord.py's heartbeat, a thread of its own, on the simulated clock."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        loop = self.ws.loop
        assert isinstance(loop, Loop)
        self._simulated = loop
        loop.clock.busy += 1
        self._alarm = self._stop_ev = _Alarm(loop)

    def run(self) -> None:
        try:
            super().run()
        finally:
            if not self._simulated.is_closed():
                self._simulated.call_soon_threadsafe(self._alarm.come_back)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on a simulated clock; discord.py's heartbeat too. Once in a process."""
    clock = Clock()
    clock.rule()
    discord.gateway.KeepAliveHandler = _KeepAlive  # type: ignore[misc]
    with asyncio.Runner(loop_factory=lambda: Loop(clock)) as runner:
        return runner.run(work)
