"""Store the bearer tokens of agents and approvers (`RedisCredentials`), and manage agents' Redis
users."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from redis.exceptions import RedisError, ResponseError

from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Identity, Person
from gateway.domain.time_and_tasks import Clock, cancel_and_wait
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized, Unreachable
from gateway.ports import Credential
from gateway.stores.connect import Heard, each
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject
from gateway.wire.schema import AGENT_NAME

# Redis users of agents: created, changed and removed on every server.

_NO_FILE = "not configured to use an ACL file"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUser:
    """A new Redis user with its password, which is not stored.

    `kept` means that every server saves its users to a file. `silent` are the servers that did not
    respond, and why.
    """

    name: str
    password: str = field(repr=False)
    sha256: str
    kept: bool
    silent: dict[str, str]


def user_name(keys: Keys, agent: str) -> str:
    """Return the name of an agent's Redis user. It contains the namespace, because namespaces may
    share a server and agent names.

    A dot separates the two names, and neither name can contain a dot.
    """
    return f"{keys.namespace}.agent-{agent}"


async def grant(client: Any, keys: Keys, agent: str, *, beside: Collection[str] = ()) -> RedisUser:
    """Create a Redis user that can only write to its agent's stream and read the agent's replies.

    An existing user is replaced and its connections are closed. With `beside` (hashes of passwords
    that stay valid), the connections stay open.
    """
    password = secrets.token_urlsafe(32)
    sha256 = sha256_hex(password.encode())
    heard = await put(client, keys, agent, [sha256, *beside], cut=not beside)
    return RedisUser(
        name=user_name(keys, agent),
        password=password,
        sha256=sha256,
        kept=all(heard.answers.values()),
        silent=heard.silent,
    )


async def put(
    client: Any, keys: Keys, agent: str, passwords: Collection[str], *, cut: bool
) -> Heard[bool]:
    """Set the passwords (SHA-256) of an agent's user. Return which servers save their users."""
    name = user_name(keys, agent)
    rule = [
        "on",
        *(f"#{one}" for one in passwords),
        "resetkeys",
        f"%W~{keys.ingress(agent)}",
        f"%R~{keys.replies(agent, '*')}",
        "resetchannels",
        "-@all",
        "+xadd",
        "+xread",
        "+ping",
    ]

    async def replace(node: Any) -> bool:
        if cut:
            await node.execute_command("ACL", "DELUSER", name)
        try:
            await node.execute_command("ACL", "SETUSER", name, "reset", *rule, "+client|setinfo")
        except ResponseError:
            # Redis 7.0 cannot allow a single subcommand of CLIENT; its ACL log shows the
            # rejections.
            await node.execute_command("ACL", "SETUSER", name, "reset", *rule)
        return await _save(node)

    return await each(client, replace)


async def remove(client: Any, keys: Keys, agent: str) -> Heard[int]:
    """Delete an agent's Redis user, which closes its connections. Return how many users each server
    deleted."""

    async def delete(node: Any) -> int:
        gone = int(await node.execute_command("ACL", "DELUSER", user_name(keys, agent)))
        await _save(node)
        return gone

    return await each(client, delete)


async def _save(node: Any) -> bool:
    """Save users to the server's ACL file. Return False if the server has no such file."""
    try:
        await node.execute_command("ACL", "SAVE")
    except ResponseError as error:
        if _NO_FILE not in str(error):
            raise
        return False
    return True


