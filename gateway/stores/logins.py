"""Browser logins: a one-time code becomes a session. Both are kept hashed, on every replica's
Redis."""

from __future__ import annotations

import secrets

from gateway.canonical import sha256_hex
from gateway.errors import Unauthorized
from gateway.records import Identity
from gateway.stores.store import RedisStore

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
        await self._redis.set(self._key("login", code), person, ex=CODE_SECONDS)
        return code

    async def redeem(self, code: str) -> str:
        """Use up a one-time login code; return a session token. Raises Unauthorized."""
        person = await self._redis.getdel(self._key("login", code))
        if person is None:
            raise Unauthorized("this login link was used already, or is too old; ask for a new one")
        session = secrets.token_urlsafe(32)
        await self._redis.set(self._key("browser", session), person, ex=SESSION_SECONDS)
        return session

    async def who(self, session: str) -> Identity | None:
        """Return whom the session belongs to; None when it ended, or its person was removed."""
        person = await self._redis.get(self._key("browser", session))
        if person is None:
            return None
        identity = Identity(platform="token", id=person)
        known = (await self._store.policy()).person_of(identity)
        return None if known is None else identity

    async def end(self, session: str) -> None:
        """End the session."""
        await self._redis.delete(self._key("browser", session))

    def _key(self, kind: str, secret: str) -> str:
        return self._keys.of(kind, sha256_hex(secret.encode()))
