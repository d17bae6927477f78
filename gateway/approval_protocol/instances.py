"""Store the instances of the Agent Approval Protocol and the notices to them in Redis."""

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
"""How long after a decision its notice is sent."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnsafeAddress(GatewayError):
    """The gateway is not allowed to call this address."""


class ReceiverUnverified(GatewayError):
    """A receiver did not prove that it expects this instance."""


class TooManyRegistrations(GatewayError):
    """Too many receivers are being registered; the gateway limits verifications."""

    status = 429

    def __init__(self, words: str, seconds: int) -> None:
        super().__init__(words)
        self.headers = {"Retry-After": str(seconds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverAddress(Wire):
    """The receiver of an instance's decisions. `secret` signs the notices. Only events after
    `since` are sent; a replacement receiver keeps this value."""

    url: str
    registration_id: str
    secret: str = field(repr=False)
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance(Wire):
    """A stored instance. `agent` is its agent, `made_by` the admin who created it, and `submitted`
    the digest of the call that created it. `updates` maps the digest of each update's key to the
    update's submission, response and time."""

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
    """A notice to an instance that a request ended. Every attempt sends the same body."""

    id: str
    event: str
    instance: str
    body: str
    decided_at: int
    attempts: int = 0
    ended: bool = False

    @property
    def deadline(self) -> int:
        """The time after which the notice is not sent any more, in ms since the epoch."""
        return self.decided_at + WINDOW_MS


def hears_of(instance: Instance | None, event: str) -> ReceiverAddress | None:
    """Return the receiver that must be notified of an event, or None."""
    if instance is None or instance.deleted or instance.receiver is None:
        return None
    receiver = instance.receiver
    return receiver if place_of(event) > place_of(receiver.since) else None


def notice_of(instance_id: str, request_id: str, event: str, decided_at: int) -> ProtocolNotice:
    """Build the notice that a request ended. The notice for an event is always the same."""
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
    """Return a time in UTC in the protocol's format."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


# Notices that are still to be sent, and the position in the events.

_KEPT_SECONDS = 9 * 24 * 3600
"""Longer than a notice is sent, so that none is sent twice."""


async def last_event(store: RedisStore) -> str:
    """Return the ID of the last event, even if all are archived."""
    rows = await store.redis.xrevrange(store.keys.events, count=1)
    return rows[0][0] if rows else (await store.audit.mark()).last


class RedisNotices:
    """Stores the notices of one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._store, self._redis, self._keys = store, store.redis, store.keys
        self._index, self._rows = store.keys.of("aap", "agents"), store.keys.of("aap", "instances")
        self._due, self._place = store.keys.of("aap", "due"), store.keys.of("aap", "cursor")
        self._sender = secrets.token_hex(8)
        self._take = Script("take_claim", store.at)

    async def wanted(self) -> bool:
        """Return whether any instance ever had a receiver."""
        return bool(await self._redis.exists(self._index))

    async def load_cursor(self) -> str:
        """Return the ID of the last processed event, or the start position if none was
        processed."""
        found: str | None = await self._redis.get(self._place)
        if found is not None:
            return found
        end = await last_event(self._store)
        rows = await self._redis.hvals(self._rows)
        heard = [build(Instance, json.loads(row)).receiver for row in rows]
        return min([end, *(one.since for one in heard if one is not None)], key=place_of)

    async def save_cursor(self, event_id: str) -> None:
        """Save that all events up to this one were processed."""
        await self._redis.set(self._place, event_id)

    async def instance_of(self, agent: str) -> Instance | None:
        """Return the instance of an agent, or None if it never had a receiver."""
        found = await self._redis.hget(self._index, agent)
        return None if found is None else await self.instance(found)

    async def instance(self, instance_id: str) -> Instance | None:
        """Return a stored instance, or None."""
        row = await self._redis.hget(self._rows, instance_id)
        return None if row is None else build(Instance, json.loads(row))

    async def is_ours(self, request_id: str) -> bool:
        """Return whether a request was submitted through the protocol."""
        key = self._keys.of("aap", "request", request_id)
        return bool(await self._redis.hexists(key, "submission"))

    async def add(self, notice: ProtocolNotice, due: int) -> None:
        """Save a notice and the time to send it. A notice that is already stored is not changed."""
        key = self._keys.of("aap", "notice", notice.id)
        await self._redis.set(key, dumps(plain(notice)), nx=True, ex=_KEPT_SECONDS)
        kept = await self.load(notice.id)
        if kept is not None and not kept.ended:
            await self._redis.zadd(self._due, {notice.id: due}, nx=True)

    async def load(self, notice_id: str) -> ProtocolNotice | None:
        """Return a notice, or None."""
        row = await self._redis.get(self._keys.of("aap", "notice", notice_id))
        return None if row is None else build(ProtocolNotice, json.loads(row))

    async def find_due(self, now: int, limit: int) -> list[str]:
        """Return the IDs of due notices, longest overdue first."""
        return list(
            await self._redis.zrange(self._due, "-inf", now, byscore=True, offset=0, num=limit)
        )

    async def put_off(self, notice: ProtocolNotice, due: int) -> None:
        """Save the result of an attempt, and when the next one is due."""
        await self._save(notice)
        await self._redis.zadd(self._due, {notice.id: due}, xx=True)

    async def end(self, notice: ProtocolNotice) -> None:
        """Save that a notice must not be sent any more."""
        await self._save(notice)
        await self._redis.zrem(self._due, notice.id)

    async def forget(self, notice_id: str) -> None:
        """Remove a notice without stored data from the queue."""
        await self._redis.zrem(self._due, notice_id)

    async def claim(self, notice_id: str, ms: int) -> bool:
        """Become the only sender of a notice, for `ms`. Return False if another replica is sending
        it."""
        keys = [self._keys.of("aap", "sending", notice_id), self._keys.meta]
        return bool(await self._take.run(self._redis, keys, [self._sender, ms]))

    async def _save(self, notice: ProtocolNotice) -> None:
        key = self._keys.of("aap", "notice", notice.id)
        await self._redis.set(key, dumps(plain(notice)), xx=True, ex=_KEPT_SECONDS)


