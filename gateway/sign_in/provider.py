"""Signing in with an identity provider: OpenID Connect, by code, with PKCE.

What a browser comes back with is good once, in the browser that began, for five minutes, and for
whoever the policy knows under the provider's word: as `oidc:VALUE` among a person's identities.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import secrets
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass, field
from importlib.util import find_spec
from time import monotonic
from typing import NoReturn
from urllib.parse import quote, urlencode, urlsplit

import aiohttp

from gateway.delivery.egress_guard import (
    Forbidden,
    Resolve,
    open_session,
    resolve_by_system,
    target_of,
)
from gateway.domain.records import Identity
from gateway.domain.redaction import bug
from gateway.domain.time_and_tasks import Clock
from gateway.domain.web_limits import BodyTooLarge, BodyTooSlow, FailureLimit, read_whole
from gateway.errors import Busy, InvalidRequest, Unauthorized, Unreachable
from gateway.stores.sign_in import RedisAttempts, RedisLogins
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject

# Calls of an identity provider: through the guard of addresses, bounded in time and size.

_SECONDS = 10.0
_MOST_BYTES = 256 * 1024
_OK = 200


class ProviderCalls:
    """Calls the hosts that the provider itself names. In production only public addresses by
    https; elsewhere http to localhost too."""

    def __init__(self, *, production: bool, resolve: Resolve = resolve_by_system) -> None:
        self._production = production
        self._resolve = resolve

    async def read(self, url: str) -> JsonObject:
        """Return what is published at an address. Raises Unreachable."""
        return await self._call("GET", url, None, None)

    async def send(
        self, url: str, form: dict[str, str], login: tuple[str, str] | None
    ) -> JsonObject:
        """Send a form, with name and secret where there are any. Raises Unreachable."""
        words = None if login is None else ":".join(quote(one, safe="") for one in login)
        basic = None if words is None else f"Basic {b64encode(words.encode()).decode()}"
        return await self._call("POST", url, form, basic)

    async def _call(
        self, method: str, url: str, form: dict[str, str] | None, basic: str | None
    ) -> JsonObject:
        try:
            target = target_of(url, allowed=(urlsplit(url).netloc,), production=self._production)
            headers = {"Accept": "application/json"} | ({"Authorization": basic} if basic else {})
            async with (
                open_session(target, self._resolve, seconds=_SECONDS) as session,
                session.request(
                    method, target.url, data=form, headers=headers, allow_redirects=False
                ) as answer,
            ):
                body = await read_whole(answer.content.iter_any(), most=_MOST_BYTES)
                if answer.status != _OK:
                    raise Unreachable(f"the identity provider answered with {answer.status}")
                found = parse(body)
        except (Forbidden, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable("the identity provider could not be asked") from error
        except (BodyTooLarge, BodyTooSlow, InvalidRequest, ValueError) as error:
            raise Unreachable("the identity provider's answer could not be read") from error
        if not isinstance(found, dict):
            raise Unreachable("the identity provider's answer could not be read")
        return found


# Verifies what an identity provider says of somebody, with the library joserfc.
#
# The library is an extra, and takes 55 ms to load: it is imported when it is first used.

log = logging.getLogger("gateway.sign_in")

_ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
"""Signatures by a key of the provider's alone: none that our secret could make, and never none."""
_LEEWAY = 60


def is_there() -> bool:
    """Whether the library is installed."""
    return find_spec("joserfc") is not None


