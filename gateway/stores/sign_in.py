"""Redis store for browser sessions, login codes and passkeys; start with `RedisLogins`.

Sessions and codes are stored as hashes with their owner. Each is one Redis key that is written with
its expiry, so an interrupted write never leaves a permanent key.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, NoReturn

from redis.exceptions import ResponseError

from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Identity
from gateway.domain.time_and_tasks import Clock
from gateway.domain.typed_codes import make_code, read_code
from gateway.domain.web_limits import FailureLimit
from gateway.errors import Busy, Conflict, NotFound, Unauthorized
from gateway.ports.sign_in import (
    CHAT_LINK_SECONDS,
    IDLE_SECONDS,
    LONGEST_SECONDS,
    MOST_PASSKEYS,
    Device,
)
from gateway.stores.record_codec import dumps, policy_of
from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import Wire, build, plain

# Owner of a login: an identity, as long as it means the same person in the policy.


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder(Wire):
    """An identity, its name, and how often that name had been removed from the policy when the
    login was created. A person who is removed and added again must sign in again."""

    identity: Identity
    name: str
    departures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSubject:
    """The policy at one moment, and how often each name has been removed from it."""

    policy: PolicyDocument
    departed: dict[str, str]

    def find(self, identity: Identity) -> Holder | None:
        """Return the owner for new logins of an identity that belongs to a person or is named in a
        route. None if the policy does not contain the identity."""
        if self.policy.person_of(identity) is None:
            written = identity.written
            if not any(written in route.admitted for route in self.policy.routes):
                return None
        name = self.policy.name_of(identity)
        bare = replace(identity, groups=())  # groups may change during a login
        return Holder(identity=bare, name=name, departures=self.count_departures(name))

    def count_departures(self, name: str) -> int:
        """Return how often a name has been removed from the policy."""
        return int(self.departed.get(name, "0"))

    def list_names(self) -> list[str]:
        """Return the names that may have logins."""
        admitted = (one for route in self.policy.routes for one in route.admitted if ":" in one)
        return [*(person.name for person in self.policy.people), *admitted]

    def admits(self, holder: Holder) -> bool:
        """Return whether a login of this owner is still valid."""
        return self.find(holder.identity) == holder


class Holders:
    """Reads the people in the policy together with other commands, in one round trip."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._read: tuple[str | None, PolicyDocument] = (None, PolicyDocument())

    async def read(self, *commands: Sequence[str]) -> tuple[LoginSubject, list[Any]]:
        """Return the current people of the policy, and the replies to the commands."""
        keys = self._store.keys
        raw, departed, *answers = await self._store.together(
            ("GET", keys.policy), ("HGETALL", keys.departed), *commands
        )
        if raw != self._read[0]:
            self._read = raw, policy_of(raw)
        return LoginSubject(policy=self._read[1], departed=_as_mapping(departed)), answers


def _as_mapping(found: Any) -> dict[str, str]:
    """Return a Redis hash as a mapping. The older Redis protocol sends it as alternating names and
    values."""
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))


CODE_SECONDS = 600
_CODE_GROUPS = 4  # 80 bits
LINKS_AT_ONCE = 5  # per person within five minutes
MOST_DEVICES = 50  # per person; one more ends the session that was unused longest
# A session in use is extended at most this often.
_PROLONG_MS = 60_000
_MOST_NOTED = 10_000
# Rejected sign-ins audited per minute: for one address, and in total.
_TOLD_OF_ADDRESS, _TOLD_IN_ALL = 5, 30
_NO_BOUND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code(Wire):
    """A stored one-time code."""

    holder: Holder
    way: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept(Wire):
    """A stored session."""

    holder: Holder
    device: str
    way: str
    made: int
    ends: int


