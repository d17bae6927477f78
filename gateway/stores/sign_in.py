"""Browser sessions, one-time codes, passkeys, and for whom a login is.

Both are kept hashed, on every replica's Redis, with whom they are for. Each is one key that Redis
itself forgets in time, so nothing that is killed halfway leaves one without an end.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence
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

# Whom a login is for: an identity, as long as the policy knows it as the same person.


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder(Wire):
    """An identity with the name that it had, and how often that name had left the policy by then:
    who comes back logs in anew."""

    identity: Identity
    name: str
    departures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSubject:
    """Who the policy knows at a moment, and how often each name has left it."""

    policy: PolicyDocument
    departed: dict[str, str]

    def find(self, identity: Identity) -> Holder | None:
        """Return the holder of new logins of an identity; None for whom the policy does not know:
        a person's, or one that a route itself admits."""
        if self.policy.person_of(identity) is None:
            written = identity.written
            if not any(written in route.admitted for route in self.policy.routes):
                return None
        name = self.policy.name_of(identity)
        bare = replace(identity, groups=())  # they are those of a moment, and a login lasts
        return Holder(identity=bare, name=name, departures=self.count_departures(name))

    def count_departures(self, name: str) -> int:
        """Return how often a name has left the policy."""
        return int(self.departed.get(name, "0"))

    def list_names(self) -> list[str]:
        """Return the names that logins may be for."""
        admitted = (one for route in self.policy.routes for one in route.admitted if ":" in one)
        return [*(person.name for person in self.policy.people), *admitted]

    def admits(self, holder: Holder) -> bool:
        """Whether a login of this holder is still good."""
        return self.find(holder.identity) == holder


