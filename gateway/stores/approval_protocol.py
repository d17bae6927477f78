"""What the Agent Approval Protocol needs kept beside requests and agents."""

from __future__ import annotations

import base64
import hmac
import json

from gateway.errors import Conflict, NotFound
from gateway.stores.credentials import RedisCredentials
from gateway.stores.protocol_notices import last_event
from gateway.stores.record_codec import dumps
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.codec import JsonObject

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
