"""Sign in with an identity provider: OpenID Connect with authorization code and PKCE.

The provider's response is valid once, for five minutes, in the browser that began the sign-in. The
response signs in the person with the identity `oidc:VALUE`, where VALUE is that of the configured
claim.
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
from gateway.sign_in.members import PLATFORM, GroupMembers, identity_of
from gateway.stores.sign_in import Holder, RedisAttempts, RedisLogins
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject

# Calls to an identity provider: with the egress guard, limited in time and size.

_SECONDS = 10.0
_MOST_BYTES = 256 * 1024
_OK, _REJECTED = 200, 400


class Rejected(Unreachable):
    """The provider answered that a code or token is not valid (any more)."""


class ProviderCalls:
    """Calls the URLs that the provider publishes. In production, calls only public addresses with
    https; otherwise also localhost with http."""

    def __init__(self, *, production: bool, resolve: Resolve = resolve_by_system) -> None:
        self._production = production
        self._resolve = resolve

    async def read(self, url: str) -> JsonObject:
        """Return the JSON object at a URL. Raises Unreachable."""
        return await self._call("GET", url, None, None)

    async def send(
        self, url: str, form: dict[str, str], login: tuple[str, str] | None
    ) -> JsonObject:
        """Post a form, with HTTP login data if given, and return the JSON response. Raises
        Unreachable."""
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
                    refused = Rejected if answer.status == _REJECTED else Unreachable
                    raise refused(f"the identity provider returned status {answer.status}")
                found = parse(body)
        except (Forbidden, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable("the identity provider could not be reached") from error
        except (BodyTooLarge, BodyTooSlow, InvalidRequest, ValueError) as error:
            raise Unreachable("the identity provider's response could not be read") from error
        if not isinstance(found, dict):
            raise Unreachable("the identity provider's response could not be read")
        return found


# Verifies ID tokens with the library joserfc.
#
# The library is an extra and takes 55 ms to load, so it is imported at its first use.

log = logging.getLogger("gateway.sign_in")

_ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
"""Only signatures by the provider's private key; none made with the shared secret, or missing."""
_LEEWAY = 60


def is_there() -> bool:
    """Whether the library for OpenID Connect is installed."""
    return find_spec("joserfc") is not None


def check_id_token(
    token: str, keys: JsonObject, *, issuer: str, client: str, nonce: str | None, now: int
) -> JsonObject:
    """Return the claims in a token; `now` is in seconds. Raises Unauthorized unless the provider
    signed it recently, for this gateway and this sign-in. A renewed token has no `nonce`."""
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
            nonce={} if nonce is None else {"essential": True, "value": nonce},
        ).validate(claims)
    except Exception as error:
        # The input came over the network, so any error in reading it means that nothing is proven.
        log.info("an ID token was rejected: %s", bug(error), extra={"event": "provider_refused"})
        raise Unauthorized("the identity provider sent a token that is not valid") from error
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client:
        raise Unauthorized(
            "the identity provider's token is also valid for another client, so it is rejected"
        )
    return claims


