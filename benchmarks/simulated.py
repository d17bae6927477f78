"""Simulated time: it stands still while any work can be done, and skips ahead while all wait.

Half an hour of Slack is measured in minutes, whatever the speed of the processor. One event loop
has this clock, and with it its timers, the gateway's `SystemClock`, and the Lua scripts, which
otherwise ask the server for the time.
"""

from __future__ import annotations

import asyncio
import hashlib
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import redis

from gateway.domain.time_and_tasks import SystemClock
from gateway.stores import event_feed as feed
from gateway.stores import ingress as bounded
from gateway.stores.scripts import Script

_KEY = "simulated:ms"
_SERVERS = "local time = redis.call('TIME')"
_OURS = f"""local ours = redis.call('GET', '{_KEY}')
  if ours then return tonumber(ours) end
  {_SERVERS}"""
_STILL_SECONDS = 0.0005  # the server has answered all, and nothing came for so long: all wait
_NEVER = 1e6
_T = TypeVar("_T")


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time is real except inside `simulate_time`."""

    def __init__(self) -> None:
        self._waiting = _Selector(self._leap)
        super().__init__(self._waiting)
        self._server: Any = None
        self._now = 0.0
        self._ahead = 0.0  # of real time, from earlier leaps
        self._epoch_ms = 0.0  # the wall clock when the loop's was 0

    def time(self) -> float:
        """Return the loop's seconds."""
        return super().time() + self._ahead if self._server is None else self._now

    @contextmanager
    def simulate_time(self, url: str) -> Iterator[None]:
        """Simulate time inside the block, here and in the scripts of the server at `url`."""
        wall, self._now = SystemClock.now_ms, self.time()
        self._epoch_ms = wall(SystemClock()) - self._now * 1000
        self._server = redis.Redis.from_url(url)
        self._tell()
        SystemClock.now_ms = lambda _: self._now_ms  # type: ignore[method-assign, assignment]
        # A read that the server holds open lasts as long as ever, which looks like hours from here.
        guards = feed._WATCHDOG_SECONDS, bounded._SECONDS
        feed._WATCHDOG_SECONDS = bounded._SECONDS = _NEVER
        self._waiting.leaps = True
        try:
            yield
        finally:
            self._waiting.leaps = False
            feed._WATCHDOG_SECONDS, bounded._SECONDS = guards
            SystemClock.now_ms = wall  # type: ignore[method-assign]
            self._server.close()
            self._server = None
            self._ahead = self._now - super().time()

    @property
    def _now_ms(self) -> int:
        return int(self._epoch_ms + self._now * 1000)

    def _leap(self, seconds: float | None) -> None:
        """Have the server answer what it was asked before; with seconds, let them pass."""
        if seconds is None:
            self._server.ping()
            return
        self._now += seconds
        self._tell()

    def _tell(self) -> None:
        self._server.set(_KEY, self._now_ms)


class _Selector(selectors.DefaultSelector):
    """Waits only for work under way; instead of waiting for a timer it skips ahead to it."""

    def __init__(self, leap: Callable[[float | None], None]) -> None:
        super().__init__()
        self.leaps = False
        self._leap = leap

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what happened."""
        if not self.leaps or (timeout is not None and timeout <= 0):
            return super().select(timeout)
        if found := super().select(0):
            return found
        self._leap(None)
        found = super().select(_STILL_SECONDS if timeout is not None else None)
        if not found and timeout is not None:
            self._leap(timeout)
        return found


def run(work: Callable[[Loop], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine function on a loop that can simulate time; needs a thread of its own."""
    before = Script.__init__

    def patch_script(script: Script, *words: Any) -> None:
        before(script, *words)
        script._text = script._text.replace(_SERVERS, _OURS)
        script._sha = hashlib.sha1(script._text.encode(), usedforsecurity=False).hexdigest()

    Script.__init__ = patch_script  # type: ignore[method-assign, assignment]
    try:
        with asyncio.Runner(loop_factory=Loop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, Loop)
            return runner.run(work(loop))
    finally:
        Script.__init__ = before  # type: ignore[method-assign]
