"""Reads streams that others write, and takes in no more than fits.

Redis cannot bound what a user may write, and tells no entry's size before it is read. So a
connection that is in the middle of too large an answer is given up, entries are asked for one by
one, and one that does not fit by itself is dropped unread.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError

from gateway.stores.scripts import Script

log = logging.getLogger("gateway.ingress")

MOST_BYTES = 8 * 1_048_576
"""Of one answer. A message may have one megabyte, so that a few of the largest fit."""

# An entry of many short fields takes several times as much on its way as it takes in the server.
_LEAST_DROPPED = MOST_BYTES // 8
_BATCH = 128
_SECONDS = 6.0

Entries = list[tuple[str, dict[str, str]]]


class AnswerTooLarge(RedisError):
    """An answer has more than `MOST_BYTES`; the connection that it came on is given up."""


class BoundedParser(DefaultParser):  # type: ignore[valid-type,misc] # a name for the one in use
    """Gives a connection up in the middle of an answer that is too large."""

    def __init__(self, socket_read_size: int) -> None:
        super().__init__(socket_read_size)
        self._taken = 0

    async def read_from_socket(self) -> bool:
        """Take in the next piece of an answer; raises AnswerTooLarge."""
        piece = await self._stream.read(self._read_size)
        if not piece:
            raise Disconnected("the server closed the connection")
        self._taken += len(piece)
        if self._taken > MOST_BYTES:
            raise AnswerTooLarge(f"an answer of more than {MOST_BYTES} bytes")
        self._reader.feed(piece)
        return True

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Return the next answer."""
        self._taken = 0
        return await super().read_response(*args, **options)


class BoundedReader:
    """Reads many streams at once. `blocking` gives up what is too large, see `BoundedParser`.

    `events` is where it is written down that an entry was dropped.
    """

    def __init__(self, redis: Any, blocking: Any, events: str, drop: Script) -> None:
        self._redis = redis
        self._blocking = blocking
        self._events = events
        self._drop = drop
        self._count = _BATCH

    async def read(self, cursors: dict[str, str], block: int) -> dict[str, Entries]:
        """Return what comes after each cursor, waiting for `block` ms at most.

        After too large an answer one entry is asked for of each, and then more again.
        """
        try:
            async with asyncio.timeout(_SECONDS):
                found = await self._blocking.xread(cursors, count=self._count, block=block)
        except AnswerTooLarge:
            self._count = 1
            return await self._one_by_one(cursors)
        self._count = min(2 * self._count, _BATCH)
        return dict(found)

    async def _one_by_one(self, cursors: dict[str, str]) -> dict[str, Entries]:
        """Return the next entry of each stream; one that does not fit by itself is dropped."""
        found: dict[str, Entries] = {}
        for stream, cursor in cursors.items():
            try:
                async with asyncio.timeout(_SECONDS):
                    entries = await self._blocking.xrange(stream, min=f"({cursor}", count=1)
            except AnswerTooLarge:
                await self._drop_oversized(stream)
                continue
            if entries:
                found[stream] = entries
        return found

    async def _drop_oversized(self, stream: str) -> None:
        agent = stream.rpartition(":")[2]
        why = f"a message that is larger than {MOST_BYTES} bytes was dropped unread"
        data = {"verb": "", "code": "too_large", "why": why}
        words: list[str | int] = [_LEAST_DROPPED, agent, json.dumps(data)]
        if await self._drop.run(self._redis, [stream, self._events], words):
            log.error("%s", why, extra={"event": "entry_dropped", "agent": agent})
