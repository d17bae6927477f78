"""How people sign in to a browser: sessions, devices, passkeys, an identity provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.records import Click, Identity, StoredRequest
from gateway.models import Action, digest_of
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, plain

# Passkeys: a person's device proves, with a finger or a face, that it holds a key of theirs.

MOST_PASSKEYS = 20  # of one person


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """One passkey of a person. `words` name the browser it was made in; times are in ms since the
    epoch, `used` is 0 until it first was."""

    id: str
    words: str
    made: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """That somebody is there who holds a passkey of a person, and agreed to one thing. `words` name
    the browser that it was made in."""

    identity: Identity
    passkey: str
    words: str = ""


Prove = Callable[[str], Awaitable[Proof]]
"""Checks that the person who clicks agreed to this subject with a passkey; raises Unauthorized."""


def subject_of(record: StoredRequest, click: Click) -> str:
    """Return what a passkey agrees to: this answer to this request, as it was seen, exactly what
    would run then, and all that is said and remembered with it. Whatever else is made of it needs
    another assertion."""
    edits = click.action is Action.EDIT and click.arguments is not None
    digest = digest_of(record.request, click.arguments) if edits else record.digest
    parts = (click.answers, click.result, click.message, click.note, click.remember)
    said = canonical([plain(part) for part in (*parts, click.abort, click.feedback)])
    return f"{click.action} {record.id} {click.revision} {digest} {sha256_hex(said)}"


class Passkeys(Protocol):
    """The passkeys of people: signing in with one, and agreeing to one thing, as a step-up does."""

    @property
    def problem(self) -> str:
        """Why there are none here, as a sentence; "" where there are."""

    async def list_passkeys(self, session: str) -> list[Passkey]:
        """Return the passkeys of the session's person, the newest last."""

    async def begin_adding(self, session: str) -> JsonObject:
        """Return the options for the browser's `navigator.credentials.create`."""

    async def add(self, session: str, credential: JsonObject, *, device: str) -> None:
        """Keep a passkey for the session's person. Raises Unauthorized for what does not verify,
        Conflict when they have MOST_PASSKEYS."""

    async def remove(self, session: str, passkey: str) -> bool:
        """Forget a passkey of the session's own person; return whether there was one."""

    async def begin_sign_in(self, browser: str, *, address: str) -> JsonObject:
        """Return the options for signing in. `browser` is a secret that the browser keeps, and the
        answer must come with. Raises Busy when an address asks too often."""

    async def sign_in(
        self, browser: str, credential: JsonObject, *, address: str, device: str
    ) -> str:
        """Return a session of whoever holds the passkey. Raises Unauthorized, and Busy when too
        much was wrong."""

    async def begin_proof(self, session: str, about: str) -> JsonObject:
        """Return the options for the browser's `navigator.credentials.get`. The challenge is made
        of `about`, such as a request's digest and the decision, so that what is signed is good for
        nothing else; it is for this session, once, for five minutes.

        Raises Unauthorized for who is not signed in, InvalidRequest without a passkey.
        """

    async def check_proof(self, session: str, about: str, credential: JsonObject) -> Proof:
        """Return who agreed to `about`. Raises Unauthorized for all that does not verify, with
        another `about`, another session, or a second time; that is audited."""


# An identity provider: the place where an organisation's people sign in already.


class Provider(Protocol):
    """Signing in with an identity provider, by OpenID Connect."""

    @property
    def name(self) -> str:
        """The provider's host, for the button; "" where none is set."""

    async def begin(self, browser: str, *, address: str) -> str:
        """Return the provider's page to go to. `browser` is a secret that the browser keeps, and
        what comes back must come with. Raises Busy when an address asks too often, Unreachable when
        the provider does not answer."""

    async def finish(
        self, browser: str, answer: dict[str, str], *, address: str, device: str
    ) -> str:
        """Return a session of whom the provider names. `answer` is what its page came back with.
        Raises Unauthorized, with a sentence where the person is not known, and Unreachable."""


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
