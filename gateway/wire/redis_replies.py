"""The server's replies, handed out in the very turn of the event loop in which they come.

redis-py makes the connection: addresses, TLS, credentials, the greeting. Reading through its
streams takes two turns and a dozen calls more for each reply, and somebody waits for that.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import InvalidResponse

_MORE: Any = object()


class Replies(asyncio.Protocol):
    """Takes over a connection that redis-py has made, which is used for nothing else from then on.

    `take` is called with each reply, an exception where the server refused something; `lost` once,
    with why. What the server pushes without being asked is dropped. What `take` raises ends the
    connection, and so does a reply of more than `most_bytes`.
    """

    def __init__(
        self,
        connection: Any,
        take: Callable[[Any], None],
        lost: Callable[[str], None],
        most_bytes: float = math.inf,
    ) -> None:
        # redis-py shows neither in public.
        self._transport = connection._writer.transport
        parser = connection._parser
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=parser.parse_error,
            encoding=connection.encoder.encoding,
            errors=connection.encoder.encoding_errors,
            notEnoughData=_MORE,
        )
        self._take = take
        self._lost = lost
        self._most_bytes = most_bytes
        self._unfinished = 0  # bytes that have come since the last whole reply
        self._why = "the connection was closed"
        self._streams = self._transport.get_protocol()
        self._transport.set_protocol(self)

    @property
    def open(self) -> bool:
        """Whether the connection stands, as far as is known."""
        return not self._transport.is_closing()

    def write(self, packed: bytes) -> None:
        """Send packed commands; raises ConnectionError when the connection is lost."""
        if not self.open:
            raise Disconnected(self._why)
        self._transport.write(packed)

    def abort(self) -> None:
        """Disconnect at once, whatever was not sent yet; `lost` is called in a moment."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Hand out what is complete."""
        try:
            self._hand_out(data)
        except Exception as error:
            # Whatever it was, no answer after it can be trusted to be the one that is waited for.
            self._why = f"the connection was given up: {error!r}"
            self.abort()

    def _hand_out(self, data: bytes) -> None:
        self._unfinished += len(data)
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not _MORE:
            self._unfinished = 0
            if not isinstance(reply, hiredis.PushNotification):
                self._take(reply)
        if self._unfinished > self._most_bytes:
            raise InvalidResponse(f"a reply of more than {self._most_bytes} bytes")

    def eof_received(self) -> bool:
        """Close our side too."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Say so, to redis-py as well, which may wait for it to close."""
        self._streams.connection_lost(error)
        self._lost(f"the connection was lost: {error}" if error else self._why)
