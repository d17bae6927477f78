"""Instances of the Agent Approval Protocol: values, their store in Redis, and what is told."""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from gateway.domain.records import place_of
from gateway.errors import Conflict, GatewayError, NotFound
from gateway.stores.credentials import RedisCredentials
from gateway.stores.record_codec import dumps
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, Wire, build, plain

WINDOW_MS = 7 * 24 * 3600 * 1000
"""How long after a decision it is told of."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnsafeAddress(GatewayError):
    """The gateway does not call this address."""


class ReceiverUnverified(GatewayError):
    """A receiver did not prove that it expects to hear of an instance."""


class TooManyRegistrations(GatewayError):
    """More receivers are registered than the gateway verifies in a minute."""

    status = 429

    def __init__(self, words: str, seconds: int) -> None:
        super().__init__(words)
        self.headers = {"Retry-After": str(seconds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverAddress(Wire):
    """Where an instance hears of decisions. `secret` signs; `since` is the last event that the
    receiver hears nothing of, and it stays when another receiver takes its place."""

    url: str
    registration_id: str
    secret: str = field(repr=False)
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance(Wire):
    """One instance, as it is kept. `agent` is the agent that it is here, `made_by` the admin whose
    token made it; `submitted` is the digest of what was asked for. `updates` has, by the digest of
    its key, what an update submitted, what it was answered, and when."""

    id: str
    name: str
    agent: str
    made_by: str
    submitted: str
    deleted: bool = False
    receiver: ReceiverAddress | None = None
    updates: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolNotice(Wire):
    """What an instance is told of the end of a request: the same words at every attempt."""

    id: str
    event: str
    instance: str
    body: str
    decided_at: int
    attempts: int = 0
    ended: bool = False

    @property
    def deadline(self) -> int:
        """Until when it is sent, in ms since the epoch."""
        return self.decided_at + WINDOW_MS


def hears_of(instance: Instance | None, event: str) -> ReceiverAddress | None:
    """Return the receiver that is told of an event, None where nobody is."""
    if instance is None or instance.deleted or instance.receiver is None:
        return None
    receiver = instance.receiver
    return receiver if place_of(event) > place_of(receiver.since) else None


def notice_of(instance_id: str, request_id: str, event: str, decided_at: int) -> ProtocolNotice:
    """Return the notice of an end: made twice, it is the same."""
    made = sha256_hex(canonical(["notice", instance_id, request_id]))[:32]
    notice_id = str(UUID(made, version=5))
    body = {
        "id": notice_id,
        "type": "request.resolved",
        "instance_id": str(UUID(instance_id)),
        "request_id": str(UUID(request_id)),
        "created_at": format_time(decided_at),
    }
    return ProtocolNotice(
        id=notice_id,
        event=event,
        instance=instance_id,
        body=canonical(body).decode(),
        decided_at=decided_at,
    )


def format_time(ms: int) -> str:
    """Return a moment in UTC as the protocol writes it."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


# What the instances of the Agent Approval Protocol are still to be told, and how far the events
# were looked through for that.

_KEPT_SECONDS = 9 * 24 * 3600
"""Longer than a notice is sent: what was told already stays known."""


async def last_event(store: RedisStore) -> str:
    """Return the id of the last event there is, also where all are archived."""
    rows = await store.redis.xrevrange(store.keys.events, count=1)
    return rows[0][0] if rows else (await store.audit.mark()).last


