"""Read agents' messages, about fifty streams per blocking read. The replicas share the streams.

Start with `Ingress`. A plain XREAD by the owning replica is enough: handling is idempotent, and the
script that handles an entry deletes it. A replica that takes over a shard reads it from the start,
because all entries that remain there are unhandled.

Reads are bounded. Redis cannot limit what a user writes, and does not report an entry's size before
the entry is read. So if a reply is too large, the connection is closed before the reply is
complete. Entries are then requested one by one, and an entry that is too large is dropped unread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError

from gateway import __version__
from gateway.domain.log_context import log_about
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.stores.keys import Keys
from gateway.stores.scripts import At, Script, ignore_step
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.schema import told_verb

log = logging.getLogger("gateway.stores")

MOST_BYTES = 8 * 1_048_576
"""Limit for one reply. A message may have one megabyte, so a few of the largest fit."""

# An entry with many short fields is several times larger in a reply than in the server.
_LEAST_DROPPED = MOST_BYTES // 8
_BATCH = 128
_SECONDS = 6.0

Entries = list[tuple[str, dict[str, str]]]


class AnswerTooLarge(RedisError):
    """A reply exceeds `MOST_BYTES`. The connection is closed."""


class BoundedParser(DefaultParser):  # type: ignore[valid-type,misc] # a name for the one in use
    """Closes the connection as soon as a reply is too large."""

    def __init__(self, socket_read_size: int) -> None:
        super().__init__(socket_read_size)
        self._taken = 0

    async def read_from_socket(self) -> bool:
        """Read the next piece of a reply. Raises AnswerTooLarge."""
        piece = await self._stream.read(self._read_size)
        if not piece:
            raise Disconnected("the server closed the connection")
        self._taken += len(piece)
        if self._taken > MOST_BYTES:
            raise AnswerTooLarge(f"the reply has more than {MOST_BYTES} bytes")
        self._reader.feed(piece)
        return True

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Return the next reply."""
        self._taken = 0
        return await super().read_response(*args, **options)


class BoundedReader:
    """Reads many streams at once. `blocking` rejects replies that are too large (`BoundedParser`).

    `events` is the stream that records dropped entries.
    """

    def __init__(self, redis: Any, blocking: Any, events: str, drop: Script) -> None:
        self._redis = redis
        self._blocking = blocking
        self._events = events
        self._drop = drop
        self._count = _BATCH

    async def read(self, cursors: dict[str, str], block: int) -> dict[str, Entries]:
        """Return the entries after each cursor. Waits for at most `block` ms.

        After a reply that is too large, the next reads request one entry per stream; later reads
        request more again.
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
        """Return the next entry of each stream. Drop an entry that is too large."""
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
        why = f"a message larger than {MOST_BYTES} bytes was dropped unread"
        data = {"verb": "", "code": "too_large", "why": why}
        words: list[str | int] = [_LEAST_DROPPED, agent, json.dumps(data)]
        if await self._drop.run(self._redis, [stream, self._events], words):
            log.error("%s", why, extra={"event": "entry_dropped", "agent": agent})


Handle = Callable[[str, str, dict[str, str]], Awaitable[None]]
"""Handles (agent, entry ID, fields). Any exception means: try again later."""

_BLOCK_MS = 4000
_MEND_MS = 500
_AT_ONCE = 32
REPLICA_LEASE_MS = 6000
REPLICA_SEPARATOR = "|"
"""Separates name, version and random part of a replica's ID."""
_TICK_SECONDS = 2.0
_RETRY_SECONDS = 0.2
MOST_ATTEMPTS = 5


class Duty:
    """Whether this process is the leader replica. See ADR 35."""

    def __init__(self) -> None:
        self.taken, self.lost = asyncio.Event(), asyncio.Event()

    def note(self, *, held: bool) -> None:
        """Record whether this process is the leader."""
        if held == self.taken.is_set():
            return
        came, went = (self.taken, self.lost) if held else (self.lost, self.taken)
        went.clear()
        came.set()


