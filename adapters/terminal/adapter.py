"""The adapter itself: the screen as long as the process runs, and its end with the screen."""

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

from adapters.terminal.screen import Answering
from gateway.errors import InvalidRequest
from gateway.ports import Desk, Identity, SystemClock

_KEPT_LINES = 1000


class TerminalAdapter:
    """Lets whoever sits at this terminal answer, as `terminal:` and their login name."""

    name = "terminal"

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        """Show the screen until left; when the person leaves it, the process is told to stop."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise InvalidRequest("the terminal adapter needs a terminal to draw on")
        who = Identity(platform=self.name, id=_login())
        screen = Answering(desk, who, SystemClock())
        with _log_kept():
            task = asyncio.create_task(screen.run_async(), name="terminal")
            task.add_done_callback(lambda _: signal.raise_signal(signal.SIGTERM))
            try:
                yield
            finally:
                screen.exit()
                await asyncio.gather(task, return_exceptions=True)


def _login() -> str:
    """Return the name of whoever runs this, as the system knows it: variables could say any."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise InvalidRequest(f"the system has no name for the user {os.getuid()}") from None


@contextmanager
def _log_kept() -> Iterator[None]:
    """Keep log lines until the screen is gone: they would be written across it."""
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