_TOKEN = re.compile(r"agw_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_PERSON = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FRESH_SECONDS = 0.5
_TRIES = 10
CHANGE_MS = 6_000
_TURN_SECONDS = 15.0
_PAUSE_SECONDS = 0.05
_SWEEP_SECONDS = 5.0
AGENT, APPROVER = "agent", "approver"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCredential:
    """A new credential with its token, which is not stored.

    `redis_user` is set for an agent. `kept` is False if that user is lost when the server restarts.
    `silent` lists the servers that do not have the user, and why. Replaced tokens work until
    `old_until` (ms since the epoch).
    """

    name: str
    token: str = field(repr=False)
    old_until: int | None = None
    redis_user: str | None = None
    redis_password: str | None = field(default=None, repr=False)
    kept: bool = True
    silent: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCredential:
    """One credential in a list. `created` and `old_until` are in ms since the epoch; `old_until` is
    the end of the last replaced token."""

    kind: str
    name: str
    key_id: str
    owner: str | None
    created: int
    old_until: int | None = None


class RedisCredentials:
    """Credentials of one namespace. Tokens are stored as SHA-256 hashes and shown only once.

    Entries are cached for half a second, so a revoked token is rejected within a second. A change
    locks its name for `change_ms` and renews the lock while it runs, so the lock of a dead gateway
    expires.
    """

    def __init__(self, store: RedisStore, clock: Clock, *, change_ms: int = CHANGE_MS) -> None:
        self._store = store
        self._redis = store.redis
        self._keys = store.keys
        self._clock = clock
        self._change_ms = change_ms
        self._read: dict[str, JsonObject] = {}
        self._named: dict[tuple[str, str], JsonObject] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._claim = Script("take_claim", store.at)

    async def authenticate(self, token: str) -> Credential | None:
        """Return the owner of a token. None if it is unknown, malformed or revoked, or if the
        policy no longer contains its person."""
        match = _TOKEN.fullmatch(token)
        entry = await self._entry(match[1]) if match else None
        known = entry["sha256"] if entry else "0" * 64
        if not hmac.compare_digest(known, sha256_hex(token.encode())) or entry is None or not match:
            return None
        if self._is_over(entry):
            return None
        if entry["kind"] == APPROVER and not await self._is_known(entry["name"]):
            return None
        return _credential(match[1], entry)

    async def _entry(self, key_id: str) -> JsonObject | None:
        """Return the stored entry of a token, even if another process created it a moment ago."""
        found = (await self._entries()).get(key_id)
        if found is None:
            row = await self._redis.hget(self._keys.credentials, key_id)
            found = json.loads(row) if row else None
        return found

    async def _is_known(self, name: str) -> bool:
        login = Identity(platform="token", id=name)
        return (await self._store.policy()).person_of(login) is not None

    async def holder(self, agent: str) -> Credential:
        """Return the credential of an agent.

        Raises Unauthorized if the agent has none because it was revoked or never created.
        """
        # Before rejecting, look for an entry that another process just created.
        found = await self._find(AGENT, agent) or await self._find(AGENT, agent, fresh=True)
        if found is None:
            raise Unauthorized(
                f"the agent {agent} has no credential; create one with `gateway agent add {agent}`"
            )
        return _credential("", found)

    async def list_all(self, kind: str) -> list[ListedCredential]:
        """Return all credentials of a kind, sorted by name."""
        entries = (await self._entries(fresh=True)).items()
        ours = [(key_id, entry) for key_id, entry in entries if entry["kind"] == kind]
        old: dict[str, int] = {}
        for _, entry in ours:
            if "until" in entry and not self._is_over(entry):
                old[entry["name"]] = max(entry["until"], old.get(entry["name"], 0))
        rows = [
            ListedCredential(
                kind=kind,
                name=entry["name"],
                key_id=key_id,
                owner=entry.get("owner"),
                created=entry["created"],
                old_until=old.get(entry["name"]),
            )
            for key_id, entry in ours
            if "until" not in entry
        ]
        return sorted(rows, key=lambda row: row.name)

    def _is_over(self, entry: JsonObject) -> bool:
        """Return whether the overlap is over in which a replaced token still works."""
        return "until" in entry and entry["until"] <= self._clock.now_ms()

    async def add_agent(
        self,
        name: str,
        owner: str | None = None,
        *,
        token: str | None = None,
        enrolled: bool = False,
    ) -> NewCredential:
        """Create an agent with its Redis user, and a token or the given one. Raises Conflict if the
        agent exists, and InvalidRequest for an invalid name or an owner who is not in the
        policy."""
        if not AGENT_NAME.fullmatch(name):
            raise InvalidRequest(
                "an agent's name must have 1 to 64 characters of a-z, 0-9, _ and -"
            )
        if owner is not None:
            await self._refuse_nobody(owner)
        async with self._alone(AGENT, name):
            if await self._find(AGENT, name, fresh=True):
                raise Conflict(f"the agent {name} already exists; rotate or revoke it")
            # Create the user first: if that fails, there is no token either.
            user = await grant(self._redis, self._keys, name)
            since = await self._store.register_agent(name)
            row = {"owner": owner, "since": since, "redis": user.sha256, "enrolled": enrolled}
            new = await self._make(AGENT, name, row, token=token)
        await self._store.note("agent_added", agent=name, data={"owner": owner})
        return _with_user(new, user)

    async def _refuse_nobody(self, owner: str) -> None:
        """Reject an owner who is not in the policy, because then no person would be kept from
        deciding their own agent's requests."""
        people = [one.name for one in (await self._store.policy()).people]
        if owner not in people:
            known = ", ".join(people) or "nobody yet"
            raise InvalidRequest(
                f"the owner {owner!r} is not a person in the policy; it contains {known}"
            )

    async def enrol_agent(self, name: str) -> NewCredential:
        """Create an agent whose token is stored on its machine, or replace a token that enrolment
        created.

        Raises Conflict if the agent was created in another way, so that nobody can replace its
        token by knowing its name.
        """
        try:
            return await self.add_agent(name, enrolled=True)
        except Conflict:
            return await self.rotate_agent(name, enrolled=True)

    async def rotate_agent(
        self, name: str, *, overlap_ms: int = 0, enrolled: bool = False
    ) -> NewCredential:
        """Replace an agent's token and Redis password. The old ones stop working after the overlap.

        With `enrolled`, raises Conflict if the agent was not created by enrolment.
        """
        async with self._alone(AGENT, name):
            entry = await self._get(AGENT, name)
            if enrolled and not entry.get("enrolled"):
                raise Conflict(
                    f"the agent {name} "
                    f"has a token that this machine does not know: set GATEWAY_TOKEN to the "
                    f"token, choose another name, or `gateway agent revoke {name}` first"
                )
            beside = await self._redis_hashes(name) if overlap_ms else []
            user = await grant(self._redis, self._keys, name, beside=beside)
            row = {"owner": entry.get("owner"), "since": entry.get("since", 0)}
            row |= {"redis": user.sha256, "enrolled": enrolled}
            new = await self._replace(AGENT, name, row, overlap_ms)
        data = {"silent": [*user.silent], "old_until": new.old_until}
        await self._store.note("agent_rotated", agent=name, data=data)
        return _with_user(new, user)

    async def rotate_approver(self, name: str, *, overlap_ms: int = 0) -> NewCredential:
        """Replace a person's token. The old one stops working after the overlap."""
        async with self._alone(APPROVER, name):
            await self._get(APPROVER, name)
            new = await self._replace(APPROVER, name, {"owner": None}, overlap_ms)
        data = {"name": name, "old_until": new.old_until}
        await self._store.note("approver_rotated", data=data)
        return new

    async def _replace(
        self, kind: str, name: str, row: JsonObject, overlap_ms: int
    ) -> NewCredential:
        """Create a token for a name. Its other tokens stop working now or after the overlap."""
        until = self._clock.now_ms() + overlap_ms
        ending = {
            key_id: json.dumps({**one, "until": min(until, one.get("until", until))})
            for key_id, one in (await self._entries(fresh=True)).items()
            if (one["kind"], one["name"]) == (kind, name)
        }
        # In one step, so that a gateway that dies here leaves no old token without an end.
        new = await self._make(kind, name, row, ending=ending)
        if overlap_ms:
            return replace(new, old_until=until)
        await self._forget(kind, name, but=new.token.split("_")[1])
        return new

    async def _redis_hashes(self, agent: str) -> list[str]:
        """Return the hashes of an agent's valid passwords."""
        return [
            one["redis"]
            for one in (await self._entries(fresh=True)).values()
            if (one["kind"], one["name"]) == (AGENT, agent)
            and "redis" in one
            and not self._is_over(one)
        ]

    async def end_replaced(self) -> None:
        """Delete tokens whose overlap is over, with their Redis passwords and connections."""
        over = {
            (one["kind"], one["name"])
            for one in (await self._entries()).values()
            if self._is_over(one)
        }
        for kind, name in over:
            async with self._alone(kind, name):
                rows = (await self._entries(fresh=True)).items()
                gone = [
                    key_id
                    for key_id, one in rows
                    if (one["kind"], one["name"]) == (kind, name) and self._is_over(one)
                ]
                if not gone:
                    continue
                silent: list[str] = []
                if kind == AGENT:
                    good = await self._redis_hashes(name)
                    silent = [*(await put(self._redis, self._keys, name, good, cut=True)).silent]
                await self._redis.hdel(self._keys.credentials, *gone)
                self._read_at = float("-inf")
            who = {"agent": name} if kind == AGENT else {}
            data = {"name": name, "tokens": len(gone), "silent": silent}
            await self._store.note("old_token_ended", **who, data=data)

    async def run(self) -> None:
        """End replaced tokens until cancelled."""
        while True:
            await self.end_replaced()
            await asyncio.sleep(_SWEEP_SECONDS)

    async def revoke_agent(self, name: str) -> None:
        """Remove an agent: its token, its Redis user, and its unread messages.

        Deleting the user closes its connections. Raises NotFound. Raises Unreachable if a server
        that did not respond may still have the user. Everything else is done then; call it again to
        complete the removal.
        """
        async with self._alone(AGENT, name):
            known = await self._forget(AGENT, name)
            heard = await remove(self._redis, self._keys, name)
            await self._redis.delete(self._keys.ingress(name))
            await self._redis.zrem(self._keys.agents, name)
        if not known and not any(heard.answers.values()) and not heard.silent:
            raise NotFound(f"there is no agent {name}")
        data = {"silent": [*heard.silent]}
        await self._store.note("agent_revoked", agent=name, data=data, urgent=True)
        if heard.silent:
            said = "; ".join(f"{server}: {why}" for server, why in heard.silent.items())
            raise Unreachable(
                f"{name} is revoked, but these servers may still know its Redis user ({said}); "
                "revoke it again when they are back"
            )

    async def add_approver(
        self, name: str, *, admin: bool = False, identities: tuple[str, ...] = ()
    ) -> NewCredential:
        """Create a person with a token who may decide on the default route, and add their other
        identities."""
        if not _PERSON.fullmatch(name):
            raise InvalidRequest(
                "a person's name must have 1 to 64 characters of a-z, 0-9, ., _ and -"
            )
        async with self._alone(APPROVER, name):
            if await self._find(APPROVER, name, fresh=True):
                raise Conflict(f"the approver {name} already exists; rotate their token instead")
            person = Person(name=name, identities=identities, admin=admin)
            await self._edit_policy(lambda policy: _with_person(policy, person), by=name)
            return await self._make(APPROVER, name, {"owner": None})

    async def revoke_approver(self, name: str) -> None:
        """Remove a person and their token. Raises NotFound.

        If a route names a platform group, the platform's members of that group may still decide.
        """
        async with self._alone(APPROVER, name):
            listed = any(person.name == name for person in (await self._store.policy()).people)
            if listed:
                await self._edit_policy(lambda policy: _without_person(policy, name), by=name)
            if not await self._forget(APPROVER, name) and not listed:
                raise NotFound(f"there is no approver {name}")

    @asynccontextmanager
    async def _alone(self, kind: str, name: str) -> AsyncIterator[None]:
        """Lock one credential on all replicas. Raises Conflict if another change holds the lock for
        too long."""
        keys = [self._keys.of("changing", kind, name), self._keys.meta]
        who = secrets.token_hex(8)
        until = asyncio.get_running_loop().time() + _TURN_SECONDS
        while not await self._claim.run(self._redis, keys, [who, self._change_ms]):
            if asyncio.get_running_loop().time() > until:
                raise Conflict(f"the {kind} {name} is being changed by someone else; try again")
            await asyncio.sleep(_PAUSE_SECONDS)
        holding = asyncio.create_task(self._hold(keys, who), name=f"change of {kind} {name}")
        try:
            yield
        finally:
            await cancel_and_wait(holding)
            # A claim of one millisecond releases the lock. If that fails, the lock expires.
            with suppress(*REDIS_ERRORS):
                await self._claim.run(self._redis, keys, [who, 1])

    async def _hold(self, keys: list[str], who: str) -> None:
        """Renew a lock until cancelled. If renewing fails, the change fails too."""
        while True:
            await asyncio.sleep(self._change_ms / 3000)
            with suppress(*REDIS_ERRORS):
                await self._claim.run(self._redis, keys, [who, self._change_ms])

    async def _edit_policy(self, edit: Any, *, by: str) -> None:
        for _ in range(_TRIES):
            try:
                await self._store.apply(edit(await self._store.policy()), by=f"credential of {by}")
            except Conflict:
                continue
            return
        raise Conflict("the policy is being changed by others all the time; try again")

    async def _make(
        self,
        kind: str,
        name: str,
        row: JsonObject,
        *,
        token: str | None = None,
        ending: Mapping[str, str] = MappingProxyType({}),
    ) -> NewCredential:
        token = token or f"agw_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
        key_id = token.split("_")[1]
        entry = {
            "kind": kind,
            "name": name,
            "sha256": sha256_hex(token.encode()),
            "created": self._clock.now_ms(),
            **row,
        }
        rows = {**ending, key_id: json.dumps(entry)}
        await self._redis.hset(self._keys.credentials, mapping=rows)
        self._read_at = float("-inf")
        return NewCredential(name=name, token=token)

    async def _entries(self, *, fresh: bool = False) -> dict[str, JsonObject]:
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if fresh or now - self._read_at > _FRESH_SECONDS:
                rows = await self._redis.hgetall(self._keys.credentials)
                self._read = {key_id: json.loads(row) for key_id, row in rows.items()}
                current = (row for row in self._read.values() if "until" not in row)
                self._named = {(row["kind"], row["name"]): row for row in current}
                self._read_at = now
            return self._read

    async def _find(self, kind: str, name: str, *, fresh: bool = False) -> JsonObject | None:
        await self._entries(fresh=fresh)
        return self._named.get((kind, name))

    async def _get(self, kind: str, name: str) -> JsonObject:
        found = await self._find(kind, name, fresh=True)
        if found is None:
            raise NotFound(f"there is no {kind} {name}")
        return found

    async def _forget(self, kind: str, name: str, *, but: str = "") -> bool:
        """Delete all tokens of a name. Return whether there were any."""
        entries = await self._entries(fresh=True)
        gone = [
            key_id
            for key_id, entry in entries.items()
            if (entry["kind"], entry["name"]) == (kind, name) and key_id != but
        ]
        if gone:
            await self._redis.hdel(self._keys.credentials, *gone)
        self._read_at = float("-inf")
        return bool(gone)


REDIS_ERRORS: tuple[type[Exception], ...] = (RedisError, OSError)


def _credential(key_id: str, entry: JsonObject) -> Credential:
    return Credential(
        kind=entry["kind"],
        name=entry["name"],
        key_id=key_id,
        owner=entry.get("owner"),
        since=entry.get("since", 0),
    )


def _with_user(new: NewCredential, user: RedisUser) -> NewCredential:
    return replace(
        new,
        redis_user=user.name,
        redis_password=user.password,
        kept=user.kept,
        silent=user.silent,
    )


def _with_person(policy: PolicyDocument, new: Person) -> PolicyDocument:
    """Add a person with a token. A known person keeps their identities and rights. A new one may
    approve on the route `default`; so may a known one if nobody else may."""
    name = new.name
    known = next((one for one in policy.people if one.name == name), new)
    identities = dict.fromkeys((*known.identities, *new.identities, f"token:{name}"))
    person = replace(known, identities=tuple(identities), admin=known.admin or new.admin)
    others = tuple(one for one in policy.people if one.name != name)
    routes = policy.routes or (Route(),)
    opened = tuple(
        replace(route, approvers=(*route.approvers, name))
        if (route.name == "default" and name not in route.approvers)
        and (known is new or not route.approvers)
        else route
        for route in routes
    )
    return replace(policy, people=(*others, person), routes=opened)


def _without_person(policy: PolicyDocument, name: str) -> PolicyDocument:
    """Remove a person, and their identities from routes."""
    known = next((one.identities for one in policy.people if one.name == name), ())
    gone = {name, f"token:{name}", *known}
    return replace(
        policy,
        people=tuple(one for one in policy.people if one.name != name),
        routes=tuple(route.without(gone) for route in policy.routes),
    )