def check_id_token(
    token: str, keys: JsonObject, *, issuer: str, client: str, nonce: str, now: int
) -> JsonObject:
    """Return what a token says, `now` in seconds. Raises Unauthorized unless the provider signed
    it, for us, for this sign-in, and lately."""
    from joserfc import jwt  # noqa: PLC0415 (see above)
    from joserfc.jwk import KeySet  # noqa: PLC0415

    try:
        known = KeySet.import_key_set(keys)  # type: ignore[arg-type] # it reads any mapping
        claims: JsonObject = jwt.decode(token, known, algorithms=[*_ALGORITHMS]).claims
        jwt.JWTClaimsRegistry(
            now=now,
            leeway=_LEEWAY,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": client},
            exp={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(claims)
    except Exception as error:
        # It takes apart what came over the network: whatever it stumbles over proves nothing.
        log.info("a word of the provider: %s", bug(error), extra={"event": "provider_refused"})
        raise Unauthorized("the identity provider's word does not verify") from error
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client:
        raise Unauthorized("the identity provider's word is for somebody else too")
    return claims


PLATFORM = "oidc"
BACK = "/inbox/login/back"
_SIGNING_IN = "oidc"
_BEGUN_OF_ADDRESS = 60  # sign-ins that an address may begin in a minute
_FRESH_SECONDS = 600.0
_WORD = re.compile(r"[a-z_]{1,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One provider, as it is set. `claim` is what of its word names a person."""

    issuer: str
    client: str
    secret: str = field(default="", repr=False)
    claim: str
    public_url: str

    @property
    def back(self) -> str:
        """Where the provider's page comes back to."""
        return self.public_url.rstrip("/") + BACK


class OpenIdProvider:
    """A `gateway.ports.Provider`; without settings there is none."""

    def __init__(
        self,
        logins: RedisLogins,
        attempts: RedisAttempts,
        clock: Clock,
        settings: ProviderSettings | None,
        calls: ProviderCalls,
    ) -> None:
        self._logins = logins
        self._attempts = attempts
        self._clock = clock
        self._settings = settings
        self._calls = calls
        self._begun = FailureLimit(now=monotonic, most=_BEGUN_OF_ADDRESS)
        self._found: tuple[float, JsonObject] = (float("-inf"), {})

    @property
    def name(self) -> str:
        """The provider's host, for the button; "" where none is set."""
        return urlsplit(self._settings.issuer).netloc if self._settings and is_there() else ""

    def _need(self) -> ProviderSettings:
        if self._settings is None or not is_there():
            raise InvalidRequest("no identity provider is set here, or the extra oidc is missing")
        return self._settings

    async def begin(self, browser: str, *, address: str) -> str:
        """Return the provider's page to go to. See `gateway.ports.Provider`."""
        settings = self._need()
        if not self._begun.count(address):
            raise Busy("too many sign-ins were begun here; try again in a minute")
        page = _text(await self._discover(settings), "authorization_endpoint")
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        kept = json.dumps({"state": state, "nonce": nonce, "verifier": verifier})
        await self._attempts.remember(_SIGNING_IN, browser, kept.encode())
        challenge = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": settings.client,
            "redirect_uri": settings.back,
            "scope": "openid email profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return f"{page}{'&' if '?' in page else '?'}{urlencode(asked)}"

    async def finish(
        self, browser: str, answer: dict[str, str], *, address: str, device: str
    ) -> str:
        """Return a session of whom the provider names. See `gateway.ports.Provider`."""
        settings = self._need()
        raw = await self._attempts.take(_SIGNING_IN, browser)
        if raw is None:
            await self._refuse(address, "this was begun in another browser, or long ago")
        began = json.loads(raw)
        if not hmac.compare_digest(answer.get("state", "").encode(), began["state"].encode()):
            await self._refuse(address, "this answers to another sign-in")
        found = await self._discover(settings)
        named = answer.get("iss")
        wants_name = found.get("authorization_response_iss_parameter_supported") is True
        if named != settings.issuer and (named is not None or wants_name):
            await self._refuse(address, "this comes from another identity provider")
        word = answer.get("error", "")
        if word or not answer.get("code"):
            told = _WORD.fullmatch(word)
            why = word if told else "an error" if word else "no code"
            await self._refuse(address, f"the identity provider refused: {why}")
        try:
            claims = await self._redeem(settings, found, answer["code"], began)
        except (Unauthorized, Unreachable) as error:
            await self._logins.note_refusal(PLATFORM, address, str(error))
            raise
        identity = await self._find_identity(settings, claims, address)
        return await self._open(identity, address=address, device=device)

    async def _redeem(
        self, settings: ProviderSettings, found: JsonObject, code: str, began: JsonObject
    ) -> JsonObject:
        """Return what the provider says of whoever the code is for."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.back,
            "code_verifier": began["verifier"],
            "client_id": settings.client,
        }
        methods = found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        login = None
        if settings.secret and "client_secret_basic" in methods:
            login = (settings.client, settings.secret)
        elif settings.secret:
            form["client_secret"] = settings.secret
        tokens = await self._calls.send(_text(found, "token_endpoint"), form, login)
        keys = await self._calls.read(_text(found, "jwks_uri"))
        return await asyncio.to_thread(
            check_id_token,
            _text(tokens, "id_token"),
            keys,
            issuer=settings.issuer,
            client=settings.client,
            nonce=began["nonce"],
            now=self._clock.now_ms() // 1000,
        )

    async def _find_identity(
        self, settings: ProviderSettings, claims: JsonObject, address: str
    ) -> Identity:
        """Return whom the provider names. An address of mail counts only where it was verified."""
        value = claims.get(settings.claim)
        if not isinstance(value, str) or not value:
            await self._refuse(address, f"the identity provider says no {settings.claim} of you")
        if settings.claim == "email":
            if claims.get("email_verified") is not True:
                await self._refuse(address, "the identity provider has not verified your email")
            # ASCII alone: other letters may turn into one of another person's address.
            value = value.encode().lower().decode()
        return Identity(platform=PLATFORM, id=value)

    async def _open(self, identity: Identity, *, address: str, device: str) -> str:
        holder = await self._logins.find_known(identity)
        if holder is None:
            await self._refuse(
                address,
                f"nobody here is known as {identity.written}: whoever runs the gateway adds that "
                "to a person's identities",
            )
        return await self._logins.open(holder, way=PLATFORM, device=device)

    async def _refuse(self, address: str, why: str) -> NoReturn:
        await self._logins.note_refusal(PLATFORM, address, why)
        raise Unauthorized(why)

    async def _discover(self, settings: ProviderSettings) -> JsonObject:
        """Return what the provider publishes of itself, as it was at most ten minutes ago."""
        read_at, found = self._found
        if monotonic() - read_at > _FRESH_SECONDS:
            url = f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._calls.read(url)
            if found.get("issuer") != settings.issuer:
                raise Unreachable("the identity provider calls itself otherwise than it is set")
            self._found = monotonic(), found
        return found


def _text(found: JsonObject, name: str) -> str:
    """Return a text that the provider must publish. Raises Unreachable."""
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise Unreachable(f"the identity provider gives no {name}")
    return value
