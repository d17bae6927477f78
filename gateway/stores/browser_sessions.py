"""Browser logins: a one-time code becomes a session. Both are kept hashed, on every replica's
Redis, with how often their person had left by then: who comes back logs in anew."""

from __future__ import annotations

import secrets
from time import monotonic
from typing import Any

from gateway.domain.failure_limit import FailureLimit
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Identity
from gateway.errors import Busy, Unauthorized
from gateway.stores.requests import RedisStore, policy_of
from gateway.wire.canonical_json import sha256_hex

CODE_SECONDS = 600
SESSION_SECONDS = 12 * 3600


class RedisLogins:
    """A `gateway.ports.Logins` over one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._redis = store.redis
        self._keys = store.keys
        self._read: tuple[str | None, PolicyDocument] = (None, PolicyDocument())
        self._wrong = FailureLimit(now=monotonic)

    async def invite(self, person: str) -> str:
        """Return a code that logs this person in, once, within ten minutes."""
        code = secrets.token_urlsafe(24)
        holder = f"{await self._departures(person)} {person}"
        await self._redis.set(self._key("login", code), holder, ex=CODE_SECONDS)
        return code

    async def redeem(self, code: str, *, address: str) -> str:
        """Use up a one-time login code; return a session token. Raises Unauthorized, and Busy when
        too many codes were wrong, from this address or in all. A good one works all the same."""
        holder = await self._redis.getdel(self._key("login", code))
        departed = await self._redis.hgetall(self._keys.departed)
        if _identity(holder, await self._store.policy(), departed) is None:
            if not self._wrong.count(address):
                raise Busy("too many login links were wrong; try again in a minute")
            raise Unauthorized("this login link was used already, or is too old; ask for a new one")
        session = secrets.token_urlsafe(32)
        await self._redis.set(self._key("browser", session), holder, ex=SESSION_SECONDS)
        return session

    async def who(self, session: str) -> Identity | None:
        """Return whom the session belongs to; None when it ended, or its person was removed."""
        return await self.holder(sha256_hex(session.encode()))

    async def holder(self, reference: str) -> Identity | None:
        """Return whom the session with this hash belongs to, as `who` does."""
        holder, raw, departed = await self._store.together(
            ("GET", self._keys.of("browser", reference)),
            ("GET", self._keys.policy),
            ("HGETALL", self._keys.departed),
        )
        if raw != self._read[0]:
            self._read = raw, policy_of(raw)
        return _identity(holder, self._read[1], _as_mapping(departed))

    async def end(self, session: str) -> None:
        """End the session."""
        await self._redis.delete(self._key("browser", session))

    async def _departures(self, person: str) -> int:
        return int(await self._redis.hget(self._keys.departed, person) or 0)

    def _key(self, kind: str, secret: str) -> str:
        return self._keys.of(kind, sha256_hex(secret.encode()))


def _identity(
    holder: str | None, policy: PolicyDocument, departed: dict[str, str]
) -> Identity | None:
    """Return the identity that a code or a session is for, if it is still theirs."""
    departures, _, person = (holder or "").partition(" ")
    identity = Identity(platform="token", id=person)
    if not person or policy.person_of(identity) is None:
        return None
    return identity if departures == departed.get(person, "0") else None


def _as_mapping(found: Any) -> dict[str, str]:
    """Return a hash, which the older protocol tells as names and values in turn."""
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))