class Holders:
    """Reads who the policy knows, with whatever else is asked, in one round trip."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._read: tuple[str | None, PolicyDocument] = (None, PolicyDocument())

    async def read(self, *commands: Sequence[str]) -> tuple[LoginSubject, list[Any]]:
        """Return who stands in the policy now, and the answers to the commands."""
        keys = self._store.keys
        raw, departed, *answers = await self._store.together(
            ("GET", keys.policy), ("HGETALL", keys.departed), *commands
        )
        if raw != self._read[0]:
            self._read = raw, policy_of(raw)
        return LoginSubject(policy=self._read[1], departed=_as_mapping(departed)), answers


def _as_mapping(found: Any) -> dict[str, str]:
    """Return a hash, which the older protocol tells as names and values in turn."""
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))


CODE_SECONDS = 600
_CODE_GROUPS = 4  # 80 bits
LINKS_AT_ONCE = 5  # that somebody may ask for in a chat within five minutes
MOST_DEVICES = 50  # of one person; one more ends the one that was not used the longest
# A session in use is prolonged so often at most.
_PROLONG_MS = 60_000
_MOST_NOTED = 10_000
# Refused sign-ins that the audit records in a minute: of an address, and in all.
_TOLD_OF_ADDRESS, _TOLD_IN_ALL = 5, 30
_NO_BOUND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code(Wire):
    """A one-time code as it is kept."""

    holder: Holder
    way: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept(Wire):
    """A session as it is kept."""

    holder: Holder
    device: str
    way: str
    made: int
    ends: int


class RedisLogins:
    """A `gateway.ports.Logins` over one namespace."""

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self._store = store
        self._redis = store.redis
        self._keys = store.keys
        self._clock = clock
        self._holders = Holders(store)
        self._wrong = FailureLimit(now=monotonic)
        # Two, so that an address that is over its own bound takes nothing of the others'.
        self._told = FailureLimit(now=monotonic, most=_TOLD_OF_ADDRESS, in_all=_NO_BOUND)
        self._told_in_all = FailureLimit(now=monotonic, most=_TOLD_IN_ALL, in_all=_NO_BOUND)
        self._prolonged: dict[str, int] = {}

    async def invite(self, person: str) -> str:
        """Return a code that logs this person in, once, within ten minutes. Raises NotFound for a
        name of nobody's."""
        standing, _ = await self._holders.read()
        holder = standing.find(Identity(platform="token", id=person))
        if holder is None:
            raise NotFound(f"there is no approver {person}: gateway approver add NAME")
        return await self._keep_code(_Code(holder=holder, way="link"), CODE_SECONDS)

    async def invite_known(self, identity: Identity, *, way: str) -> tuple[str, str]:
        """Return a code that logs in whoever this verified identity is, once, within five minutes,
        and their name. See `gateway.ports.LoginLinks`."""
        standing, _ = await self._holders.read()
        holder = standing.find(identity)
        if holder is None:
            raise Unauthorized("the inbox is for people whom its policy names, one by one")
        if await self._count_link(holder.name) > LINKS_AT_ONCE:
            raise Busy("you asked for many links just now; use one, or wait some minutes")
        code = await self._keep_code(_Code(holder=holder, way=way), CHAT_LINK_SECONDS)
        told = {"person": holder.name, "as": identity.written, "way": way}
        await self._store.note("login_link_made", data=told)
        return code, holder.name

    async def _keep_code(self, kept: _Code, seconds: int) -> str:
        code = make_code(_CODE_GROUPS)
        await self._redis.set(self._code(code), dumps(plain(kept)), ex=seconds)
        return code

    async def _count_link(self, name: str) -> int:
        """Count a link that is asked for, over all replicas; return how many lately."""
        count = self._keys.of("links", name)
        # The end again after counting: a count that began anew between the two must have one.
        *_, asked, _ = await self._store.together(
            ("SET", count, "0", "EX", str(CHAT_LINK_SECONDS), "NX"),
            ("INCR", count),
            ("EXPIRE", count, str(CHAT_LINK_SECONDS), "NX"),
        )
        return int(asked)

    async def find_holder(self, code: str, *, address: str) -> str:
        """Return whom a code signs in, and leave it unused. See `gateway.ports.Logins`."""
        standing, (raw,) = await self._holders.read(("GET", self._code(code)))
        kept = build(_Code, json.loads(raw)) if raw else None
        if kept is None or not standing.admits(kept.holder):
            await self._refuse_code(address)
        return kept.holder.name

    async def redeem(self, code: str, *, address: str, device: str = "") -> str:
        """Use up a one-time login code; return a session token. Raises Unauthorized, and Busy when
        too many codes were wrong, from this address or in all. A good one works all the same."""
        standing, (raw,) = await self._holders.read(("GETDEL", self._code(code)))
        kept = build(_Code, json.loads(raw)) if raw else None
        if kept is None or not standing.admits(kept.holder):
            await self._refuse_code(address)
        return await self.open(kept.holder, way=kept.way, device=device)

    async def _refuse_code(self, address: str) -> NoReturn:
        if not self._wrong.count(address):
            raise Busy("too many login links were wrong; try again in a minute")
        await self.note_refusal("link", address, "used already, too old, or never made")
        raise Unauthorized("this link or code is wrong, too old, or was used already: get another")

    async def note_refusal(self, way: str, origin: str, why: str) -> None:
        """Write into the audit that a sign-in was refused, so seldom that nobody can fill it.
        `origin` is the address that it came from, or who was signed in there."""
        if self._told.count(origin) and self._told_in_all.count(""):
            data = {"way": way, "from": origin, "why": why}
            await self._store.note("sign_in_refused", data=data)

    async def open(self, holder: Holder, *, way: str, device: str) -> str:
        """Begin a session of somebody who has proven who they are; return its token."""
        session, now = secrets.token_urlsafe(32), self._clock.now_ms()
        name, listing = self._name(session), self._devices(holder.name)
        ends = now + LONGEST_SECONDS * 1000
        kept = _Kept(holder=holder, device=device, way=way, made=now, ends=ends)
        # Listed first: what is listed and not there is skipped, what is there is always listed.
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
        """Return whom the session belongs to; None when it ended, or its person was removed. See
        `gateway.ports.Logins`."""
        found = await self._find(session)
        if found is None:
            return None
        if prolong:
            await self._prolong(self._name(session), found)
        return found.holder.identity

    async def find_known(self, identity: Identity) -> Holder | None:
        """Return as whom the policy knows a verified identity now; None for whom it does not."""
        return (await self._holders.read())[0].find(identity)

    async def holder_of(self, session: str) -> Holder | None:
        """Return whom a session is for, under which name; None when it ended."""
        found = await self._find(session)
        return None if found is None else found.holder

    async def holder(self, reference: str) -> Identity | None:
        """Return whom the session with this hash belongs to; None when it ended. That is no use of
        it."""
        found = await self._find_named(reference)
        return None if found is None else found.holder.identity

    async def end(self, session: str) -> None:
        """End the session: its person signs out."""
        found = await self._find(session)
        if found is not None:
            name = found.holder.name
            await self._end(name, [self._name(session)], by=name)

    async def list_devices(self, session: str) -> list[Device]:
        """Return where the session's person is signed in, the last used first."""
        found = await self._find(session)
        listed = [] if found is None else await self.list_devices_of(found.holder.name)
        own = self._name(session)
        return [replace(one, current=one.id == own) for one in listed]

    async def list_devices_of(self, name: str) -> list[Device]:
        """Return where a person is signed in, the last used first."""
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
        """End sessions of the session's own person. See `gateway.ports.Logins`."""
        found = await self._find(session)
        if found is None:
            raise Unauthorized("you are not signed in")
        name = found.holder.name
        if ids is None:
            own = self._name(session)
            ids = tuple(one.id for one in await self.list_devices_of(name) if one.id != own)
        return await self._end(name, ids, by=name)

    async def end_devices_of(self, name: str, ids: tuple[str, ...], *, by: str) -> int:
        """End sessions of a person, by the ids of their devices; return how many ended."""
        return await self._end(name, ids, by=by)

    async def _end(self, name: str, ids: tuple[str, ...] | list[str], *, by: str) -> int:
        """End sessions of this person alone, and tell every replica, whose pages then look."""
        ended = await self._drop(name, ids)
        if ended:
            data = {"person": name, "by": by, "devices": [one[:12] for one in ended]}
            await self._store.note("signed_out", data=data, urgent=True)
        return len(ended)

    async def _drop(self, name: str, ids: tuple[str, ...] | list[str]) -> list[str]:
        listing, ended = self._devices(name), []
        for one in ids:
            if await self._redis.zscore(listing, one) is None:
                continue  # somebody else's, or nobody's
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
        return kept

    async def _prolong(self, name: str, kept: _Kept) -> None:
        """Let a session that is used go on, up to its absolute end. One that was ended meanwhile
        stays ended: neither command makes what is not there."""
        now = self._clock.now_ms()
        if now - self._prolonged.get(name, kept.made) < _PROLONG_MS:
            return
        if len(self._prolonged) >= _MOST_NOTED:
            self._prolonged.clear()
        self._prolonged[name] = now
        left = min(IDLE_SECONDS * 1000, kept.ends - now)
        await self._redis.pexpire(self._keys.of("browser", name), left)
        with suppress(ResponseError):  # a server without memory refuses it; who is signed in stays
            await self._redis.zadd(self._devices(kept.holder.name), {name: now}, xx=True, gt=True)

    def _devices(self, name: str) -> str:
        """Where a person is signed in, by when each was last used (sorted set)."""
        return self._keys.of("devices", name)

    def _name(self, session: str) -> str:
        return sha256_hex(session.encode())

    def _code(self, typed: str) -> str:
        return self._key("login", read_code(typed))

    def _key(self, kind: str, secret: str) -> str:
        return self._keys.of(kind, self._name(secret))


