"""Bearer tokens of agents and approvers, and the agents' Redis users."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from redis.exceptions import RedisError, ResponseError

from gateway.canonical import sha256_hex
from gateway.clock import Clock
from gateway.errors import Conflict, InvalidRequest, NotFound
from gateway.models import AGENT_NAME
from gateway.ports import Credential
from gateway.records import Person, PolicyDocument, Route
from gateway.stores.store import RedisStore
from gateway.wire import JsonObject

_TOKEN = re.compile(r"agw_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_PERSON = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FRESH_SECONDS = 0.5
_TRIES = 10
AGENT, APPROVER = "agent", "approver"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCredential:
    """A credential at the one moment when its token is known. `redis` is an agent's user."""

    name: str
    token: str = field(repr=False)
    redis_user: str | None = None
    redis_password: str | None = field(default=None, repr=False)
    kept: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One credential as it is listed; `created` is in ms since the epoch."""

    kind: str
    name: str
    key_id: str
    owner: str | None
    created: int


class RedisCredentials:
    """Credentials of one namespace. Tokens are kept as SHA-256 and known once, when they are made.

    What was read is used for half a second, so that a revoked token is refused within a second.
    """

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self._store = store
        self._redis = store.redis
        self._keys = store.keys
        self._clock = clock
        self._read: dict[str, JsonObject] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def authenticate(self, token: str) -> Credential | None:
        """Return whom the token belongs to; None for anything unknown, malformed or revoked."""
        match = _TOKEN.fullmatch(token)
        entry = (await self._entries()).get(match[1]) if match else None
        known = entry["sha256"] if entry else "0" * 64
        if not hmac.compare_digest(known, sha256_hex(token.encode())) or entry is None or not match:
            return None
        return Credential(
            kind=entry["kind"], name=entry["name"], key_id=match[1], owner=entry.get("owner")
        )

    async def owner_of(self, agent: str) -> str | None:
        """Return the person an agent's credential belongs to, None when it has no owner."""
        found = await self._find(AGENT, agent)
        return found[1].get("owner") if found else None

    async def listed(self, kind: str) -> list[Listed]:
        """Return all credentials of a kind by name."""
        rows = [
            Listed(
                kind=kind,
                name=entry["name"],
                key_id=key_id,
                owner=entry.get("owner"),
                created=entry["created"],
            )
            for key_id, entry in (await self._entries(fresh=True)).items()
            if entry["kind"] == kind
        ]
        return sorted(rows, key=lambda row: row.name)

    async def add_agent(self, name: str, owner: str | None = None) -> NewCredential:
        """Make an agent's token and Redis user. Raises InvalidRequest, or Conflict when it
        exists."""
        if not AGENT_NAME.fullmatch(name):
            raise InvalidRequest("an agent's name is made of a-z, 0-9, _ and -, at most 64")
        if await self._find(AGENT, name, fresh=True):
            raise Conflict(f"the agent {name} exists; rotate or revoke it")
        new = await self._make(AGENT, name, owner)
        new = await self._redis_user(new)
        await self._store.register_agent(name)
        await self._store.note("agent_added", agent=name, data={"owner": owner})
        return new

    async def rotate_agent(self, name: str) -> NewCredential:
        """Replace an agent's token and Redis password; the old ones stop working at once."""
        _, entry = await self._existing(AGENT, name)
        new = await self._make(AGENT, name, entry.get("owner"))
        await self._forget(AGENT, name, but=new.token.split("_")[1])
        await self._every_node("ACL", "DELUSER", _user(name))
        new = await self._redis_user(new)
        await self._store.note("agent_rotated", agent=name, data={})
        return new

    async def revoke_agent(self, name: str) -> None:
        """Remove an agent: its token, and its Redis user, which cuts open connections."""
        await self._existing(AGENT, name)
        await self._forget(AGENT, name)
        await self._every_node("ACL", "DELUSER", _user(name))
        await self._save_users()
        await self._store.note("agent_revoked", agent=name, data={})

    async def add_approver(self, name: str, *, admin: bool = False) -> NewCredential:
        """Make a person who may decide on the default route, with a token of their own."""
        if not _PERSON.fullmatch(name):
            raise InvalidRequest("a person's name is made of a-z, 0-9, ., _ and -, at most 64")
        if await self._find(APPROVER, name, fresh=True):
            raise Conflict(f"the approver {name} exists; revoke them first")
        new = await self._make(APPROVER, name, None)
        await self._edit_policy(lambda policy: _with_person(policy, name, admin), by=name)
        return new

    async def revoke_approver(self, name: str) -> None:
        """Remove a person from the policy, and their token."""
        await self._existing(APPROVER, name)
        await self._edit_policy(lambda policy: _without_person(policy, name), by=name)
        await self._forget(APPROVER, name)

    async def _edit_policy(self, edit: Any, *, by: str) -> None:
        for _ in range(_TRIES):
            try:
                await self._store.apply(edit(await self._store.policy()), by=f"credential of {by}")
            except Conflict:
                continue
            return
        raise Conflict("the policy keeps changing")

    async def _make(self, kind: str, name: str, owner: str | None) -> NewCredential:
        key_id = secrets.token_hex(4)
        token = f"agw_{key_id}_{secrets.token_urlsafe(32)}"
        entry = {
            "kind": kind,
            "name": name,
            "owner": owner,
            "sha256": sha256_hex(token.encode()),
            "created": self._clock.now_ms(),
        }
        await self._redis.hset(self._keys.credentials, key_id, json.dumps(entry))
        self._read_at = float("-inf")
        return NewCredential(name=name, token=token)

    async def _redis_user(self, new: NewCredential) -> NewCredential:
        """Give an agent a Redis user that can write its own stream, read its replies, nothing
        else."""
        password = secrets.token_urlsafe(32)
        rule = [
            "on",
            f"#{sha256_hex(password.encode())}",
            "resetkeys",
            f"%W~{self._keys.ingress(new.name)}",
            f"%R~{self._keys.replies(new.name, '*')}",
            "resetchannels",
            "-@all",
            "+xadd",
            "+xread",
            "+ping",
        ]
        try:
            await self._every_node(
                "ACL", "SETUSER", _user(new.name), "reset", *rule, "+client|setinfo"
            )
        except ResponseError:
            # Redis 7.0 cannot grant a single subcommand of CLIENT; its ACL log then names the
            # refusal.
            await self._every_node("ACL", "SETUSER", _user(new.name), "reset", *rule)
        kept = await self._save_users()
        return replace(new, redis_user=_user(new.name), redis_password=password, kept=kept)

    async def _save_users(self) -> bool:
        """Write users to the server's ACL file; return False when it has none."""
        try:
            await self._every_node("ACL", "SAVE")
        except ResponseError:
            return False
        return True

    async def _every_node(self, *command: str) -> None:
        """Users do not replicate: tell every primary of a cluster."""
        if hasattr(self._redis, "get_primaries"):
            for node in self._redis.get_primaries():
                await self._redis.execute_command(*command, target_nodes=node)
        else:
            await self._redis.execute_command(*command)

    async def _entries(self, *, fresh: bool = False) -> dict[str, JsonObject]:
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if fresh or now - self._read_at > _FRESH_SECONDS:
                rows = await self._redis.hgetall(self._keys.credentials)
                self._read = {key_id: json.loads(row) for key_id, row in rows.items()}
                self._read_at = now
            return self._read

    async def _find(
        self, kind: str, name: str, *, fresh: bool = False
    ) -> tuple[str, JsonObject] | None:
        for key_id, entry in (await self._entries(fresh=fresh)).items():
            if entry["kind"] == kind and entry["name"] == name:
                return key_id, entry
        return None

    async def _existing(self, kind: str, name: str) -> tuple[str, JsonObject]:
        found = await self._find(kind, name, fresh=True)
        if found is None:
            raise NotFound(f"there is no {kind} {name}")
        return found

    async def _forget(self, kind: str, name: str, *, but: str = "") -> None:
        """Drop every token of a name: two that were made at once must both stop working."""
        entries = await self._entries(fresh=True)
        gone = [
            key_id
            for key_id, entry in entries.items()
            if (entry["kind"], entry["name"]) == (kind, name) and key_id != but
        ]
        if gone:
            await self._redis.hdel(self._keys.credentials, *gone)
        self._read_at = float("-inf")


REDIS_ERRORS: tuple[type[Exception], ...] = (RedisError, OSError)


def _user(agent: str) -> str:
    return f"agent-{agent}"


def _with_person(policy: PolicyDocument, name: str, admin: bool) -> PolicyDocument:
    person = Person(name=name, identities=(f"token:{name}",), admin=admin)
    others = tuple(one for one in policy.people if one.name != name)
    routes = policy.routes or (Route(),)
    opened = tuple(
        replace(route, approvers=(*route.approvers, name))
        if route.name == "default" and name not in route.approvers
        else route
        for route in routes
    )
    return replace(policy, people=(*others, person), routes=opened)


def _without_person(policy: PolicyDocument, name: str) -> PolicyDocument:
    return replace(
        policy,
        people=tuple(one for one in policy.people if one.name != name),
        routes=tuple(
            replace(route, approvers=tuple(one for one in route.approvers if one != name))
            for route in policy.routes
        ),
    )