class RedisNotices:
    """The notices of one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._store, self._redis, self._keys = store, store.redis, store.keys
        self._index, self._rows = store.keys.of("aap", "agents"), store.keys.of("aap", "instances")
        self._due, self._place = store.keys.of("aap", "due"), store.keys.of("aap", "cursor")
        self._sender = secrets.token_hex(8)
        self._take = Script("take_claim", store.at)

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


# What the Agent Approval Protocol needs kept beside requests and agents.

_UNHELD_SECONDS = 3600
_HELD_SECONDS = 40 * 24 * 3600
"""Longer than the longest life of a request and the week that the protocol asks for after it."""
_VERIFYING_MS = 30_000
"""Longer than a receiver may take to answer."""
_MS_A_REGISTRATION, _MOST_REGISTRATIONS = 2_000, 30
"""Thirty receivers at once, and thirty a minute, for an admin and for a host."""


class RedisProtocolNotes:
    """Notes beside the requests of one namespace; each is written once."""

    def __init__(self, store: RedisStore) -> None:
        self._redis, self._keys, self._together = store.redis, store.keys, store.together

    async def keep(self, request_id: str, name: str, value: str) -> str:
        """Note something once, for an hour unless it is held; return what is noted, which may be of
        an earlier call."""
        key = self._keys.of("aap", "request", request_id)
        _, _, kept = await self._together(
            ("HSETNX", key, name, value),
            ("EXPIRE", key, str(_UNHELD_SECONDS), "NX"),
            ("HGET", key, name),
        )
        return str(kept)

    async def hold(self, request_id: str) -> None:
        """Hold what is noted of a request for as long as anybody may ask about it."""
        await self._redis.expire(self._keys.of("aap", "request", request_id), _HELD_SECONDS)

    async def load(self, request_id: str) -> dict[str, str]:
        """Return all that is noted, nothing for a request of another way in."""
        noted: dict[str, str] = await self._redis.hgetall(
            self._keys.of("aap", "request", request_id)
        )
        return noted


class RedisInstances:
    """The protocol's instances of one namespace. `secret` is what their tokens are derived from."""

    def __init__(self, store: RedisStore, credentials: RedisCredentials, secret: bytes) -> None:
        self._store, self._redis, self._keys = store, store.redis, store.keys
        self._key, self._index = store.keys.of("aap", "instances"), store.keys.of("aap", "agents")
        self._swap, self._rate = Script("put_copy", store.at), Script("rate_limit", store.at)
        self._credentials = credentials
        self._secret = secret

    async def load(self, instance_id: str) -> JsonObject | None:
        """Return what is kept of an instance, also of one that was deleted."""
        row = await self._redis.hget(self._key, instance_id)
        found: JsonObject | None = json.loads(row) if row else None
        return found

    async def save(self, instance_id: str, row: JsonObject, before: JsonObject | None) -> bool:
        """Keep an instance if what is kept of it is `before`; return whether it was."""
        if row.get("receiver"):
            # First: an index that leads nowhere does nothing.
            await self._redis.hset(self._index, row["agent"], instance_id)
        text = dumps(row)
        if before is None:
            return bool(await self._redis.hsetnx(self._key, instance_id, text))
        kept = await self._redis.hget(self._key, instance_id)
        if kept is None or json.loads(kept) != before:
            return False
        arguments = [instance_id, kept, text]
        return bool(await self._swap.run(self._redis, [self._key, self._key], arguments))

    async def last_event(self) -> str:
        """Return the id of the last event there is."""
        return await last_event(self._store)

    async def claim(self, instance_id: str) -> bool:
        """Be the one that verifies a receiver of an instance; False while another is."""
        key = self._keys.of("aap", "verifying", instance_id)
        return bool(await self._redis.set(key, "1", nx=True, px=_VERIFYING_MS))

    async def release(self, instance_id: str) -> None:
        """Let others verify a receiver of an instance."""
        await self._redis.delete(self._keys.of("aap", "verifying", instance_id))

    async def spend(self, account: str) -> float:
        """Spend one registration of an account or a host; return the seconds to wait first."""
        key = self._keys.of("aap", "registrations", account)
        wait = await self._rate.run(self._redis, [key], [_MS_A_REGISTRATION, _MOST_REGISTRATIONS])
        return int(wait) / 1000

    async def add_agent(self, instance_id: str, agent: str) -> str:
        """Make the agent of an instance unless it is there; return its token. Raises Conflict when
        another agent has the name."""
        token = self._token_of(instance_id)
        try:
            await self._credentials.add_agent(agent, token=token)
        except Conflict:
            found = await self._credentials.authenticate(token)
            if found is None or found.name != agent:
                raise
        return token

    async def remove_agent(self, agent: str) -> None:
        """Revoke the agent of an instance, if it is there."""
        try:
            await self._credentials.revoke_agent(agent)
        except NotFound:
            return

    def _token_of(self, instance_id: str) -> str:
        """Return the token of an instance, the same each time and on every replica."""
        made = hmac.digest(self._secret, instance_id.encode(), "sha256")
        named = hmac.digest(self._secret, b"key id " + instance_id.encode(), "sha256")
        return f"agw_{named.hex()[:8]}_{base64.urlsafe_b64encode(made).decode().rstrip('=')}"
