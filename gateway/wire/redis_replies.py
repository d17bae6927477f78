"""Reads the server's replies on a connection that redis-py has made.

redis-py makes the connection: addresses, TLS, credentials, the greeting. Reading through its
streams costs two turns of the event loop and a dozen calls for each reply, while somebody waits. So
`read_replies` takes over the transport and parses replies in the same turn in which they arrive.

redis-py keeps the transport in private attributes. This module alone uses them; where a version of
redis-py no longer has them, replies are read through its public calls instead.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import hiredis
from redis.exceptions import AuthenticationError, InvalidResponse, ResponseError
from redis.exceptions import ConnectionError as Disconnected

_INCOMPLETE: Any = object()

Take = Callable[[Any], None]
"""Called with each reply; with an exception where the server refused a command. What it raises
ends the connection."""

Lost = Callable[[str], None]
"""Called once, with the reason, when the connection has ended."""


def read_replies(
    connection: Any, take: Take, lost: Lost, most_bytes: float = math.inf
) -> DirectReplies | PublicReplies:
    """Hand each reply of a connection to `take`; the connection is used for nothing else.

    Replies that the server pushes unasked are dropped. A reply of more than `most_bytes` ends the
    connection; where redis-py's public calls are used, its parser sets the limit.
    """
    try:
        transport = connection._writer.transport
        parse_error = connection._parser.parse_error
    except AttributeError:
        return PublicReplies(connection, take, lost)
    reader = hiredis.Reader(
        protocolError=InvalidResponse,
        replyError=parse_error,
        encoding=connection.encoder.encoding,
        errors=connection.encoder.encoding_errors,
        notEnoughData=_INCOMPLETE,
    )
    return DirectReplies(transport, reader, take, lost, most_bytes)


class DirectReplies(asyncio.Protocol):
    """Receives from the transport itself. See `read_replies`."""

    def __init__(
        self, transport: Any, reader: Any, take: Take, lost: Lost, most_bytes: float
    ) -> None:
        self._transport = transport
        self._reader = reader
        self._take = take
        self._lost = lost
        self._most_bytes = most_bytes
        self._incomplete_bytes = 0  # received since the last whole reply
        self._why = "the connection was closed"
        self._streams = transport.get_protocol()
        transport.set_protocol(self)

    @property
    def open(self) -> bool:
        """Whether the connection is up, as far as is known."""
        return not self._transport.is_closing()

    def write(self, packed: bytes) -> None:
        """Send packed commands; raises ConnectionError when the connection is lost."""
        if not self.open:
            raise Disconnected(self._why)
        self._transport.write(packed)

    def abort(self) -> None:
        """Disconnect at once and drop what was not sent yet; `lost` is called soon after."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Hand out the replies that are complete."""
        try:
            self._hand_out(data)
        except Exception as error:
            # Whatever failed, later replies can no longer be matched to their commands.
            self._why = f"the connection was given up: {error!r}"
            self.abort()

    def _hand_out(self, data: bytes) -> None:
        self._incomplete_bytes += len(data)
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not _INCOMPLETE:
            self._incomplete_bytes = 0
            if not isinstance(reply, hiredis.PushNotification):
                self._take(reply)
        if self._incomplete_bytes > self._most_bytes:
            raise InvalidResponse(f"a reply of more than {self._most_bytes} bytes")

    def eof_received(self) -> bool:
        """Close our side too."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Report the loss, also to redis-py's streams, which may be waiting for it."""
        self._streams.connection_lost(error)
        self._lost(f"the connection was lost: {error}" if error else self._why)


class PublicReplies:
    """Sends and receives through redis-py's public calls, in a task. See `read_replies`."""

    def __init__(self, connection: Any, take: Take, lost: Lost) -> None:
        self._connection = connection
        self._take = take
        self._lost = lost
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._why = "the connection was closed"
        self.open = True
        self._task = asyncio.create_task(self._run(), name="redis replies")
        self._task.add_done_callback(self._end)

    def write(self, packed: bytes) -> None:
        """Send packed commands; raises ConnectionError when the connection is lost."""
        if not self.open:
            raise Disconnected(self._why)
        self._outgoing.put_nowait(packed)

    def abort(self) -> None:
        """Disconnect and drop what was not sent yet; `lost` is called soon after."""
        self.open = False
        self._task.cancel()

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_all())
                group.create_task(self._receive_all())
        except* Exception as errors:
            self._why = f"the connection was given up: {errors.exceptions[0]!r}"
        finally:
            await self._connection.disconnect(nowait=True)

    async def _send_all(self) -> None:
        while True:
            packed = await self._outgoing.get()
            await self._connection.send_packed_command(packed, check_health=False)

    async def _receive_all(self) -> None:
        """Hand out replies until the connection ends; nothing is sent on it after a failure."""
        try:
            while True:
                self._take(await self._receive())
        finally:
            self.open = False

    async def _receive(self) -> Any:
        try:
            return await self._connection.read_response()
        except ResponseError as refusal:
            return refusal
        except AuthenticationError as refusal:  # redis-py has disconnected after this one
            self._take(refusal)
            raise

    def _end(self, _: asyncio.Task[None]) -> None:
        self.open = False
        self._lost(self._why)
