"""How somebody is signed in to a browser: sessions, and the devices that they are on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.domain.records import Identity
from gateway.ports.passkeys import Passkeys
from gateway.ports.provider import Provider

IDLE_SECONDS = 7 * 86_400
"""A session that is not used for so long has ended."""
LONGEST_SECONDS = 30 * 86_400
"""A session has ended after so long, however much it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One browser that somebody is signed in on. `words` name browser and system, `way` is how
    they signed in; times are in ms since the epoch. `id` signs nobody in."""

    id: str
    person: str
    words: str
    way: str
    made: int
    used: int
    ends: int
    current: bool = False


CHAT_LINK_SECONDS = 300
"""How long a link works that somebody asked for in a chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLink:
    """A link that signs `name` in, once, within so many minutes. It is shown to them alone."""

    url: str
    name: str
    minutes: int


class LoginLinks(Protocol):
    """Makes links for people whom an adapter's platform has verified."""

    async def make(self, identity: Identity, *, request_id: str = "") -> LoginLink:
        """Return a link to the inbox, or there to a request, for whoever this identity is; that is
        audited.

        Raises Unauthorized for whom neither a person of the policy nor a route names, Busy for who
        asks too often, InvalidRequest where the inbox has no address.
        """


class Logins(Protocol):
    """Browser logins: a one-time code becomes a session, a session names an identity."""

    @property
    def passkeys(self) -> Passkeys:
        """Passkeys, a way in without a link."""

    @property
    def provider(self) -> Provider:
        """An identity provider, another one."""

    async def find_holder(self, code: str, *, address: str) -> str:
        """Return the name of the person whom a one-time login code signs in, and leave it unused.
        Raises as `redeem` does."""

    async def redeem(self, code: str, *, address: str, device: str = "") -> str:
        """Use up a one-time login code; return a session token. `device` are words for the browser
        (`name_device`). Raises Unauthorized, and Busy when too many codes were wrong, from this
        address or in all."""

    async def who(self, session: str, *, prolong: bool = True) -> Identity | None:
        """Return whom the session belongs to; None when it ended. It is prolonged, unless this is
        asked without the person doing anything."""

    async def end(self, session: str) -> None:
        """End the session: its person signs out."""

    async def list_devices(self, session: str) -> list[Device]:
        """Return where the session's person is signed in, the last used first."""

    async def end_devices(self, session: str, ids: tuple[str, ...] | None = None) -> int:
        """End sessions of the session's own person by their devices' ids, or with None all but
        this one; return how many ended."""