BACK = "/inbox/login/back"
_SIGNING_IN = "oidc"
_BEGUN_OF_ADDRESS = 60  # sign-ins that one address may begin per minute
_FRESH_SECONDS = 600.0
_CHECK_SECONDS = 5.0
_SCOPES = ("offline_access", "groups")
_WORD = re.compile(r"[a-z_]{1,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """The configured provider. `claim` is the ID-token claim that identifies a person."""

    issuer: str
    client: str
    secret: str = field(default="", repr=False)
    claim: str
    public_url: str

    @property
    def back(self) -> str:
        """The URL to which the provider returns the browser."""
        return self.public_url.rstrip("/") + BACK


class OpenIdProvider:
    """A `gateway.ports.Provider`, which is off if it has no settings."""

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
        self.members = GroupMembers(logins.members)
        self._begun = FailureLimit(now=monotonic, most=_BEGUN_OF_ADDRESS)
        self._found: tuple[float, JsonObject] = (float("-inf"), {})

    @property
    def name(self) -> str:
        """The provider's host, for the sign-in button; "" if the provider is off."""
        return urlsplit(self._settings.issuer).netloc if self._settings and is_there() else ""

    def _need(self) -> ProviderSettings:
        if self._settings is None or not is_there():
            raise InvalidRequest("no identity provider is configured, or the extra oidc is missing")
        return self._settings

    async def begin(self, browser: str, *, address: str) -> str:
        """Return the URL of the provider's page to open. See `gateway.ports.Provider`."""
        settings = self._need()
        if not self._begun.count(address):
            raise Busy("too many sign-ins were started here; try again in a minute")
        found = await self._discover(settings)
        page = _text(found, "authorization_endpoint")
        policy = await self._logins.members.policy()
        offered = found.get("scopes_supported") if policy.groups_claim else None
        more = [one for one in _SCOPES if isinstance(offered, list) and one in offered]
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        kept = json.dumps({"state": state, "nonce": nonce, "verifier": verifier})
        await self._attempts.remember(_SIGNING_IN, browser, kept.encode())
        challenge = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": settings.client,
            "redirect_uri": settings.back,
            "scope": " ".join(("openid email profile", *more)),
            "state": state,
            "nonce": nonce,
            "code_challenge": urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return f"{page}{'&' if '?' in page else '?'}{urlencode(asked)}"

    async def finish(
        self, browser: str, answer: dict[str, str], *, address: str, device: str
    ) -> str:
        """Sign in the person whom the provider identified, and return the session. See
        `gateway.ports.Provider`."""
        settings = self._need()
        raw = await self._attempts.take(_SIGNING_IN, browser)
        if raw is None:
            await self._refuse(
                address, "you started this sign-in in another browser, or too long ago; start again"
            )
        began = json.loads(raw)
        if not hmac.compare_digest(answer.get("state", "").encode(), began["state"].encode()):
            await self._refuse(address, "this response belongs to a different sign-in; start again")
        found = await self._discover(settings)
        named = answer.get("iss")
        wants_name = found.get("authorization_response_iss_parameter_supported") is True
        if named != settings.issuer and (named is not None or wants_name):
            await self._refuse(address, "this response comes from a different identity provider")
        word = answer.get("error", "")
        if word or not answer.get("code"):
            told = _WORD.fullmatch(word)
            why = word if told else "an error" if word else "no code"
            await self._refuse(address, f"the identity provider refused the sign-in: {why}")
        try:
            claims, refresh = await self._redeem(settings, found, answer["code"], began)
        except (Unauthorized, Unreachable) as error:
            await self._logins.note_refusal(PLATFORM, address, str(error))
            raise
        identity = await self._find_identity(settings, claims, address)
        holder = await self._logins.find_known(identity)
        if holder is None and (await self._logins.members.policy()).groups_claim:
            holder = await self._join(settings, claims, refresh, address)
        if holder is None:
            await self._refuse(
                address,
                f"nobody here has the identity {identity.written}: the person who runs the gateway "
                "can add it to a person's identities",
            )
        return await self._logins.open(holder, way=PLATFORM, device=device)

    async def _join(
        self, settings: ProviderSettings, claims: JsonObject, refresh: str, address: str
    ) -> Holder | None:
        """Add a person whom only their groups admit. Their account must be known by the subject, so
        that nobody is both a listed person and a member."""
        try:
            _check_groups(settings)
            identity = identity_of(settings.issuer, claims)
            await self.members.join(identity, claims, refresh)
        except Unauthorized as error:
            await self._refuse(address, str(error))
        return await self._logins.find_known(identity)

    async def confirm_members(self) -> None:
        """Ask the provider about each group member again and again, until cancelled."""
        while True:
            await self.members.check(self.renew)
            await asyncio.sleep(_CHECK_SECONDS)

    async def renew(self, refresh: str) -> tuple[JsonObject, str]:
        """Exchange a refresh token. See `gateway.sign_in.members.Renew`."""
        settings = self._need()
        _check_groups(settings)
        found = await self._discover(settings)
        form = {"grant_type": "refresh_token", "refresh_token": refresh}
        try:
            return await self._ask_tokens(settings, found, form, None)
        except Rejected as error:
            raise Unauthorized("the identity provider no longer confirms the sign-in") from error

    async def _redeem(
        self, settings: ProviderSettings, found: JsonObject, code: str, began: JsonObject
    ) -> tuple[JsonObject, str]:
        """Exchange the authorization code for the claims about the person and a refresh token."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.back,
            "code_verifier": began["verifier"],
        }
        return await self._ask_tokens(settings, found, form, began["nonce"])

    async def _ask_tokens(
        self, settings: ProviderSettings, found: JsonObject, form: dict[str, str], nonce: str | None
    ) -> tuple[JsonObject, str]:
        """Return the claims of the ID token for a grant, and the refresh token or ""."""
        form = {**form, "client_id": settings.client}
        methods = found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        login = None
        if settings.secret and "client_secret_basic" in methods:
            login = (settings.client, settings.secret)
        elif settings.secret:
            form["client_secret"] = settings.secret
        tokens = await self._calls.send(_text(found, "token_endpoint"), form, login)
        if nonce is None and "id_token" not in tokens:
            raise Unauthorized("the identity provider renews a sign-in without an ID token")
        keys = await self._calls.read(_text(found, "jwks_uri"))
        claims = await asyncio.to_thread(
            check_id_token,
            _text(tokens, "id_token"),
            keys,
            issuer=settings.issuer,
            client=settings.client,
            nonce=nonce,
            now=self._clock.now_ms() // 1000,
        )
        refresh = tokens.get("refresh_token")
        return claims, refresh if isinstance(refresh, str) else ""

    async def _find_identity(
        self, settings: ProviderSettings, claims: JsonObject, address: str
    ) -> Identity:
        """Return the identity in the claims; an email address must be verified by the provider."""
        value = claims.get(settings.claim)
        if not isinstance(value, str) or not value:
            await self._refuse(
                address, f"the identity provider sent no claim {settings.claim!r} about you"
            )
        if value.startswith(f"{settings.issuer}#"):
            await self._refuse(address, "the identity provider named a group member, not you")
        if settings.claim == "email":
            if claims.get("email_verified") is not True:
                await self._refuse(address, "the identity provider has not verified your email")
            # Only ASCII: lower-casing other letters may produce another person's address.
            value = value.encode().lower().decode()
        return Identity(platform=PLATFORM, id=value)

    async def _refuse(self, address: str, why: str) -> NoReturn:
        await self._logins.note_refusal(PLATFORM, address, why)
        raise Unauthorized(why)

    async def _discover(self, settings: ProviderSettings) -> JsonObject:
        """Return the provider's published configuration, cached for ten minutes."""
        read_at, found = self._found
        if monotonic() - read_at > _FRESH_SECONDS:
            url = f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._calls.read(url)
            if found.get("issuer") != settings.issuer:
                raise Unreachable("the identity provider's issuer differs from GATEWAY_OIDC_ISSUER")
            self._found = monotonic(), found
        return found


def _check_groups(settings: ProviderSettings) -> None:
    """Raise Unauthorized if these settings could mistake a group member for another person."""
    if settings.claim != "sub" or not settings.secret:
        raise Unauthorized(
            "groups need GATEWAY_OIDC_CLAIM=sub and GATEWAY_OIDC_CLIENT_SECRET: ask the person who "
            "runs the gateway"
        )


def _text(found: JsonObject, name: str) -> str:
    """Return a string that the provider must publish. Raises Unreachable if it is missing."""
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise Unreachable(f"the identity provider does not publish {name}")
    return value