class RedisLogins:
    """Implements `gateway.ports.Logins` for one namespace."""

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self._store = store
        self._redis = store.redis
        self._keys = store.keys
        self._clock = clock
        self._holders = Holders(store)
        self.members = RedisMembers(store)
        self._wrong = FailureLimit(now=monotonic)
        # Two limits, so that an address above its own limit does not use up the total.
        self._told = FailureLimit(now=monotonic, most=_TOLD_OF_ADDRESS, in_all=_NO_BOUND)
        self._told_in_all = FailureLimit(now=monotonic, most=_TOLD_IN_ALL, in_all=_NO_BOUND)
        self._prolonged: dict[str, int] = {}

    async def invite(self, person: str) -> str:
        """Return a code that signs this person in once within ten minutes. Raises NotFound for an
        unknown name."""
        standing, _ = await self._holders.read()
        holder = standing.find(Identity(platform="token", id=person))
        if holder is None:
            raise NotFound(
                f"there is no approver {person}; to add one, run: gateway approver add NAME"
            )
        await self._store.note("login_link_made", data={"person": person, "way": "link"})
        return await self._keep_code(_Code(holder=holder, way="link"), CODE_SECONDS)

    async def invite_known(self, identity: Identity, *, way: str) -> tuple[str, str]:
        """Return a code that signs in a verified identity once within five minutes, and the
        person's name. See `gateway.ports.LoginLinks`."""
        standing, _ = await self._holders.read()
        holder = standing.find(identity)
        if holder is None:
            raise Unauthorized("only people in the policy may use the inbox: ask an admin")
        if await self._count_link(holder.name) > LINKS_AT_ONCE:
            raise Busy("you have just requested many links; use one of them, or wait some minutes")
        code = await self._keep_code(_Code(holder=holder, way=way), CHAT_LINK_SECONDS)
        told = {"person": holder.name, "as": identity.written, "way": way}
        await self._store.note("login_link_made", data=told)
        return code, holder.name

    async def _keep_code(self, kept: _Code, seconds: int) -> str:
        code = make_code(_CODE_GROUPS)
        await self._redis.set(self._code(code), dumps(plain(kept)), ex=seconds)
        return code

    async def _count_link(self, name: str) -> int:
        """Count a requested login link across all replicas. Return the number of recent ones."""
        count = self._keys.of("links", name)
        # Set the expiry again after counting, in case the count restarted between the two commands.
        *_, asked, _ = await self._store.together(
            ("SET", count, "0", "EX", str(CHAT_LINK_SECONDS), "NX"),
            ("INCR", count),
            ("EXPIRE", count, str(CHAT_LINK_SECONDS), "NX"),
        )
        return int(asked)

    async def find_holder(self, code: str, *, address: str) -> str:
        """Return the person whom a code signs in, without using it. See `gateway.ports.Logins`."""
        standing, (raw,) = await self._holders.read(("GET", self._code(code)))
        kept = build(_Code, json.loads(raw)) if raw else None
        if kept is None or not standing.admits(kept.holder):
            await self._refuse_code(address)
        return kept.holder.name

    async def redeem(self, code: str, *, address: str, device: str = "") -> str:
        """Use a one-time login code and return a session token. Raises Unauthorized, and Busy after
        too many wrong codes, from this address or in total. Even then, a valid code still works."""
        standing, (raw,) = await self._holders.read(("GETDEL", self._code(code)))
        kept = build(_Code, json.loads(raw)) if raw else None
        if kept is None or not standing.admits(kept.holder):
            await self._refuse_code(address)
        return await self.open(kept.holder, way=kept.way, device=device)

    async def _refuse_code(self, address: str) -> NoReturn:
        if not self._wrong.count(address):
            raise Busy("too many wrong login links were tried; try again in a minute")
        await self.note_refusal("link", address, "used, expired, or unknown")
        raise Unauthorized("this link or code is wrong, expired, or already used: get a new one")

    async def note_refusal(self, way: str, origin: str, why: str) -> None:
        """Audit a rejected sign-in, at a limited rate so that nobody can fill the audit log.
        `origin` is the address it came from, or the signed-in person."""
        if self._told.count(origin) and self._told_in_all.count(""):
            data = {"way": way, "from": origin, "why": why}
            await self._store.note("sign_in_refused", data=data)

    async def open(self, holder: Holder, *, way: str, device: str) -> str:
        """Start a session for a person who proved their identity. Return its token."""
        session, now = secrets.token_urlsafe(32), self._clock.now_ms()
        name, listing = self._name(session), self._devices(holder.name)
        ends = now + LONGEST_SECONDS * 1000
        kept = _Kept(holder=holder, device=device, way=way, made=now, ends=ends)
        # List it first: a listed session that does not exist is skipped, but each session is
        # listed.
        await self._redis.zadd(listing, {name: now})
        await self._redis.expire(listing, LONGEST_SECONDS)
        body = dumps(plain(kept))
        await self._redis.set(self._keys.of("browser", name), body, ex=IDLE_SECONDS)
        if unused := await self._redis.zrange(listing, 0, -MOST_DEVICES - 1):
            await self._drop(holder.name, unused)
        told = {"person": holder.name, "as": holder.identity.written, "way": way}
        await self._store.note("signed_in", data={**told, "on": device, "device": name[:12]})
        return session

    async def who(self, session: str, *, prolong: bool = True) -> Identity | None:
        """Return the identity of a session. None if the session ended or its person was removed.
        See `gateway.ports.Logins`."""
        found = await self._find(session)
        if found is None:
            return None
        if prolong:
            await self._prolong(self._name(session), found)
        return found.holder.identity

    async def find_known(self, identity: Identity) -> Holder | None:
        """Return the owner for a verified identity, or None if the policy does not know it."""
        return (await self._holders.read())[0].find(identity)

    async def holder_of(self, session: str) -> Holder | None:
        """Return the owner of a session, or None if it ended."""
        found = await self._find(session)
        return None if found is None else found.holder

    async def holder(self, reference: str) -> Identity | None:
        """Return the identity of the session with this hash, or None if it ended. Does not extend
        the session."""
        found = await self._find_named(reference)
        return None if found is None else found.holder.identity

    async def end(self, session: str) -> None:
        """End the session when the person signs out."""
        found = await self._find(session)
        if found is not None:
            name = found.holder.name
            await self._end(name, [self._name(session)], by=name)

    async def list_devices(self, session: str) -> list[Device]:
        """Return the devices where the session's person is signed in, last used first."""
        found = await self._find(session)
        listed = [] if found is None else await self.list_devices_of(found.holder.name)
        own = self._name(session)
        return [replace(one, current=one.id == own) for one in listed]

    async def list_devices_of(self, name: str) -> list[Device]:
        """Return the devices where a person is signed in, last used first."""
        listing = self._devices(name)
        rows = await self._redis.zrange(listing, 0, -1, desc=True, withscores=True)
        standing, bodies = await self._holders.read(
            *(("GET", self._keys.of("browser", one)) for one, _ in rows)
        )
        now, listed = self._clock.now_ms(), []
        for (one, used), body in zip(rows, bodies, strict=True):
            kept = _parse(body)
            if kept is None or now >= kept.ends or not standing.admits(kept.holder):
                continue
            listed.append(
                Device(
                    id=one,
                    person=name,
                    words=kept.device,
                    way=kept.way,
                    made=kept.made,
                    used=int(used),
                    ends=min(kept.ends, int(used) + IDLE_SECONDS * 1000),
                )
            )
        return listed

    async def end_devices(self, session: str, ids: tuple[str, ...] | None = None) -> int:
        """End sessions of the person who owns this session. See `gateway.ports.Logins`."""
        found = await self._find(session)
        if found is None:
            raise Unauthorized("you are not signed in")
        name = found.holder.name
        if ids is None:
            own = self._name(session)
            ids = tuple(one.id for one in await self.list_devices_of(name) if one.id != own)
        return await self._end(name, ids, by=name)

    async def end_devices_of(self, name: str, ids: tuple[str, ...], *, by: str) -> int:
        """End sessions of a person by device ID. Return how many ended."""
        return await self._end(name, ids, by=by)

    async def _end(self, name: str, ids: tuple[str, ...] | list[str], *, by: str) -> int:
        """End these sessions if they belong to this person, and notify all replicas, which update
        their pages."""
        ended = await self._drop(name, ids)
        if ended:
            data = {"person": name, "by": by, "devices": [one[:12] for one in ended]}
            await self._store.note("signed_out", data=data, urgent=True)
        return len(ended)

    async def _drop(self, name: str, ids: tuple[str, ...] | list[str]) -> list[str]:
        listing, ended = self._devices(name), []
        for one in ids:
            if await self._redis.zscore(listing, one) is None:
                continue  # not a session of this person
            await self._redis.delete(self._keys.of("browser", one))
            await self._redis.zrem(listing, one)
            ended.append(one)
        return ended

    async def _find(self, session: str) -> _Kept | None:
        return await self._find_named(self._name(session))

    async def _find_named(self, name: str) -> _Kept | None:
        standing, (raw,) = await self._holders.read(("GET", self._keys.of("browser", name)))
        kept = _parse(raw)
        if kept is None or self._clock.now_ms() >= kept.ends or not standing.admits(kept.holder):
            return None
        person = standing.policy.person_of(kept.holder.identity)
        if person and person.groups and not await self.members.load(kept.holder.identity):
            return None  # no replica could confirm the member
        return kept

    async def _prolong(self, name: str, kept: _Kept) -> None:
        """Extend a session in use, up to its absolute end. A session that ended meanwhile stays
        ended, because neither command creates a key."""
        now = self._clock.now_ms()
        if now - self._prolonged.get(name, kept.made) < _PROLONG_MS:
            return
        if len(self._prolonged) >= _MOST_NOTED:
            self._prolonged.clear()
        self._prolonged[name] = now
        left = min(IDLE_SECONDS * 1000, kept.ends - now)
        await self._redis.pexpire(self._keys.of("browser", name), left)
        with suppress(ResponseError):  # rejected if memory is full; the session stays valid
            await self._redis.zadd(self._devices(kept.holder.name), {name: now}, xx=True, gt=True)

    def _devices(self, name: str) -> str:
        """The devices where a person is signed in, by last use (sorted set)."""
        return self._keys.of("devices", name)

    def _name(self, session: str) -> str:
        return sha256_hex(session.encode())

    def _code(self, typed: str) -> str:
        return self._key("login", read_code(typed))

    def _key(self, kind: str, secret: str) -> str:
        return self._keys.of(kind, self._name(secret))


