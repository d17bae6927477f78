"""Redis store for delivery queues, posted cards and adapter storage; start with `RedisOutbox`."""

from __future__ import annotations

import json

from gateway.ports.outgoing import Copy, Task
from gateway.stores.record_codec import dumps
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.codec import build, plain

_MINUTE_MS = 60_000


class RedisOutbox:
    """Implements `gateway.ports.outgoing.Outbox` for one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis, self._keys, self._now = store.redis, store.keys, store.now
        self._together, self._line = store.together, store.line
        self._lease_due, self._ack = Script("lease_due", store.at), Script("end_lease", store.at)
        self._put_copy = Script("put_copy", store.at)

    async def lease_due(self, queue: str, *, limit: int, lease_ms: int) -> list[Task]:
        """Lease up to `limit` entries that are due."""
        ids, lease = await self._lease_due.run(
            self._line, [self._keys.dirty(queue)], [limit, lease_ms]
        )
        return [Task(request_id=one, lease=lease) for one in ids]

    async def ack(self, queue: str, task: Task, *, again_ms: int | None = None) -> bool:
        """Remove a leased entry, or with `again_ms` postpone it. Return False if the entry changed
        since the lease."""
        again = "" if again_ms is None else again_ms
        done = await self._ack.run(
            self._redis, [self._keys.dirty(queue)], [task.request_id, task.lease, again]
        )
        return bool(done)

    async def renew(self, queue: str, task: Task, *, lease_ms: int) -> Task | None:
        """Extend a lease. Return None if the entry changed since the lease."""
        lease = await self._ack.run(
            self._redis, [self._keys.dirty(queue)], [task.request_id, task.lease, lease_ms]
        )
        return Task(request_id=task.request_id, lease=lease) if lease else None

    async def queued(self, queue: str, *, limit: int) -> list[tuple[str, int]]:
        """Return up to `limit` entries of a queue, each with its due time in ms since the epoch."""
        rows = await self._redis.zrange(self._keys.dirty(queue), 0, limit - 1, withscores=True)
        return [(one, int(due)) for one, due in rows]

    async def mark(self, queue: str, request_id: str) -> None:
        """Make an entry due now. An entry that is already due keeps its time."""
        key, now = self._keys.dirty(queue), str(await self._now())
        # The holder of an expired lease must find the entry changed, so the score changes first. A
        # lease taken between the two commands is then replaced by the second. In the other order
        # that lease would change but stay valid, and nobody would handle the entry until it ended.
        await self._together(
            ("ZADD", key, "XX", "INCR", "-1", request_id),
            ("ZADD", key, "LT", now, request_id),
        )

    async def copies(self, request_id: str) -> dict[str, Copy]:
        """Return the posted cards of a request, grant or overflow by key."""
        rows = await self._redis.hgetall(self._keys.copies(request_id))
        return {key: build(Copy, json.loads(raw)) for key, raw in rows.items()}

    async def put_copy(self, request_id: str, copy: Copy, *, before: Copy | None) -> bool:
        """Save a copy if the stored one still equals `before`. Return whether it was saved."""
        was = "" if before is None else _text(before)
        return await self._put(request_id, copy.key, was, _text(copy))

    async def forget(self, request_id: str, copy: Copy) -> None:
        """Delete the record of a posted card if it is unchanged, so that a new card can be posted
        there."""
        await self._put(request_id, copy.key, _text(copy), "")

    async def _put(self, request_id: str, key: str, before: str, after: str) -> bool:
        keys = [self._keys.copies(request_id), self._keys.subject(request_id)]
        done = await self._put_copy.run(self._redis, keys, [key, before, after])
        return bool(done)


class RedisAdapterStorage:
    """Implements `gateway.ports.outgoing.AdapterStorage` for one adapter."""

    def __init__(self, store: RedisStore, adapter: str) -> None:
        self._redis, self._keys, self._adapter = store.redis, store.keys, adapter
        self._rate_limit = Script("rate_limit", store.at)
        self._extend = Script("extend_note", store.at)
        self._turn = Script("take_turn", store.at)

    async def get(self, name: str) -> str | None:
        """Return the string with this name, or None."""
        text: str | None = await self._redis.get(self._key(name))
        return text

    async def put(self, name: str, text: str, *, seconds: float | None = None) -> None:
        """Save a string for `seconds`, or permanently by default."""
        await self._redis.set(self._key(name), text, px=_ms(seconds))

    async def put_new(self, name: str, text: str, *, seconds: float) -> bool:
        """Save a string unless the name exists. Return whether it was saved."""
        return bool(await self._redis.set(self._key(name), text, nx=True, px=_ms(seconds)))

    async def extend(self, name: str, text: str, *, seconds: float) -> bool:
        """Set a new expiry if the value still equals `text`. Return whether it did."""
        life = int(seconds * 1000)
        return bool(await self._extend.run(self._redis, [self._key(name)], [text, life]))

    async def delete(self, name: str) -> None:
        """Delete a stored string."""
        await self._redis.delete(self._key(name))

    async def take_turn(
        self,
        budget: str,
        name: str,
        *,
        rank: int,
        most: int,
        seconds: float,
        leave: int,
        about: str = "",
    ) -> float:
        """Take a turn of a rate budget and return 0, or return the seconds to wait first."""
        told: list[str | int] = [name, rank, most, _ms(seconds) or 0, leave, about]
        return float(await self._turn.run(self._redis, self._line(budget), told)) / 1000

    async def leave_line(self, budget: str, name: str, *, most: int, seconds: float) -> None:
        """Remove a name from the waiting line of a budget. The queue then handles the name that is
        first now."""
        told: list[str | int] = [name, "", most, _ms(seconds) or 0, 0, ""]
        await self._turn.run(self._redis, self._line(budget), told)

    def _line(self, budget: str) -> list[str]:
        parts = ("calls", "line", "kept", "shut", "who")
        return [self._key(f"{part} {budget}") for part in parts] + [self._keys.dirty(self._adapter)]

    async def return_turn(self, budget: str, name: str) -> None:
        """Give back the last turn that this name took from a budget."""
        key = self._key(f"calls {budget}")
        for call in await self._redis.zrange(key, 0, -1, desc=True):
            if call.partition(" ")[2] == name:
                await self._redis.zrem(key, call)
                return

    async def shut(self, budget: str, *, seconds: float) -> None:
        """Block all turns of a budget for `seconds`."""
        await self._redis.set(self._key(f"shut {budget}"), "1", px=max(1, int(seconds * 1000)))

    async def delay(self, budget: str, *, per_minute: float, burst: int) -> float:
        """Take one call from a budget that all replicas share. Return the seconds to wait first."""
        each = int(_MINUTE_MS / per_minute)
        wait = await self._rate_limit.run(
            self._redis, [self._key(f"budget {budget}")], [each, burst]
        )
        return float(wait) / 1000

    def _key(self, name: str) -> str:
        return self._keys.note(self._adapter, name)


def _text(copy: Copy) -> str:
    """Return the JSON by which changes to a posted card are detected. Replicas of all versions
    compare it as a string, so the order of members matters."""
    return dumps(plain(copy))


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
