"""Signing in with an identity provider: OpenID Connect, by code, with PKCE.

What a browser comes back with is good once, in the browser that began, for five minutes, and for
whoever the policy knows under the provider's word: as `oidc:VALUE` among a person's identities.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from time import monotonic
from typing import NoReturn
from urllib.parse import urlencode, urlsplit

from gateway.domain.clock import Clock
from gateway.domain.failure_limit import FailureLimit
from gateway.domain.records import Identity
from gateway.errors import Busy, InvalidRequest, Unauthorized, Unreachable
from gateway.sign_in.provider_calls import ProviderCalls
from gateway.sign_in.provider_tokens import check_id_token, is_there
from gateway.stores.attempts import RedisAttempts
from gateway.stores.browser_sessions import RedisLogins
from gateway.wire.codec import JsonObject

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
