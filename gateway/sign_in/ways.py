"""All ways in of one namespace, as adapters get them, and the sessions that they make."""

from __future__ import annotations

from gateway.domain.clock import Clock
from gateway.sign_in.passkeys import PersonPasskeys
from gateway.sign_in.provider import OpenIdProvider, ProviderSettings
from gateway.sign_in.provider_calls import ProviderCalls
from gateway.stores.attempts import RedisAttempts
from gateway.stores.browser_sessions import RedisLogins
from gateway.stores.passkeys import RedisPasskeys
from gateway.stores.requests import RedisStore


class Ways(RedisLogins):
    """A `gateway.ports.Logins`. `public_url` is how browsers reach the gateway, `provider` who else
    knows its people, as both are set. In production a provider has a public address."""

    def __init__(
        self,
        store: RedisStore,
        clock: Clock,
        *,
        public_url: str | None = None,
        provider: ProviderSettings | None = None,
        production: bool = False,
    ) -> None:
        super().__init__(store, clock)
        attempts, kept = RedisAttempts(store), RedisPasskeys(store, clock)
        self.passkeys = PersonPasskeys(self, kept, attempts, clock, public_url)
        calls = ProviderCalls(production=production)
        self.provider = OpenIdProvider(self, attempts, clock, provider, calls)
