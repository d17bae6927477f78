"""What the instances of the Agent Approval Protocol are still to be told, and how far the events
were looked through for that."""

from __future__ import annotations

import json
import secrets

from gateway.domain.protocol_instances import Instance, ProtocolNotice
from gateway.domain.records import place_of
from gateway.stores.archive_reading import read_mark
from gateway.stores.record_codec import dumps
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.codec import build, plain

_KEPT_SECONDS = 9 * 24 * 3600
"""Longer than a notice is sent: what was told already stays known."""


async def last_event(store: RedisStore) -> str:
    """Return the id of the last event there is, also where all are archived."""
    rows = await store.redis.xrevrange(store.keys.events, count=1)
    return rows[0][0] if rows else (await read_mark(store)).last


class RedisNotices:
    """The notices of one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._store, self._redis, self._keys = store, store.redis, store.keys
        self._index, self._rows = store.keys.of("aap", "agents"), store.keys.of("aap", "instances")
        self._due, self._place = store.keys.of("aap", "due"), store.keys.of("aap", "cursor")
        self._sender = secrets.token_hex(8)
        self._take = Script("claim", store.at)

    async def wanted(self) -> bool:
        """Tell whether an instance ever had a receiver."""
        return bool(await self._redis.exists(self._index))

    async def load_cursor(self) -> str:
        """Return the last event that was looked at; where none was, the one behind which the first
        receiver hears of any."""
        found: str | None = await self._redis.get(self._place)
        if found is not None:
            return found
        end = await last_event(self._store)
        rows = await self._redis.hvals(self._rows)
        heard = [build(Instance, json.loads(row)).receiver for row in rows]
        return min([end, *(one.since for one in heard if one is not None)], key=place_of)

    async def save_cursor(self, event_id: str) -> None:
        """Remember that all up to this event were looked at."""
        await self._redis.set(self._place, event_id)

    async def instance_of(self, agent: str) -> Instance | None:
        """Return the instance that an agent is, None where it never had a receiver."""
        found = await self._redis.hget(self._index, agent)
        return None if found is None else await self.instance(found)

    async def instance(self, instance_id: str) -> Instance | None:
        """Return what is kept of an instance."""
        row = await self._redis.hget(self._rows, instance_id)
        return None if row is None else build(Instance, json.loads(row))

    async def is_ours(self, request_id: str) -> bool:
        """Tell whether a request was asked in the protocol's way."""
        key = self._keys.of("aap", "request", request_id)
        return bool(await self._redis.hexists(key, "submission"))

    async def add(self, notice: ProtocolNotice, due: int) -> None:
        """Keep a notice, and when it is to be sent; one that was kept before stays as it was."""
        key = self._keys.of("aap", "notice", notice.id)
        await self._redis.set(key, dumps(plain(notice)), nx=True, ex=_KEPT_SECONDS)
        kept = await self.load(notice.id)
        if kept is not None and not kept.ended:
            await self._redis.zadd(self._due, {notice.id: due}, nx=True)

    async def load(self, notice_id: str) -> ProtocolNotice | None:
        """Return a notice."""
        row = await self._redis.get(self._keys.of("aap", "notice", notice_id))
        return None if row is None else build(ProtocolNotice, json.loads(row))

    async def find_due(self, now: int, limit: int) -> list[str]:
        """Return the notices that are due, the longest due first."""
        return list(
            await self._redis.zrange(self._due, "-inf", now, byscore=True, offset=0, num=limit)
        )

    async def put_off(self, notice: ProtocolNotice, due: int) -> None:
        """Keep what became of an attempt, and when the next one is due."""
        await self._save(notice)
        await self._redis.zadd(self._due, {notice.id: due}, xx=True)

    async def end(self, notice: ProtocolNotice) -> None:
        """Keep that a notice is sent no more."""
        await self._save(notice)
        await self._redis.zrem(self._due, notice.id)

    async def forget(self, notice_id: str) -> None:
        """Send no notice of which nothing is kept."""
        await self._redis.zrem(self._due, notice_id)

    async def claim(self, notice_id: str, ms: int) -> bool:
        """Be the one that sends a notice, for so many ms; False while another is."""
        keys = [self._keys.of("aap", "sending", notice_id), self._keys.meta]
        return bool(await self._take.run(self._redis, keys, [self._sender, ms]))

    async def _save(self, notice: ProtocolNotice) -> None:
        key = self._keys.of("aap", "notice", notice.id)
        await self._redis.set(key, dumps(plain(notice)), xx=True, ex=_KEPT_SECONDS)
