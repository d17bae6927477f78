"""All ways in of one namespace, as adapters get them, and the sessions that they make."""

from __future__ import annotations

from gateway.domain.clock import Clock
from gateway.sign_in.passkeys import PersonPasskeys
from gateway.stores.browser_sessions import RedisLogins
from gateway.stores.passkeys import RedisPasskeys
from gateway.stores.requests import RedisStore


class Ways(RedisLogins):
    """A `gateway.ports.Logins`. `public_url` is how browsers reach the gateway, as it is set."""

    def __init__(self, store: RedisStore, clock: Clock, *, public_url: str | None = None) -> None:
        super().__init__(store, clock)
        self.passkeys = PersonPasskeys(self, RedisPasskeys(store, clock), clock, public_url)
