"""Exchange lines with the program that started this process. Start at `HostPipe.opened`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONGEST_LINE = 1_048_576
_KEPT_BYTES = 256  # of the start of a line that is too long


class TooLong(ValueError):
    """A line had too many bytes, and was skipped. `start` contains its first bytes."""

    def __init__(self, start: bytes, longest: int) -> None:
        super().__init__(f"the line is longer than {longest} bytes")
        self.start = start


class HostPipe(asyncio.BaseProtocol):
    """The pipes to the parent program. Use them inside `opened`."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._reader = asyncio.StreamReader(limit=longest)
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._gone = asyncio.Event()
        self._out: asyncio.WriteTransport

    @classmethod
    @asynccontextmanager
    async def opened(cls, longest: int = LONGEST_LINE) -> AsyncIterator[HostPipe]:
        """Take over standard input and output, with lines of at most `longest` bytes. A stray
        `print` goes to standard error. A stop signal counts as the end of the parent program."""
        pipe, loop = cls(longest), asyncio.get_running_loop()
        out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        pipe._out, _ = await loop.connect_write_pipe(lambda: pipe, out)
        protocol = asyncio.StreamReaderProtocol(pipe._reader)
        reading, _ = await loop.connect_read_pipe(lambda: protocol, sys.stdin.buffer)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, pipe._gone.set)
        try:
            yield pipe
        finally:
            pipe._out.close()
            reading.close()

    def pause_writing(self) -> None:
        """Stop reading while the parent program does not read."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Continue to read."""
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End when the parent program has closed its end of the output pipe."""
        self._gone.set()

    def write(self, line: bytes) -> None:
        """Write one line. If the pipe is closed, drop the line."""
        if not self._out.is_closing():
            self._out.write(line + b"\n")

    async def next_line(self) -> bytes | None:
        """Return the next line, None after the parent program has ended. Raises TooLong."""
        reading = asyncio.ensure_future(self._read())
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
            return None if self._gone.is_set() else await reading
        finally:
            for task in (reading, gone):
                task.cancel()

    async def _read(self) -> bytes | None:
        await self._may_write.wait()
        start = b""
        while True:
            try:
                line = await self._reader.readuntil()
            except asyncio.IncompleteReadError as error:
                line = error.partial  # the last line, or nothing
                if not line:
                    return None
            except asyncio.LimitOverrunError as error:
                passed_over = await self._reader.readexactly(error.consumed)
                start = start or passed_over[:_KEPT_BYTES]
                continue
            if start:
                raise TooLong(start, self._longest)
            return line
