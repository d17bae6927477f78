"""The pipe to a host that starts us as its child: lines in, lines out, and whether it is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONGEST_LINE = 1_048_576
_KEPT_BYTES = 256  # of a line that is too long


class TooLong(ValueError):
    """A line had more bytes than the pipe takes, and was passed over. `start` is how it began."""

    def __init__(self, start: bytes, longest: int) -> None:
        super().__init__(f"the line is longer than {longest} bytes")
        self.start = start


class HostPipe(asyncio.BaseProtocol):
    """The pipe, inside `opened`."""

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
        """Take over standard input and output, with lines of so many bytes at most. What prints by
        mistake goes to standard error, and a signal to stop counts as the host's going."""
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
        """Read no more while the host does not read."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Go on reading."""
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End when the host has closed the pipe by which it is answered."""
        self._gone.set()

    def write(self, line: bytes) -> None:
        """Write one line; what nobody reads any more is dropped."""
        if not self._out.is_closing():
            self._out.write(line + b"\n")

    async def next_line(self) -> bytes | None:
        """Return the next line, None when the host is gone. Raises TooLong."""
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
