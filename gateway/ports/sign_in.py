"""Define how people sign in with a browser: sessions, devices, passkeys, identity provider. Start
reading at `Logins`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.records import Click, Identity, StoredRequest
from gateway.models import Action, digest_of
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, plain

# Passkeys: a device proves with a finger or a face that it holds the person's key.

MOST_PASSKEYS = 20  # limit for one person


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """One passkey of a person. `words` names the browser that created it. Times are in ms since the
    epoch; `used` is 0 before the first use."""

    id: str
    words: str
    made: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Proof that a person agreed to one action with a passkey. `words` name the browser that
    created the passkey."""

    identity: Identity
    passkey: str
    words: str = ""


Prove = Callable[[str], Awaitable[Proof]]
"""Verify that the clicking person agreed to this subject with a passkey. Raises Unauthorized."""


def subject_of(record: StoredRequest, click: Click) -> str:
    """Return the text that a passkey signs: one decision on one revision of a request. It includes
    the exact call, all messages and the grant. A different decision needs a new assertion."""
    edits = click.action is Action.EDIT and click.arguments is not None
    digest = digest_of(record.request, click.arguments) if edits else record.digest
    parts = (click.answers, click.result, click.message, click.note, click.remember)
    said = canonical([plain(part) for part in (*parts, click.abort, click.feedback)])
    return f"{click.action} {record.id} {click.revision} {digest} {sha256_hex(said)}"


class Passkeys(Protocol):
    """Sign in with a passkey, or agree to one action with it (extra verification)."""

    @property
    def problem(self) -> str:
        """A sentence that says why passkeys are unavailable, or ""."""

    async def list_passkeys(self, session: str) -> list[Passkey]:
        """Return the passkeys of the session's person, newest last."""

    async def begin_adding(self, session: str) -> JsonObject:
        """Return the options for the browser's `navigator.credentials.create`."""

    async def add(self, session: str, credential: JsonObject, *, device: str) -> None:
        """Save a passkey for the session's person. Raises Unauthorized if it does not verify, and
        Conflict if they have MOST_PASSKEYS."""

    async def remove(self, session: str, passkey: str) -> bool:
        """Delete a passkey of the session's person. Return whether it existed."""

    async def begin_sign_in(self, browser: str, *, address: str) -> JsonObject:
        """Return the options for signing in. `browser` is a secret stored in the browser; `sign_in`
        needs it too. Raises Busy if an address asks too often."""

    async def sign_in(
        self, browser: str, credential: JsonObject, *, address: str, device: str
    ) -> str:
        """Return a session for the owner of the passkey. Raises Unauthorized, and Busy after too
        many failures."""

    async def begin_proof(self, session: str, about: str) -> JsonObject:
        """Return the options for the browser's `navigator.credentials.get`. The challenge contains
        `about`, such as a request's digest and the decision. It works once, in this session, for
        five minutes.

        Raises Unauthorized without a session, InvalidRequest without a passkey.
        """

    async def check_proof(self, session: str, about: str, credential: JsonObject) -> Proof:
        """Return the proof that a person agreed to `about`. Raises Unauthorized if it does not
        verify, is used again, or belongs to another session or `about`. Failures are audited."""


# Identity provider: the organisation's existing sign-in.


class Provider(Protocol):
    """Sign in with an identity provider, by OpenID Connect."""

    @property
    def name(self) -> str:
        """The host of the provider, shown on the button; "" if none is set."""

    async def begin(self, browser: str, *, address: str) -> str:
        """Return the address of the provider's page. `browser` is a secret stored in the browser;
        `finish` needs it too. Raises Busy if an address asks too often, Unreachable if the provider
        does not answer."""

    async def finish(
        self, browser: str, answer: dict[str, str], *, address: str, device: str
    ) -> str:
        """Return a session for the person whom the provider names. `answer` are the parameters of
        the redirect. Raises Unauthorized, with a sentence if the person is unknown, and
        Unreachable."""


IDLE_SECONDS = 7 * 86_400
"""A session ends after this time without use."""
LONGEST_SECONDS = 30 * 86_400
"""A session ends after this time, even if it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One browser with a session. `words` names the browser and system, `way` is the sign-in
    method. Times are in ms since the epoch. `id` is not a secret, and nobody can sign in with
    it."""

    id: str
    person: str
    words: str
    way: str
    made: int
    used: int
    ends: int
    current: bool = False


CHAT_LINK_SECONDS = 300
"""How long a sign-in link works that a person requested in a chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLink:
    """A link that signs `name` in once within `minutes`. Show it only to them."""

    url: str
    name: str
    minutes: int


class LoginLinks(Protocol):
    """Create sign-in links for people whom a chat platform has verified."""

    async def make(self, identity: Identity, *, request_id: str = "") -> LoginLink:
        """Return a sign-in link to the inbox, or to a request in it. The audit log records this.

        Raises Unauthorized if neither the policy nor a route names the identity. Raises Busy if the
        identity asks too often, and InvalidRequest if the inbox has no address.
        """


class Logins(Protocol):
    """Browser sessions: exchange a login code for a session, and a session for an identity."""

    @property
    def passkeys(self) -> Passkeys:
        """Sign-in with passkeys."""

    @property
    def provider(self) -> Provider:
        """Sign-in with an identity provider."""

    async def find_holder(self, code: str, *, address: str) -> str:
        """Return the person whom a one-time login code signs in, without using it. Raises the
        errors of `redeem`."""

    async def redeem(self, code: str, *, address: str, device: str = "") -> str:
        """Use a one-time login code and return a session token. `device` names the browser
        (`name_device`). Raises Unauthorized, and Busy after too many wrong codes, from this address
        or in total."""

    async def who(self, session: str, *, prolong: bool = True) -> Identity | None:
        """Return the identity of a session, or None if it ended. Pass `prolong=False` for
        background requests, so that they do not extend the session."""

    async def end(self, session: str) -> None:
        """End the session: the person signs out."""

    async def list_devices(self, session: str) -> list[Device]:
        """Return the devices where the session's person is signed in, last used first."""

    async def end_devices(self, session: str, ids: tuple[str, ...] | None = None) -> int:
        """End the sessions on the devices with these IDs, which must belong to the session's
        person. With None, end all their sessions except this one. Return how many ended."""
