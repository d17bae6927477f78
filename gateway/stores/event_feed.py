"""Follows the event stream with one blocking read and wakes everyone in this process who waits.

`RedisCursor` keeps which event was sent last to the webhook, and which replica sends.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.exceptions import RedisError

from gateway.domain.records import AuditEvent, place_of
from gateway.domain.tasks import cancel_and_wait
from gateway.errors import Unreachable
from gateway.stores.keys import Keys
from gateway.stores.record_codec import event_from
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.stores.segments import NOTHING, Mark

log = logging.getLogger("gateway.feed")

_WATCHDOG_SECONDS = 6.0
_BATCH = 500
_PAUSE_SECONDS = 0.2
# Less than events are settled before they move to the archive.
_LONGEST_GAP_SECONDS = 60.0


class RedisFeed:
    """A `gateway.ports.Feed` over one namespace. `redis` must be a client without socket
    timeout.

    A read waits for `block_ms`. An interruption shorter than `patience` seconds, which is more
    than one quiet read, is no news. A subscriber falls behind by `buffer` events at most.
    """

    def __init__(
        self,
        redis: Any,
        keys: Keys | None = None,
        *,
        block_ms: int = 4000,
        patience: float = 6.0,
        buffer: int = 2000,
    ) -> None:
        self._block_ms, self._patience, self._buffer = block_ms, patience, buffer
        self._redis = redis
        self._keys = keys or Keys()
        self._cursor = NOTHING
        self._failing_since: float | None = None
        self._read_at = 0.0
        self._subscribers: set[asyncio.Queue[AuditEvent | None]] = set()
        self._watches: defaultdict[str | None, set[Bell]] = defaultdict(set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the stream until left. The cursor is taken before entering returns."""
        _, self._cursor = await self._ends()
        self._read_at = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._follow(), name="event feed")
        try:
            yield
        finally:
            await cancel_and_wait(task)

    @property
    def healthy(self) -> bool:
        """Whether events are being read, so that those who wait here hear of them."""
        since = self._failing_since
        return since is None or asyncio.get_running_loop().time() - since < self._patience

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[AuditEvent]]:
        """Subscribe to events from now on. The iterator raises Unreachable when it fell behind."""
        queue: asyncio.Queue[AuditEvent | None] = asyncio.Queue(self._buffer)
        self._subscribers.add(queue)
        try:
            yield _drain(queue)
        finally:
            self._subscribers.discard(queue)

    @asynccontextmanager
    async def watch(self, request_id: str | None) -> AsyncIterator[Bell]:
        """Watch one request, or with None whatever happens, from entering on."""
        watch = Bell()
        self._watches[request_id].add(watch)
        try:
            yield watch
        finally:
            self._watches[request_id].discard(watch)
            if not self._watches[request_id]:
                del self._watches[request_id]

    async def _follow(self) -> None:
        loop, quiet = asyncio.get_running_loop(), False
        while True:
            try:
                quiet = not await self._read(quiet)
            except Exception as error:
                # The cursor stands, so nothing is missed once the server is back. And whatever else
                # it was: without this task nobody here is woken any more.
                usual = isinstance(error, RedisError | OSError | TimeoutError)
                log.warning(
                    "event feed interrupted: %r",
                    error,
                    extra={"event": "feed_interrupted"},
                    exc_info=not usual,
                )
                self._failing_since = self._failing_since or loop.time()
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._failing_since = None

    async def _read(self, quiet: bool) -> bool:
        """Tell of what comes next; return whether anything came. `quiet` is what it was before."""
        now = asyncio.get_running_loop().time
        if quiet or now() - self._read_at > _LONGEST_GAP_SECONDS:
            await self._check_cursor()
        async with asyncio.timeout(_WATCHDOG_SECONDS):
            found = await self._redis.xread(
                {self._keys.events: self._cursor}, count=_BATCH, block=self._block_ms
            )
        self._read_at = now()
        for event_id, fields in (entry for _, entries in found for entry in entries):
            self._cursor = event_id
            try:
                event = event_from(event_id, fields)
            except (KeyError, ValueError) as error:
                log.error("%s is no event: %s", event_id, error, extra={"event": "bad_event"})
                continue
            self._tell(event)
        return bool(found)

    async def _ends(self) -> tuple[str, str]:
        """Return the last event that left Redis, and the last one of all."""
        rows = await self._redis.xrevrange(self._keys.events, count=1)
        left = Mark.parse(await self._redis.hget(self._keys.meta, "archived")).last
        return left, rows[0][0] if rows else left

    async def _check_cursor(self) -> None:
        """Have everyone look at the state anew when the cursor is behind or ahead of the stream.

        A server that was restored from an older file, or whose clock was put back, counts from
        lower ids again; a reader that stood by its cursor would never hear of anything. And one
        that was away for long may find that what it missed has moved to the archive.
        """
        left, last = await self._ends()
        if place_of(left) <= place_of(self._cursor) <= place_of(last):
            return
        ahead = place_of(self._cursor) > place_of(last)
        text = "event ids ran backwards" if ahead else "events were missed"
        log.warning(text, extra={"event": "feed_went_back" if ahead else "feed_missed"})
        self._cursor = last if ahead else left
        for watch in (watch for watches in self._watches.values() for watch in watches):
            watch.wake()
        for queue in list(self._subscribers):
            self._cut_off(queue)

    def _tell(self, event: AuditEvent) -> None:
        for watched in (event.request_id, None):
            for watch in self._watches.get(watched, ()):
                watch.wake()
        for queue in list(self._subscribers):
            if queue.full():
                # A reader this slow must not hold events in memory.
                self._cut_off(queue)
            else:
                queue.put_nowait(event)

    def _cut_off(self, queue: asyncio.Queue[AuditEvent | None]) -> None:
        """End a subscription, and tell its reader so."""
        self._subscribers.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)


class Bell:
    """Rings when an event that someone watches for was read."""

    def __init__(self) -> None:
        self._bell = asyncio.Event()

    def wake(self) -> None:
        """Wake the waiter."""
        self._bell.set()

    async def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return whether an event came since the last call."""
        try:
            async with asyncio.timeout(timeout):
                await self._bell.wait()
        except TimeoutError:
            return False
        self._bell.clear()
        return True


async def _drain(queue: asyncio.Queue[AuditEvent | None]) -> AsyncIterator[AuditEvent]:
    while True:
        event = await queue.get()
        if event is None:
            raise Unreachable("events were missed; read the state again")
        yield event


class RedisCursor:
    """A `gateway.delivery.webhooks.Cursor` over one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis = store.redis
        self._place = store.keys.of("webhooks", "cursor")
        self._claim = [store.keys.of("webhooks", "claim"), store.keys.meta]
        self._sender = secrets.token_hex(8)
        self._take = Script("claim", store.at)

    async def claim(self, seconds: float) -> bool:
        """Be the one replica that sends, for so many seconds; False while another one is."""
        taken = await self._take.run(self._redis, self._claim, [self._sender, int(seconds * 1000)])
        return bool(taken)

    async def load_cursor(self) -> str | None:
        """Return the id of the last event that was dealt with, None in the beginning."""
        found: str | None = await self._redis.get(self._place)
        return found

    async def save_cursor(self, event_id: str) -> None:
        """Remember that this event was dealt with."""
        await self._redis.set(self._place, event_id)
