"""One-time links for people whom a chat knows: made on their own word there, for them alone."""

from __future__ import annotations

from gateway.domain.records import Identity
from gateway.errors import InvalidRequest
from gateway.ports.logins import CHAT_LINK_SECONDS, LoginLink
from gateway.stores.browser_sessions import RedisLogins


class ChatLinks:
    """A `gateway.ports.LoginLinks` of one adapter. `inbox` is where people open the inbox."""

    def __init__(self, logins: RedisLogins, adapter: str, inbox: str) -> None:
        self._logins = logins
        self._adapter = adapter
        self._inbox = inbox

    async def make(self, identity: Identity, *, request_id: str = "") -> LoginLink:
        """Return a link that signs in whoever this identity is. See `gateway.ports.LoginLinks`."""
        if not self._inbox:
            raise InvalidRequest("the inbox has no address: its operator sets GATEWAY_PUBLIC_URL")
        code, name = await self._logins.invite_known(identity, way=self._adapter)
        minutes = CHAT_LINK_SECONDS // 60
        leads = f"&to={request_id}" if request_id else ""
        url = f"{self._inbox}/login#code={code}{leads}"
        return LoginLink(url=url, name=name, minutes=minutes)
