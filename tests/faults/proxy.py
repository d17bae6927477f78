"""A network that fails: connections through it can be cut, stalled, or broken off in mid-reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

_CHUNK = 65_536

Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to the server behind the proxy."""


class Proxy:
    """Listens on a loopback port. What is set here holds for old and new connections alike."""

    def __init__(self, upstream: Open) -> None:
        self._upstream = upstream
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.most_replies: int | None = None
        self.accepted = 0
        self.broken = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """Listen until left."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection."""
        for link in list(self._links):
            link.reset()

    def stall(self) -> None:
        """Let nothing through any more; connections stay open, and nobody is told."""
        self._flowing.clear()

    def half_open(self) -> None:
        """Stall, and lose the other side for good: what comes later is never answered."""
        self.stall()
        for link in self._links:
            link.lose_server()

    def flow(self) -> None:
        """Let through what comes from now on, and what was held up."""
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            await self._flowing.wait()
            there, back = await self._upstream()
        except BaseException as error:  # also when it is cancelled: nobody else closes the socket
            writer.transport.abort()
            if isinstance(error, OSError):
                return
            raise
        link = _Link(writer, back)
        self._links.add(link)
        try:
            await asyncio.gather(self._pump(reader, back), self._replies(there, writer, link))
        finally:
            self._links.discard(link)
            link.reset()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await _read(source):
            await self._flowing.wait()
            target.write(data)
        target.close()

    async def _replies(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, link: _Link
    ) -> None:
        count = 0
        while data := await _read(source):
            await self._flowing.wait()
            count += 1
            if self.most_replies is not None and count > self.most_replies:
                self.broken += 1
                target.write(data[: len(data) // 2])
                # What is written is on its way before the reset.
                await target.drain()
                link.reset()
                return
            target.write(data)
        if not link.server_lost:
            target.close()


class _Link:
    """Both ends of one connection."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._client = client
        self._server = server
        self.server_lost = False

    def reset(self) -> None:
        """Break it off at both ends."""
        self._client.transport.abort()
        self._server.transport.abort()

    def lose_server(self) -> None:
        """Break it off at the far end only."""
        self.server_lost = True
        self._server.transport.abort()


async def _read(source: asyncio.StreamReader) -> bytes:
    try:
        return await source.read(_CHUNK)
    except OSError:
        return b""