class Ingress:
    """Passes every entry of every agent to `handle`, again and again until the entry is deleted.

    `redis` sends commands. `blocking` must have no socket timeout. Entries that fail five times are
    moved to the dead letter stream, and `dead_letter` sends the agent a response. `at` is called at
    each step of the move.
    """

    def __init__(
        self,
        redis: Any,
        blocking: Any,
        keys: Keys,
        handle: Handle,
        dead_letter: Handle,
        *,
        at: At = ignore_step,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._handle = handle
        self._dead_letter = dead_letter
        self._lease = Script("share_streams", at)
        self._reader = BoundedReader(redis, blocking, keys.events, Script("drop_oversized", at))
        self._at = at
        name = f"{socket.gethostname()}, process {os.getpid()}"
        self._replica = REPLICA_SEPARATOR.join((name, __version__, secrets.token_hex(8)))
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._no_streams: set[str] = set()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._leased_at = float("-inf")
        self.duty = Duty()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read messages during the block. The first leases are acquired on entry."""
        await self._take_leases()
        task = asyncio.create_task(self._keep_leases(), name="ingress leases")
        try:
            yield
        finally:
            await cancel_and_wait(task, *self._readers.values())
            await self._leave()

    @property
    def healthy(self) -> bool:
        """Whether leases were renewed recently, so that agents are being read."""
        return asyncio.get_running_loop().time() - self._leased_at < REPLICA_LEASE_MS / 1000

    async def _leave(self) -> None:
        """Release this replica's shards at once. If that fails, their leases expire."""
        try:
            await self._redis.zrem(self._keys.replicas, self._replica)
        except (RedisError, OSError) as error:
            log.info(
                "could not release the stream leases: %s", error, extra={"event": "lease_kept"}
            )

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                await self._take_leases()
            except (RedisError, OSError) as error:
                log.warning(
                    "could not renew the stream leases: %s", error, extra={"event": "lease_failed"}
                )

    async def _take_leases(self) -> None:
        keys = self._keys
        shards, on_duty = await self._lease.run(
            self._redis,
            [keys.agents, keys.replicas, keys.owners],
            [self._replica, REPLICA_LEASE_MS],
        )
        mine = set(shards)
        self.duty.note(held=bool(on_duty))
        self._leased_at = asyncio.get_running_loop().time()
        await cancel_and_wait(*(self._readers.pop(shard) for shard in set(self._readers) - mine))
        for shard in mine:
            if shard not in self._readers or self._readers[shard].done():
                name = f"ingress shard {shard}"
                self._readers[shard] = asyncio.create_task(self._read(shard), name=name)

    async def _read(self, shard: int) -> None:
        while True:
            try:
                await self._read_until_cut(shard)
            except (RedisError, OSError, TimeoutError) as error:
                log.warning(
                    "shard %s interrupted: %s", shard, error, extra={"event": "ingress_cut"}
                )
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                # After any error, continue reading the other agents of this shard.
                log.exception("shard %s failed", shard, extra={"event": "ingress_failed"})
                await asyncio.sleep(_RETRY_SECONDS)

    async def _read_until_cut(self, shard: int) -> None:
        announcements = self._keys.shard(shard)
        last = await self._redis.xrevrange(announcements, count=1)
        announced = last[0][0] if last else "0"
        streams = await self._streams(shard)
        suspects = set(streams)
        while True:
            # Handled entries are deleted, so every read begins at the start. No invented ID, and no
            # server that uses lower IDs again, can hide an entry.
            cursors = {announcements: announced, **dict.fromkeys(streams, "0")}
            block = _MEND_MS if self._no_streams else _BLOCK_MS
            found = await self._reader.read(cursors, block)
            self._at("ingress:read")
            if news := found.pop(announcements, None):
                announced = news[-1][0]
            if news or self._no_streams:
                streams = await self._streams(shard)
            batches = [
                self._handle_all(stream, entries, counted=stream in suspects)
                for stream, entries in found.items()
            ]
            for stream, failed in await asyncio.gather(*batches):
                if failed:
                    suspects.add(stream)
                else:
                    suspects.discard(stream)

    async def _streams(self, shard: int) -> list[str]:
        """Return the streams to read, without keys of other types, which would make the read of all
        streams fail."""
        agents = await self._redis.zrange(self._keys.agents, shard, shard, byscore=True)
        names = [self._keys.ingress(agent) for agent in agents]
        pipeline = self._redis.pipeline(transaction=False)
        for name in names:
            pipeline.type(name)
        kinds = dict(zip(names, await pipeline.execute() if names else (), strict=True))
        wrong = {name for name, kind in kinds.items() if kind not in ("stream", "none")}
        for name in wrong - self._no_streams:
            log.error("%s is not a stream: delete it", name, extra={"event": "ingress_wrong_type"})
        self._no_streams = self._no_streams.difference(names) | wrong
        return [name for name in names if name not in wrong]

    async def _handle_all(
        self, stream: str, entries: list[tuple[str, dict[str, str]]], *, counted: bool
    ) -> tuple[str, bool]:
        """Handle a batch of entries from one stream. Return whether any entry failed.

        Entries are handled concurrently, but `submit` messages first, because other messages need
        the request to exist.
        """
        agent = stream.rpartition(":")[2]
        submits = [entry for entry in entries if entry[1].get("verb") == "submit"]
        others = [entry for entry in entries if entry[1].get("verb") != "submit"]
        done: list[bool] = []
        for part in (submits, others):
            done += await asyncio.gather(
                *(self._handle_one(agent, entry, fields, counted) for entry, fields in part)
            )
        failed = not all(done)
        if failed:
            await asyncio.sleep(_RETRY_SECONDS)
        return stream, failed

    async def _handle_one(
        self, agent: str, entry: str, fields: dict[str, str], counted: bool
    ) -> bool:
        """Handle one entry. Return whether it is done.

        Entries of the first read may have crashed the previous replica, so each attempt is counted
        before it. For later entries, only failed attempts are counted.
        """
        async with self._at_once:
            with log_about(agent=agent):
                name = f"{agent} {entry}"
                if (
                    counted
                    and await self._redis.hincrby(self._keys.attempts, name, 1) > MOST_ATTEMPTS
                ):
                    await self._give_up(agent, entry, fields, name)
                    return True
                self._at("entry:before")
                try:
                    await self._handle(agent, entry, fields)
                except Exception:
                    # After any error, continue with the other entries.
                    log.exception(
                        "an entry of a stream could not be handled", extra={"event": "entry_failed"}
                    )
                    if not counted:
                        await self._redis.hincrby(self._keys.attempts, name, 1)
                    return False
                self._at("entry:after")
                if counted:
                    await self._redis.hdel(self._keys.attempts, name)
                return True

    async def _give_up(self, agent: str, entry: str, fields: dict[str, str], name: str) -> None:
        self._at("dead:before")
        # Store only metadata: the content would escape retention and erasure.
        letter = json.dumps(fields)
        known = {"agent": agent, "entry": entry, "verb": told_verb(fields.get("verb", ""))}
        about = {"chars": len(letter), "sha256": sha256_hex(letter.encode())}
        await self._redis.xadd(self._keys.dead, {**known, **about}, maxlen=10_000)
        self._at("dead:written")
        await self._dead_letter(agent, entry, fields)
        self._at("dead:after")
        await self._redis.hdel(self._keys.attempts, name)