def _parse(raw: str | None) -> _Kept | None:
    """Return a session; None where there is none."""
    return build(_Kept, json.loads(raw)) if raw else None


# What a sign-in that was begun must come back with, in Redis: for one browser and one purpose,
# once, for five minutes.

ATTEMPT_SECONDS = 300


class RedisAttempts:
    """What waits to come back, of one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._redis = store.redis
        self._keys = store.keys

    async def remember(self, purpose: str, browser: str, kept: bytes) -> None:
        """Keep it; another one of the same browser and purpose goes."""
        text = b64encode(kept).decode()
        await self._redis.set(self._name(purpose, browser), text, ex=ATTEMPT_SECONDS)

    async def take(self, purpose: str, browser: str) -> bytes | None:
        """Return it, once; None where there is none, or its time is up."""
        kept = await self._redis.getdel(self._name(purpose, browser))
        return None if kept is None else b64decode(kept)

    def _name(self, purpose: str, browser: str) -> str:
        """What one browser must come back with (string, base64)."""
        return self._keys.of("challenge", sha256_hex(f"{purpose}\0{browser}".encode()))


# The passkeys of people, in Redis.
#
# A person's passkeys are fields of one hash, named 0 to 19. `HSETNX` takes a free one, so a person
# never has more, whatever is added at the same time. The hash belongs to one stay of a name in the
# policy: who leaves and comes back has none.

# All passkeys of a person of which none was used for so long are forgotten.
_UNUSED_SECONDS = 400 * 86_400
_SLOTS = tuple(str(one) for one in range(MOST_PASSKEYS))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPasskey(Wire):
    """A passkey as it is kept. `id` is base64url without padding, as browsers write it, `key`
    base64; `used` is when it last was, in ms, 0 for never; `count` is how often its device says it
    has signed."""

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
        """Whose passkeys these are."""
        return self._keys.namespace

    async def stand(self) -> LoginSubject:
        """Return who the policy knows now."""
        return (await self._holders.read())[0]

    async def load(self, standing: LoginSubject, name: str) -> list[KeptPasskey]:
        """Return the passkeys that sign in whoever has this name now, the newest last."""
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
        """Keep a passkey; return it with its place. Raises Conflict where its person has as many as
        there may be."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        body = dumps(plain(replace(passkey, used=0, count=0, slot="")))
        # The count first: a passkey without one would let a copied device in.
        await self._redis.zadd(counts, {passkey.id: passkey.count}, nx=True)
        for slot in _SLOTS:
            if await self._redis.hsetnx(kept, slot, body):
                await self._keep_for_long(kept, counts)
                return replace(passkey, slot=slot)
        await self._redis.zrem(counts, passkey.id)
        raise Conflict(f"you have {MOST_PASSKEYS} passkeys, and may have no more; remove one first")

    async def is_anothers(self, passkey: KeptPasskey) -> bool:
        """Whether somebody else whom the policy knows has a passkey of this id."""
        standing = await self.stand()
        others = [name for name in standing.list_names() if name != passkey.holder.name]
        found = [await self.load(standing, name) for name in others]
        return any(one.id == passkey.id for theirs in found for one in theirs)

    async def forget(self, passkey: KeptPasskey) -> bool:
        """Forget a passkey; return whether it was there."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        gone = await self._redis.hdel(kept, passkey.slot)
        await self._redis.hdel(kept, f"used {passkey.id}")
        await self._redis.zrem(counts, passkey.id)
        return bool(gone)

    async def count_use(self, passkey: KeptPasskey, count: int) -> bool:
        """Note a use and how often its device says it has signed; False where another use said as
        much already: then one of two devices is a copy."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        if count:
            told = {passkey.id: count}
            if not await self._redis.zadd(counts, told, xx=True, gt=True, ch=True):
                return False
        elif await self._redis.zscore(counts, passkey.id) is None:
            return False  # it was removed meanwhile
        await self._redis.hset(kept, f"used {passkey.id}", self._clock.now_ms())
        await self._keep_for_long(kept, counts)
        return True

    async def _keep_for_long(self, *names: str) -> None:
        for name in names:
            await self._redis.expire(name, _UNUSED_SECONDS)

    def _names(self, name: str, departures: int) -> tuple[str, str]:
        """The passkeys of a person in one stay of theirs (hash), and the counts that their devices
        say (sorted set)."""
        stay = (str(departures), name)
        return self._keys.of("passkeys", *stay), self._keys.of("passkey-counts", *stay)
