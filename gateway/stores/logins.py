"""Browser logins: a one-time code becomes a session. Both are kept hashed, on every replica's
Redis, with how often their person had left by then: who comes back logs in anew."""

from __future__ import annotations

import secrets

from gateway.canonical import sha256_hex
from gateway.errors import Unauthorized
from gateway.records import Identity
from gateway.rulebook import PolicyDocument
from gateway.stores.store import RedisStore, policy_of

CODE_SECONDS = 600
SESSION_SECONDS = 12 * 3600


class RedisLogins:
    """A `gateway.ports.Logins` over one namespace."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._redis = store.redis
        self._keys = store.keys

    async def invite(self, person: str) -> str:
        """Return a code that logs this person in, once, within ten minutes."""
        code = secrets.token_urlsafe(24)
        holder = f"{await self._departures(person)} {person}"
        await self._redis.set(self._key("login", code), holder, ex=CODE_SECONDS)
        return code

    async def redeem(self, code: str) -> str:
        """Use up a one-time login code; return a session token. Raises Unauthorized."""
        holder = await self._redis.getdel(self._key("login", code))
        if await self._person(holder, await self._store.policy()) is None:
            raise Unauthorized("this login link was used already, or is too old; ask for a new one")
        session = secrets.token_urlsafe(32)
        await self._redis.set(self._key("browser", session), holder, ex=SESSION_SECONDS)
        return session

    async def who(self, session: str) -> Identity | None:
        """Return whom the session belongs to; None when it ended, or its person was removed."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.get(self._key("browser", session))
        pipeline.get(self._keys.policy)
        holder, policy = await pipeline.execute()
        return await self._person(holder, policy_of(policy))

    async def end(self, session: str) -> None:
        """End the session."""
        await self._redis.delete(self._key("browser", session))

    async def _person(self, holder: str | None, policy: PolicyDocument) -> Identity | None:
        """Return the identity that a code or a session is for, if it is still theirs."""
        departures, _, person = (holder or "").partition(" ")
        identity = Identity(platform="token", id=person)
        if not person or policy.person_of(identity) is None:
            return None
        return identity if departures == str(await self._departures(person)) else None

    async def _departures(self, person: str) -> int:
        return int(await self._redis.hget(self._keys.departed, person) or 0)

    def _key(self, kind: str, secret: str) -> str:
        return self._keys.of(kind, sha256_hex(secret.encode()))
