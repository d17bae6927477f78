"""The window that the screen is drawn in, which may be closed at any moment.

The process then gets SIGHUP, and ends; but not where that is ignored, as under nohup, or has a
policy file read again. The library would stand still for good there: its thread that draws dies of
the first error, and whatever is to be drawn after that waits for it, with all else that this
process does.
"""

from __future__ import annotations

import asyncio
import logging
import select
import signal
import sys
from typing import Any, TextIO

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


class WindowDriver(LinuxDriver):
    """Draws as Textual does, and into nowhere once the window is gone."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._file: Any = _Window(self._file)


class _Window:
    """What is drawn on, which takes everything."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError:
            return  # gone: `watch_window` says so

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError:
            return  # as above

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


async def watch_window() -> None:
    """Stop the process once its window is closed: nobody can answer here any more."""
    window = select.poll()
    window.register(sys.stdin.fileno(), 0)  # 0: only that it is gone
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if window.poll(0):
            break
    log.warning("the terminal is gone", extra={"event": "terminal_closed"})
    signal.raise_signal(signal.SIGTERM)
