"""Run the terminal screen, and stop the process when the person quits; start with
`TerminalAdapter.run`."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import select
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from logging.handlers import MemoryHandler
from typing import Any, TextIO

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from adapters.terminal.screen import TerminalApp
from gateway.errors import InvalidRequest
from gateway.ports import Adapter, AdapterApi, Identity, SystemClock, cancel_and_wait

# The terminal window can be closed at any moment.
#
# SIGHUP then ends the process, unless it is ignored (as under nohup) or reloads a policy file. In
# those cases the library would block the whole process: its drawing thread dies of the first
# error, and all later drawing waits for that thread.

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


class WindowDriver(LinuxDriver):
    """Draws like Textual's driver, but discards the output once the window is closed."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._file: Any = _Window(self._file)


class _Window:
    """The output file of the driver, with write errors ignored."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError:
            return  # the window is closed, which `watch_window` detects

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError:
            return  # as above

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


async def watch_window() -> None:
    """Stop the process once its window is closed, because nobody can decide there any more."""
    window = select.poll()
    window.register(sys.stdin.fileno(), 0)  # 0: report only that it is closed
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if window.poll(0):
            break
    log.warning("the terminal was closed", extra={"event": "terminal_closed"})
    signal.raise_signal(signal.SIGTERM)


_KEPT_LINES = 1000


class TerminalAdapter(Adapter):
    """Lets the person at this terminal decide. Their identity is `terminal:` and their login
    name."""

    name = "terminal"
    posts = False

    @asynccontextmanager
    async def run(self, api: AdapterApi) -> AsyncIterator[None]:
        """Show the screen inside the context. When the person quits, stop the process."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise InvalidRequest("the terminal adapter needs a terminal as its input and output")
        who = Identity(platform=self.name, id=_read_login())
        screen = TerminalApp(api, who, SystemClock(), WindowDriver)
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
    """Return the login name from the system, because environment variables can be forged."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise InvalidRequest(f"the system has no name for the user {os.getuid()}") from None


@contextmanager
def _hold_log() -> Iterator[None]:
    """Hold back log lines until the screen is closed, because they would overwrite it."""
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