def _parse(raw: str | None) -> _Kept | None:
    """Parse a stored session. Return None if it does not exist."""
    return build(_Kept, json.loads(raw)) if raw else None


# Members of the identity provider's groups: the refresh token that confirms each of them.

MEMBER_SECONDS = 300
"""How long a member keeps their rights while the identity provider does not answer."""
_TURN_SECONDS = 20
_POLICY_TRIES = 8


class RedisMembers:
    """Stores what confirms each group member. The token is useless without the client secret."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._redis = store.redis
        self.note = store.note
        self.policy = store.policy

    async def load(self, identity: Identity) -> str:
        """Return the refresh token of a member, or "" if they were not confirmed recently."""
        return str(await self._redis.get(self._name("member", identity)) or "")

    async def save(self, identity: Identity, refresh: str) -> None:
        """Record that the identity provider confirmed a member now."""
        await self._redis.set(self._name("member", identity), refresh, ex=MEMBER_SECONDS)

    async def take_turn(self, identity: Identity) -> bool:
        """Return whether it is time to check a member; true for one caller of all replicas."""
        turn = self._name("member-turn", identity)
        return bool(await self._redis.set(turn, "", ex=_TURN_SECONDS, nx=True))

    async def change(self, edit: Callable[[PolicyDocument], PolicyDocument], *, about: str) -> None:
        """Change a member in the policy. Raises Conflict."""
        for _ in range(_POLICY_TRIES):
            policy = await self.policy()
            if (after := edit(policy)) == policy:
                return
            with suppress(Conflict):
                await self._store.apply(after, by=f"the identity provider, for {about},")
                return
        raise Conflict("the policy keeps changing; sign in again")

    def _name(self, kind: str, identity: Identity) -> str:
        return self._store.keys.of(kind, sha256_hex(identity.written.encode()))


# Secrets for sign-ins in progress: for one browser and purpose, once, for five minutes.

ATTEMPT_SECONDS = 300


class RedisAttempts:
    """Stores the secrets of sign-ins in progress in one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis = store.redis
        self._keys = store.keys

    async def remember(self, purpose: str, browser: str, kept: bytes) -> None:
        """Save a secret. It replaces an earlier secret for this browser and purpose."""
        text = b64encode(kept).decode()
        await self._redis.set(self._name(purpose, browser), text, ex=ATTEMPT_SECONDS)

    async def take(self, purpose: str, browser: str) -> bytes | None:
        """Return and delete a secret, or return None if it is missing or expired."""
        kept = await self._redis.getdel(self._name(purpose, browser))
        return None if kept is None else b64decode(kept)

    def _name(self, purpose: str, browser: str) -> str:
        """The key of the secret for one browser and purpose (string, base64)."""
        return self._keys.of("challenge", sha256_hex(f"{purpose}\0{browser}".encode()))


