"""A line between browser and gateway that can fall silent without breaking, as in a tunnel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Line:
    """Passes bytes on while it is open; silent, it holds them back and keeps the connection."""

    port: int = 0
    passing: asyncio.Event = field(default_factory=asyncio.Event)

    def silence(self) -> None:
        """Let nothing through any more, on the connections there are and on new ones."""
        self.passing.clear()

    def mend(self) -> None:
        """Let bytes through again."""
        self.passing.set()


@asynccontextmanager
async def line(to_port: int) -> AsyncIterator[Line]:
    """Yield a line to a local port."""
    made = Line()
    made.mend()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", to_port)
        except BaseException:  # also when it is cancelled: nobody else closes the socket
            writer.transport.abort()
            raise
        try:
            await asyncio.gather(
                _pass(reader, there_writer, made.passing), _pass(there_reader, writer, made.passing)
            )
        except BaseException:
            writer.transport.abort()
            there_writer.transport.abort()
            raise
        writer.close()
        there_writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.mend()
        server.close()


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event
) -> None:
    try:
        while data := await reader.read(65536):
            await passing.wait()
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()