# Data of the protocol in addition to requests and agents.

_UNHELD_SECONDS = 3600
_HELD_SECONDS = 40 * 24 * 3600
"""Longer than the longest life of a request plus the week that the protocol demands."""
_VERIFYING_MS = 30_000
"""Longer than a receiver may take to respond."""
_MS_A_REGISTRATION, _MOST_REGISTRATIONS = 2_000, 30
"""Thirty receivers at once, and thirty a minute, for an admin and for a host."""


class RedisProtocolNotes:
    """Stores notes about the requests of one namespace. Each note is written once."""

    def __init__(self, store: RedisStore) -> None:
        self._redis, self._keys, self._together = store.redis, store.keys, store.together

    async def keep(self, request_id: str, name: str, value: str) -> str:
        """Save a note once. It expires after an hour unless `hold` is called. Return the stored
        note, which may be from an earlier call."""
        key = self._keys.of("aap", "request", request_id)
        _, _, kept = await self._together(
            ("HSETNX", key, name, value),
            ("EXPIRE", key, str(_UNHELD_SECONDS), "NX"),
            ("HGET", key, name),
        )
        return str(kept)

    async def hold(self, request_id: str) -> None:
        """Keep the notes of a request for as long as anybody may ask for it."""
        await self._redis.expire(self._keys.of("aap", "request", request_id), _HELD_SECONDS)

    async def load(self, request_id: str) -> dict[str, str]:
        """Return all notes, or nothing if the request did not come through the protocol."""
        noted: dict[str, str] = await self._redis.hgetall(
            self._keys.of("aap", "request", request_id)
        )
        return noted


class RedisInstances:
    """Stores the instances of one namespace. Their tokens are derived from `secret`."""

    def __init__(self, store: RedisStore, credentials: RedisCredentials, secret: bytes) -> None:
        self._store, self._redis, self._keys = store, store.redis, store.keys
        self._key, self._index = store.keys.of("aap", "instances"), store.keys.of("aap", "agents")
        self._swap, self._rate = Script("put_copy", store.at), Script("rate_limit", store.at)
        self._credentials = credentials
        self._secret = secret

    async def load(self, instance_id: str) -> JsonObject | None:
        """Return a stored instance, even a deleted one, or None."""
        row = await self._redis.hget(self._key, instance_id)
        found: JsonObject | None = json.loads(row) if row else None
        return found

    async def save(self, instance_id: str, row: JsonObject, before: JsonObject | None) -> bool:
        """Save an instance if the stored one equals `before`. Return whether it was saved."""
        if row.get("receiver"):
            # First, because an index entry without an instance does no harm.
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
        """Return the ID of the last event."""
        return await last_event(self._store)

    async def claim(self, instance_id: str) -> bool:
        """Become the only verifier of an instance's receiver. Return False if another call is
        verifying it."""
        key = self._keys.of("aap", "verifying", instance_id)
        return bool(await self._redis.set(key, "1", nx=True, px=_VERIFYING_MS))

    async def release(self, instance_id: str) -> None:
        """Let other calls verify a receiver of an instance again."""
        await self._redis.delete(self._keys.of("aap", "verifying", instance_id))

    async def spend(self, account: str) -> float:
        """Count one registration against the rate limit of an admin or a host. Return the seconds
        to wait first."""
        key = self._keys.of("aap", "registrations", account)
        wait = await self._rate.run(self._redis, [key], [_MS_A_REGISTRATION, _MOST_REGISTRATIONS])
        return int(wait) / 1000

    async def add_agent(self, instance_id: str, agent: str) -> str:
        """Create the agent of an instance unless it exists; return its token. Raises Conflict if
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
        """Revoke the agent of an instance if it exists."""
        try:
            await self._credentials.revoke_agent(agent)
        except NotFound:
            return

    def _token_of(self, instance_id: str) -> str:
        """Return the token of an instance; it is the same on every replica."""
        made = hmac.digest(self._secret, instance_id.encode(), "sha256")
        named = hmac.digest(self._secret, b"key id " + instance_id.encode(), "sha256")
        return f"agw_{named.hex()[:8]}_{base64.urlsafe_b64encode(made).decode().rstrip('=')}"
