"""Create and check passkeys, for signing in and for confirming a decision; start at
`PersonPasskeys`.

A challenge is stored for one browser and one purpose, and is valid once and for five minutes. A
passkey is looked up among those of the person who must be proven, and rejected unless that person
is still in the policy.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import logging
import secrets
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from time import monotonic
from typing import NamedTuple, NoReturn
from urllib.parse import urlsplit

from gateway.domain.redaction import bug
from gateway.domain.time_and_tasks import Clock
from gateway.domain.web_limits import FailureLimit
from gateway.errors import Busy, Conflict, InvalidRequest, Unauthorized
from gateway.ports.sign_in import Passkey, Proof
from gateway.stores.sign_in import Holder, KeptPasskey, RedisAttempts, RedisLogins, RedisPasskeys
from gateway.wire.codec import JsonObject

# Makes passkey options for browsers and verifies their responses with the library webauthn.
#
# The library is an extra and takes 80 ms to load, so it is imported at its first use.

log = logging.getLogger("gateway.sign_in")

_SITE = "Approvals"
_TIMEOUT_MS = 300_000
_MOST_BYTES = 4096  # of an id and a key; authenticators need a fraction of it


@dataclass(frozen=True, slots=True)
class PasskeySite:
    """The site of passkeys: the host name, and the exact origin that browsers send."""

    host: str
    origin: str


class Made(NamedTuple):
    """A new passkey: its id, its public key, and the signature count that its device reports."""

    id: bytes
    key: bytes
    signed: int


def find_site(public_url: str | None) -> PasskeySite | str:
    """Return the site for passkeys, or a sentence that says why passkeys cannot be used.

    The site comes only from the settings, because an HTTP request could name any host.
    """
    if find_spec("webauthn") is None:
        extra = "approval-gateway[passkeys]"
        return f"Passkeys need an extra. Install the gateway as before, with this extra: {extra}."
    if public_url is None:
        return "Passkeys need GATEWAY_PUBLIC_URL, the address at which browsers open the inbox."
    parts = urlsplit(public_url)
    host = (parts.hostname or "").lower()
    if _is_address(host):
        return (
            "Passkeys need a host name in GATEWAY_PUBLIC_URL: browsers make none for an IP address."
        )
    if parts.scheme != "https" and host != "localhost" and not host.endswith(".localhost"):
        return "Passkeys need HTTPS: GATEWAY_PUBLIC_URL does not begin with https."
    usual = {"https": 443, "http": 80}[parts.scheme]
    port = "" if parts.port in (None, usual) else f":{parts.port}"
    return PasskeySite(host, f"{parts.scheme}://{host}{port}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def offer_creation(
    site: PasskeySite, *, challenge: bytes, handle: bytes, name: str, known: Sequence[bytes]
) -> JsonObject:
    """Return the options to create a passkey on a device that has none of the `known` passkeys.

    The device must verify its user, and the passkey must work without a user name.
    """
    from webauthn import generate_registration_options  # noqa: PLC0415 (see above)
    from webauthn.helpers import options_to_json_dict  # noqa: PLC0415
    from webauthn.helpers.structs import (  # noqa: PLC0415
        AuthenticatorSelectionCriteria,
        PublicKeyCredentialDescriptor,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    options = generate_registration_options(
        rp_id=site.host,
        rp_name=_SITE,
        user_id=handle,
        user_name=name,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
    )
    found: JsonObject = options_to_json_dict(options)
    return found


def offer_assertion(
    site: PasskeySite, *, challenge: bytes, known: Sequence[bytes] = ()
) -> JsonObject:
    """Return the options to sign a challenge with one of the `known` passkeys, or with any
    passkey."""
    from webauthn import generate_authentication_options  # noqa: PLC0415 (see above)
    from webauthn.helpers import options_to_json_dict  # noqa: PLC0415
    from webauthn.helpers.structs import (  # noqa: PLC0415
        PublicKeyCredentialDescriptor,
        UserVerificationRequirement,
    )

    options = generate_authentication_options(
        rp_id=site.host,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        allow_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    found: JsonObject = options_to_json_dict(options)
    return found


def _refuse_embedded(credential: JsonObject) -> None:
    """Raise Unauthorized for a response made in a page inside another site's page. The gateway's
    pages are never embedded, and the library does not check that."""
    from webauthn.helpers import base64url_to_bytes, parse_client_data_json  # noqa: PLC0415

    client = base64url_to_bytes(credential["response"]["clientDataJSON"])
    if parse_client_data_json(client).cross_origin or "topOrigin" in json.loads(client):
        raise Unauthorized("the passkey response was made inside the page of another site")


def check_creation(site: PasskeySite, credential: JsonObject, challenge: bytes) -> Made:
    """Return a new passkey. Raises Unauthorized if it cannot be verified."""
    from webauthn import verify_registration_response  # noqa: PLC0415 (see above)

    try:
        _refuse_embedded(credential)
        found = verify_registration_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except Exception as error:
        # The input may come from anybody, so any error in reading it means that nothing is proven.
        log.info("a new passkey: %s", bug(error), extra={"event": "passkey_refused"})
        raise Unauthorized("this passkey could not be verified") from error
    made = Made(found.credential_id, found.credential_public_key, found.sign_count)
    if len(made.id) + len(made.key) > _MOST_BYTES:
        raise Unauthorized("this passkey is too large")
    return made


def check_assertion(
    site: PasskeySite, credential: JsonObject, *, challenge: bytes, key: bytes, count: int
) -> int:
    """Return the signature count that the passkey's device reports.

    Raises Unauthorized for a wrong challenge, origin or key, for a user whom the device did not
    verify, and for a count that does not grow.
    """
    from webauthn import verify_authentication_response  # noqa: PLC0415 (see above)

    try:
        _refuse_embedded(credential)
        return verify_authentication_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            credential_public_key=key,
            credential_current_sign_count=count,
            require_user_verification=True,
        ).new_sign_count
    except Exception as error:
        # As above.
        log.info("a passkey: %s", bug(error), extra={"event": "passkey_refused"})
        raise Unauthorized("this passkey was not accepted") from error


_ADDING, _SIGNING_IN, _PROVING = "add", "sign in", "prove"
_BEGUN_OF_ADDRESS = 60  # sign-ins that one address may begin per minute
_REFUSED = "this passkey was not accepted"


class PersonPasskeys:
    """A `gateway.ports.Passkeys`. The site for passkeys comes from `public_url`."""

    def __init__(
        self,
        logins: RedisLogins,
        kept: RedisPasskeys,
        attempts: RedisAttempts,
        clock: Clock,
        public_url: str | None,
    ) -> None:
        self._logins = logins
        self._kept = kept
        self._attempts = attempts
        self._clock = clock
        self._site = find_site(public_url)
        self._begun = FailureLimit(now=monotonic, most=_BEGUN_OF_ADDRESS)
        self._wrong = FailureLimit(now=monotonic)

    @property
    def problem(self) -> str:
        """Why passkeys are off, as a sentence, or ""."""
        return self._site if isinstance(self._site, str) else ""

    def _find_site(self) -> PasskeySite:
        if isinstance(self._site, str):
            raise InvalidRequest(self._site)
        return self._site

    async def _find_holder(self, session: str) -> Holder:
        holder = await self._logins.holder_of(session)
        if holder is None:
            raise Unauthorized("you are not signed in")
        return holder

    async def _load(self, holder: Holder) -> list[KeptPasskey]:
        return await self._kept.load(await self._kept.stand(), holder.name)

    async def list_passkeys(self, session: str) -> list[Passkey]:
        """Return the passkeys of the person who owns the session, with the newest last."""
        found = await self._load(await self._find_holder(session))
        return [Passkey(id=one.id, words=one.words, made=one.made, used=one.used) for one in found]

    async def begin_adding(self, session: str) -> JsonObject:
        """Return the options to create a passkey. See `gateway.ports.Passkeys`."""
        site, holder = self._find_site(), await self._find_holder(session)
        challenge, known = secrets.token_bytes(32), await self._load(holder)
        await self._attempts.remember(_ADDING, session, challenge)
        return await asyncio.to_thread(
            offer_creation,
            site,
            challenge=challenge,
            handle=self._handle(holder.name),
            name=holder.name,
            known=_read_ids(known),
        )

    async def add(self, session: str, credential: JsonObject, *, device: str) -> None:
        """Save a passkey for the person who owns the session. See `gateway.ports.Passkeys`."""
        site, holder = self._find_site(), await self._find_holder(session)
        challenge = await self._attempts.take(_ADDING, session)
        try:
            if challenge is None:
                raise Unauthorized("this took too long, or is already done; start again")
            made = await asyncio.to_thread(check_creation, site, credential, challenge)
        except Unauthorized as error:
            await self._logins.note_refusal("new passkey", holder.name, str(error))
            raise
        passkey = KeptPasskey(
            id=_write(made.id),
            key=b64encode(made.key).decode(),
            words=device,
            made=self._clock.now_ms(),
            holder=holder,
            count=made.signed,
        )
        if passkey.id in [one.id for one in await self._load(holder)]:
            raise Conflict("you have already added this passkey")
        kept = await self._kept.keep(passkey)
        # Checked after saving, so that of two people who add it at once, each finds the other.
        if await self._kept.is_anothers(kept):
            await self._kept.forget(kept)
            await self._logins.note_refusal(
                "new passkey", holder.name, "the passkey belongs to another person"
            )
            raise Conflict(
                "this passkey belongs to another person; create a passkey on your own device"
            )
        await self._kept.note("passkey_added", data=_describe(passkey, by=holder.name))

    async def remove(self, session: str, passkey: str) -> bool:
        """Delete a passkey of the person who owns the session; return whether it existed."""
        holder = await self._find_holder(session)
        found = next((one for one in await self._load(holder) if one.id == passkey), None)
        if found is None or not await self._kept.forget(found):
            return False
        data = _describe(found, by=holder.name)
        await self._kept.note("passkey_removed", data=data, urgent=True)
        return True

    async def begin_sign_in(self, browser: str, *, address: str) -> JsonObject:
        """Return the options for signing in. See `gateway.ports.Passkeys`."""
        site = self._find_site()
        if not self._begun.count(address):
            raise Busy("too many sign-ins were started here; try again in a minute")
        challenge = secrets.token_bytes(32)
        await self._attempts.remember(_SIGNING_IN, browser, challenge)
        return await asyncio.to_thread(offer_assertion, site, challenge=challenge)

    async def sign_in(
        self, browser: str, credential: JsonObject, *, address: str, device: str
    ) -> str:
        """Sign in the passkey's owner, and return the session. See `gateway.ports.Passkeys`."""
        self._find_site()
        challenge = await self._attempts.take(_SIGNING_IN, browser)
        if challenge is None:
            await self._refuse(address, "this browser has no open challenge", counts=True)
        name = await self._find_name(_read_text(credential, "response", "userHandle"))
        passkey = await self._find_passkey(name, credential)
        if passkey is None:
            await self._refuse(address, "unknown passkey", counts=True)
        if not await self._check(passkey, credential, challenge):
            await self._refuse(address, f"it does not verify as one of {name}", counts=True)
        return await self._logins.open(passkey.holder, way="passkey", device=device)

    async def begin_proof(self, session: str, about: str) -> JsonObject:
        """Return the options to confirm `about`. See `gateway.ports.Passkeys`."""
        site, holder = self._find_site(), await self._find_holder(session)
        known = await self._load(holder)
        if not known:
            raise InvalidRequest("you have no passkey; create a passkey under Devices first")
        nonce = secrets.token_bytes(32)
        await self._attempts.remember(_PROVING, f"{session}\0{about}", nonce)
        challenge = challenge_of(nonce, about)
        return await asyncio.to_thread(
            offer_assertion, site, challenge=challenge, known=_read_ids(known)
        )

    async def check_proof(self, session: str, about: str, credential: JsonObject) -> Proof:
        """Return the person who confirmed `about`. See `gateway.ports.Passkeys`."""
        self._find_site()
        holder = await self._find_holder(session)
        nonce = await self._attempts.take(_PROVING, f"{session}\0{about}")
        if nonce is None:
            await self._refuse(holder.name, "this session has no open challenge")
        passkey = await self._find_passkey(holder.name, credential)
        if passkey is None:
            await self._refuse(holder.name, f"no passkey of {holder.name}")
        if not await self._check(passkey, credential, challenge_of(nonce, about)):
            await self._refuse(holder.name, "it does not verify")
        return Proof(identity=holder.identity, passkey=passkey.id, words=passkey.words)

    async def _check(self, passkey: KeptPasskey, credential: JsonObject, challenge: bytes) -> bool:
        """Return whether a passkey signed this challenge, with a higher count than before."""
        try:
            count = await asyncio.to_thread(
                check_assertion,
                self._find_site(),
                credential,
                challenge=challenge,
                key=b64decode(passkey.key),
                count=passkey.count,
            )
        except Unauthorized:
            return False
        return await self._kept.count_use(passkey, count)

    async def _refuse(self, address: str, why: str, *, counts: bool = False) -> NoReturn:
        if counts and not self._wrong.count(address):
            raise Busy("too many failed passkey attempts; try again in a minute")
        await self._logins.note_refusal("passkey", address, why)
        raise Unauthorized(_REFUSED)

    async def _find_name(self, handle: str) -> str:
        """Return the name of the person whose passkeys have this user handle, or "" if nobody has
        it."""
        names = (await self._kept.stand()).list_names()
        return next((one for one in names if _write(self._handle(one)) == handle), "")

    async def _find_passkey(self, name: str, credential: JsonObject) -> KeptPasskey | None:
        wanted = _read_text(credential, "id")
        if not name or not wanted:
            return None
        found = await self._kept.load(await self._kept.stand(), name)
        return next((one for one in found if one.id == wanted), None)

    def _handle(self, name: str) -> bytes:
        """Return the user handle of a person's passkeys, which does not reveal the name."""
        return hashlib.sha256(f"passkeys\0{self._kept.namespace}\0{name}".encode()).digest()


def challenge_of(nonce: bytes, about: str) -> bytes:
    """Return the challenge that a passkey must sign to confirm exactly one thing."""
    return hashlib.sha256(b"agw passkey proof\0" + nonce + b"\0" + about.encode()).digest()


def _describe(passkey: KeptPasskey, *, by: str) -> JsonObject:
    """Return the audit data of a passkey."""
    name = passkey.holder.name
    return {"person": name, "by": by, "on": passkey.words, "passkey": passkey.id[:12]}


def _read_ids(passkeys: Sequence[KeptPasskey]) -> list[bytes]:
    return [urlsafe_b64decode(one.id + "=" * (-len(one.id) % 4)) for one in passkeys]


def _write(value: bytes) -> str:
    """Return bytes in base64url, which browsers use."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def _read_text(found: object, *path: str) -> str:
    """Return a string in data from a browser, or "" if it is missing."""
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""
