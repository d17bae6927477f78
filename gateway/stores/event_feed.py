"""Follow the event stream with one blocking read and wake waiting tasks; start with `RedisFeed`.

The stream of all events is followed only while a task needs it, but the short stream of control
events always. `RedisCursor` stores the last event sent to the webhook, and which replica sends.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from gateway.domain.records import AuditEvent, place_of
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.errors import Unreachable
from gateway.ports import Wait
from gateway.stores.archive_folder import NOTHING, ArchiveCursor
from gateway.stores.keys import Keys
from gateway.stores.record_codec import event_from
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script

log = logging.getLogger("gateway.stores")

_WATCHDOG_SECONDS = 6.0
_BATCH = 500
_PAUSE_SECONDS = 0.2
# Shorter than the time after which events move to the archive.
_LONGEST_GAP_SECONDS = 60.0

Ends = Callable[[], Awaitable[tuple[str, str]]]
"""Returns the last entry that left a stream, and its newest entry."""


class RedisFeed:
    """Implements `gateway.ports.Feed` for one namespace. `redis` must have no socket timeout.

    One read blocks for `block_ms`. `healthy` ignores interruptions shorter than `patience` seconds,
    which must exceed one read. A subscriber may fall behind by `buffer` events. The stream of all
    events is followed for `linger` seconds after the last subscriber left.
    """

    def __init__(
        self,
        redis: Any,
        keys: Keys | None = None,
        *,
        block_ms: int = 4000,
        patience: float = 6.0,
        buffer: int = 2000,
        linger: float = 10.0,
    ) -> None:
        self._redis = redis
        self._keys = keys or Keys()
        self._linger = linger
        self._subscribers = _Subscribers(buffer)
        self._controls = _Subscribers(buffer)
        self._watches: defaultdict[str | None, set[Bell]] = defaultdict(set)
        follow = partial(_Follower, redis, block_ms=block_ms, patience=patience)
        self._all = follow(self._keys.events, self.find_ends)
        self._control = follow(self._keys.control, self._find_control_ends)
        self._wanting = 0
        self._left_at = 0.0
        self._running = False
        self._following: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the streams during the block. Their positions are known on entry."""
        await self._control.begin()
        hearing = asyncio.create_task(
            self._control.follow(self._controls.tell, self._controls.cut_off_all, lambda: True),
            name="control events",
        )
        self._running = True
        try:
            if self._wanting:
                await self._begin()
            yield
        finally:
            self._running = False
            await cancel_and_wait(hearing, *([self._following] if self._following else []))
            self._following = None

    @property
    def follows_all(self) -> bool:
        """Whether this process currently follows all events."""
        return self._following is not None

    @property
    def healthy(self) -> bool:
        """Whether events are being read, so that the feed can wake waiting tasks."""
        return self._control.healthy and (not self.follows_all or self._all.healthy)

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[AuditEvent]]:
        """Subscribe to new events. The iterator raises Unreachable if it falls behind."""
        with self._subscribers.one() as events:
            async with self._wanted():
                yield events

    @asynccontextmanager
    async def controls(self) -> AsyncIterator[AsyncIterator[AuditEvent]]:
        """Subscribe to control events. Raises the same error as `changes`."""
        with self._controls.one() as events:
            yield events

    @asynccontextmanager
    async def watch(self, request_id: str | None) -> AsyncIterator[Wait]:
        """Watch one request, or every request if None. The watch is active on entry."""
        watch = Bell()
        self._watches[request_id].add(watch)
        try:
            async with self._wanted():
                yield watch.wait
        finally:
            self._watches[request_id].discard(watch)
            if not self._watches[request_id]:
                del self._watches[request_id]

    @asynccontextmanager
    async def _wanted(self) -> AsyncIterator[None]:
        """Follow all events during the block."""
        self._wanting += 1
        try:
            if self._running:
                await self._begin()
            yield
        finally:
            self._wanting -= 1
            self._left_at = asyncio.get_running_loop().time()

    async def _begin(self) -> None:
        async with self._beginning:
            if self._following is None:
                await self._all.begin()
                self._following = asyncio.create_task(
                    self._follow_all(),
                    name="event feed",
                    context=Context(),  # for all callers, so its log lines have ids of none
                )

    async def _follow_all(self) -> None:
        await self._all.follow(self._tell, self._look_anew, self._is_wanted)
        self._following = None

    def _is_wanted(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._wanting > 0 or now - self._left_at < self._linger

    async def find_ends(self) -> tuple[str, str]:
        """Return the last event that was moved from Redis to the archive, and the newest event."""
        rows = await self._redis.xrevrange(self._keys.events, count=1)
        left = ArchiveCursor.parse(await self._redis.hget(self._keys.meta, "archived")).last
        return left, rows[0][0] if rows else left

    async def _find_control_ends(self) -> tuple[str, str]:
        rows = await self._redis.xrevrange(self._keys.control, count=1)
        return NOTHING, rows[0][0] if rows else NOTHING

    def _tell(self, event: AuditEvent) -> None:
        for watched in (event.request_id, None):
            for watch in self._watches.get(watched, ()):
                watch.wake()
        self._subscribers.tell(event)

    def _look_anew(self) -> None:
        """Make all waiting tasks read the current state."""
        for watch in (watch for watches in self._watches.values() for watch in watches):
            watch.wake()
        self._subscribers.cut_off_all()


class _Follower:
    """Follows one stream from the position found by `begin`."""

    def __init__(self, redis: Any, key: str, ends: Ends, *, block_ms: int, patience: float) -> None:
        self._redis = redis
        self._key = key
        self._ends = ends
        self._block_ms, self._patience = block_ms, patience
        self._cursor: str | None = None
        self._failing_since: float | None = None
        self._read_at = 0.0

    @property
    def healthy(self) -> bool:
        """Whether it is reading, or stopped less than `patience` seconds ago."""
        since = self._failing_since
        return since is None or asyncio.get_running_loop().time() - since < self._patience

    async def begin(self) -> None:
        """Find the position to start from. If Redis does not respond, the position is found later,
        and subscribers must read the current state."""
        self._failing_since = self._cursor = None
        try:
            _, self._cursor = await self._ends()
        except (RedisError, OSError, TimeoutError) as error:
            self._interrupt(error)
        self._read_at = asyncio.get_running_loop().time()

    async def follow(
        self,
        tell: Callable[[AuditEvent], None],
        missed: Callable[[], None],
        wanted: Callable[[], bool],
    ) -> None:
        """Pass each event to `tell` while `wanted`. Call `missed` if some were missed."""
        quiet = False
        while wanted():
            try:
                quiet = not await self._read(tell, missed, quiet=quiet)
            except Exception as error:
                # The cursor is unchanged, so nothing is missed after a reconnect. Catch every
                # error: without this task nobody here would be woken.
                self._interrupt(error)
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._failing_since = None

    def _interrupt(self, error: Exception) -> None:
        usual = isinstance(error, RedisError | OSError | TimeoutError)
        log.warning(
            "event feed interrupted: %r",
            error,
            extra={"event": "feed_interrupted"},
            exc_info=not usual,
        )
        self._failing_since = self._failing_since or asyncio.get_running_loop().time()

    async def _read(
        self, tell: Callable[[AuditEvent], None], missed: Callable[[], None], *, quiet: bool
    ) -> bool:
        """Pass on the next events. Return whether there were any. `quiet` says that the previous
        call found none."""
        now = asyncio.get_running_loop().time
        if self._cursor is None or quiet or now() - self._read_at > _LONGEST_GAP_SECONDS:
            await self._check_cursor(missed)
        async with asyncio.timeout(_WATCHDOG_SECONDS):
            found = await self._redis.xread(
                {self._key: self._cursor}, count=_BATCH, block=self._block_ms
            )
        self._read_at = now()
        for event_id, fields in (entry for _, entries in found for entry in entries):
            self._cursor = event_id
            try:
                event = event_from(event_id, fields)
            except (KeyError, ValueError) as error:
                log.error("cannot read event %s: %s", event_id, error, extra={"event": "bad_event"})
                continue
            tell(event)
        return bool(found)

    async def _check_cursor(self, missed: Callable[[], None]) -> None:
        """Make all tasks read the current state if the cursor is behind or ahead of the stream.

        A server that was restored from an older file, or whose clock was set back, uses lower IDs
        again. A reader with an old cursor would then receive nothing. After a long absence, missed
        events may have moved to the archive.
        """
        left, last = await self._ends()
        if self._cursor is not None:
            if place_of(left) <= place_of(self._cursor) <= place_of(last):
                return
            ahead = place_of(self._cursor) > place_of(last)
            text = "event ids went backwards" if ahead else "events were missed"
            log.warning(text, extra={"event": "feed_went_back" if ahead else "feed_missed"})
            self._cursor = last if ahead else left
        else:
            self._cursor = last
        missed()


class _Subscribers:
    """Passes events to subscribers at their own pace, at most `buffer` events behind."""

    def __init__(self, buffer: int) -> None:
        self._buffer = buffer
        self._queues: set[asyncio.Queue[AuditEvent | None]] = set()

    @contextmanager
    def one(self) -> Iterator[AsyncIterator[AuditEvent]]:
        """Subscribe to events during the block. The iterator raises Unreachable if it falls
        behind."""
        queue: asyncio.Queue[AuditEvent | None] = asyncio.Queue(self._buffer)
        self._queues.add(queue)
        try:
            yield _drain(queue)
        finally:
            self._queues.discard(queue)

    def tell(self, event: AuditEvent) -> None:
        """Pass an event to all subscribers. Cut off slow readers, so that events do not fill the
        memory."""
        for queue in list(self._queues):
            if queue.full():
                self._cut_off(queue)
            else:
                queue.put_nowait(event)

    def cut_off_all(self) -> None:
        """End all subscriptions; their iterators raise."""
        for queue in list(self._queues):
            self._cut_off(queue)

    def _cut_off(self, queue: asyncio.Queue[AuditEvent | None]) -> None:
        self._queues.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)


class Bell:
    """Wakes a task when an event arrives that the task waits for."""

    def __init__(self) -> None:
        self._bell = asyncio.Event()

    def wake(self) -> None:
        """Wake the waiting task."""
        self._bell.set()

    async def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds. Return whether an event came since the last call."""
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
            raise Unreachable("some events were missed; read the state again")
        yield event


class RedisCursor:
    """Implements `gateway.delivery.webhooks.Cursor` for one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis = store.redis
        self._place = store.keys.of("webhooks", "cursor")
        self._claim = [store.keys.of("webhooks", "claim"), store.keys.meta]
        self._sender = secrets.token_hex(8)
        self._take = Script("take_claim", store.at)

    async def claim(self, seconds: float) -> bool:
        """Become the only replica that sends, for `seconds`. Return False if another replica is."""
        taken = await self._take.run(self._redis, self._claim, [self._sender, int(seconds * 1000)])
        return bool(taken)

    async def load_cursor(self) -> str | None:
        """Return the ID of the last processed event, or None."""
        found: str | None = await self._redis.get(self._place)
        return found

    async def save_cursor(self, event_id: str) -> None:
        """Save the ID of the last processed event."""
        await self._redis.set(self._place, event_id)
