"""Combine all ways to sign in to one namespace, and its sessions, in one object for adapters."""

from __future__ import annotations

from gateway.domain.records import Identity
from gateway.domain.time_and_tasks import Clock
from gateway.errors import InvalidRequest
from gateway.ports.sign_in import CHAT_LINK_SECONDS, LoginLink
from gateway.sign_in.passkeys import PersonPasskeys
from gateway.sign_in.provider import OpenIdProvider, ProviderCalls, ProviderSettings
from gateway.stores.requests import RedisStore
from gateway.stores.sign_in import RedisAttempts, RedisLogins, RedisPasskeys


class Ways(RedisLogins):
    """A `gateway.ports.Logins`. `public_url` is the gateway's URL for browsers, `provider` the
    identity provider. In production, the provider must have a public address."""

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


# One-time links for people with a verified identity in a chat, made at their own request.


class ChatLinks:
    """A `gateway.ports.LoginLinks` of one adapter. `inbox` is the URL of the inbox."""

    def __init__(self, logins: RedisLogins, adapter: str, inbox: str) -> None:
        self._logins = logins
        self._adapter = adapter
        self._inbox = inbox

    async def make(self, identity: Identity, *, request_id: str = "") -> LoginLink:
        """Return a link that signs in the person with this identity. See
        `gateway.ports.LoginLinks`."""
        if not self._inbox:
            raise InvalidRequest(
                "the address of the inbox is unknown: ask the operator to set GATEWAY_PUBLIC_URL"
            )
        code, name = await self._logins.invite_known(identity, way=self._adapter)
        minutes = CHAT_LINK_SECONDS // 60
        leads = f"&to={request_id}" if request_id else ""
        url = f"{self._inbox}/login#code={code}{leads}"
        return LoginLink(url=url, name=name, minutes=minutes)