# Passkeys in Redis.
#
# A person's passkeys are fields of one hash, named 0 to 19. `HSETNX` takes a free field, so that
# concurrent calls cannot add more. The hash belongs to one stay of a name in the policy: a person
# who leaves and returns has none.

# If a person used no passkey for this time, all of theirs are deleted.
_UNUSED_SECONDS = 400 * 86_400
_SLOTS = tuple(str(one) for one in range(MOST_PASSKEYS))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPasskey(Wire):
    """A stored passkey. `id` is base64url without padding, `key` base64. `used` is the last use in
    ms since the epoch, 0 for never. `count` is the signature counter of its device."""

    id: str
    key: str
    words: str
    made: int
    holder: Holder
    used: int = 0
    count: int = 0
    slot: str = ""


class RedisPasskeys:
    """Passkeys of one namespace."""

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self._redis = store.redis
        self._keys = store.keys
        self._clock = clock
        self._holders = Holders(store)
        self.note = store.note

    @property
    def namespace(self) -> str:
        """The namespace of these passkeys."""
        return self._keys.namespace

    async def stand(self) -> LoginSubject:
        """Return the current people of the policy."""
        return (await self._holders.read())[0]

    async def load(self, standing: LoginSubject, name: str) -> list[KeptPasskey]:
        """Return the valid passkeys of the person with this name, newest last."""
        kept, counts = self._names(name, standing.count_departures(name))
        found = await self._redis.hgetall(kept)
        counted = dict(await self._redis.zrange(counts, 0, -1, withscores=True)) if found else {}
        taken = [slot for slot in _SLOTS if slot in found]
        passkeys = [
            replace(
                one := build(KeptPasskey, json.loads(found[slot])),
                used=int(found.get(f"used {one.id}", 0)),
                count=int(counted.get(one.id, 0)),
                slot=slot,
            )
            for slot in taken
        ]
        mine = [one for one in passkeys if one.holder.name == name and standing.admits(one.holder)]
        return sorted(mine, key=lambda one: one.made)

    async def keep(self, passkey: KeptPasskey) -> KeptPasskey:
        """Save a passkey. Return it with its slot. Raises Conflict if the person already has
        MOST_PASSKEYS."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        body = dumps(plain(replace(passkey, used=0, count=0, slot="")))
        # Save the counter first: a passkey without one would admit a copied device.
        await self._redis.zadd(counts, {passkey.id: passkey.count}, nx=True)
        for slot in _SLOTS:
            if await self._redis.hsetnx(kept, slot, body):
                await self._keep_for_long(kept, counts)
                return replace(passkey, slot=slot)
        await self._redis.zrem(counts, passkey.id)
        raise Conflict(f"you have {MOST_PASSKEYS} passkeys, the maximum; remove one first")

    async def is_anothers(self, passkey: KeptPasskey) -> bool:
        """Return whether another person in the policy has a passkey with this ID."""
        standing = await self.stand()
        others = [name for name in standing.list_names() if name != passkey.holder.name]
        found = [await self.load(standing, name) for name in others]
        return any(one.id == passkey.id for theirs in found for one in theirs)

    async def forget(self, passkey: KeptPasskey) -> bool:
        """Delete a passkey. Return whether it existed."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        gone = await self._redis.hdel(kept, passkey.slot)
        await self._redis.hdel(kept, f"used {passkey.id}")
        await self._redis.zrem(counts, passkey.id)
        return bool(gone)

    async def count_use(self, passkey: KeptPasskey, count: int) -> bool:
        """Record a use and the device's signature counter. Return False if the counter did not
        increase, which means that the passkey was copied, or if it was removed."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        if count:
            told = {passkey.id: count}
            if not await self._redis.zadd(counts, told, xx=True, gt=True, ch=True):
                return False
        elif await self._redis.zscore(counts, passkey.id) is None:
            return False  # removed meanwhile
        await self._redis.hset(kept, f"used {passkey.id}", self._clock.now_ms())
        await self._keep_for_long(kept, counts)
        return True

    async def _keep_for_long(self, *names: str) -> None:
        for name in names:
            await self._redis.expire(name, _UNUSED_SECONDS)

    def _names(self, name: str, departures: int) -> tuple[str, str]:
        """The keys of a person's passkeys (hash) and their signature counters (sorted set), until
        the person is removed from the policy."""
        stay = (str(departures), name)
        return self._keys.of("passkeys", *stay), self._keys.of("passkey-counts", *stay)
