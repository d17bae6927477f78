"""The terminal adapter: runs the screen, and stops the process when the person leaves it."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from logging.handlers import MemoryHandler

from adapters.terminal.screen import TerminalApp
from adapters.terminal.window import WindowDriver, watch_window
from gateway.errors import InvalidRequest
from gateway.ports import Desk, Identity, SystemClock, cancel_and_wait

_KEPT_LINES = 1000


class TerminalAdapter:
    """Lets the person at this terminal answer, as `terminal:` and their login name."""

    name = "terminal"

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        """Show the screen until left. When the person quits, stop the process."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise InvalidRequest("the terminal adapter needs a terminal to draw on")
        who = Identity(platform=self.name, id=_read_login())
        screen = TerminalApp(desk, who, SystemClock(), WindowDriver)
        with _hold_log():
            task = asyncio.create_task(screen.run_async(), name="terminal")
            task.add_done_callback(lambda _: signal.raise_signal(signal.SIGTERM))
            watching = asyncio.create_task(watch_window(), name="terminal window")
            try:
                yield
            finally:
                await cancel_and_wait(watching)
                screen.exit()
                await asyncio.gather(task, return_exceptions=True)


def _read_login() -> str:
    """Return the user's name from the system; environment variables could be forged."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise InvalidRequest(f"the system has no name for the user {os.getuid()}") from None


@contextmanager
def _hold_log() -> Iterator[None]:
    """Hold back log lines until the screen is closed; they would overwrite it."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    kept = [MemoryHandler(_KEPT_LINES, logging.CRITICAL + 1, target=one) for one in handlers]
    root.handlers[:] = kept
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for one in kept:
            one.close()
