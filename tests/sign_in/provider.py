"""An identity provider on loopback, strict about PKCE, codes and addresses, whose word is bent."""

from __future__ import annotations

import hashlib
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "approvals", "a secret / with signs:"


@dataclass
class Provider:
    """One provider with one client. `claims` are what it says of whoever comes."""

    issuer: str = ""
    back: str = ""
    claims: dict[str, Any] = field(
        default_factory=lambda: {"sub": "7", "email": "Ann@Example.org", "email_verified": True}
    )
    bent: dict[str, Any] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    asked: dict[str, dict[str, str]] = field(default_factory=dict)
    tried: int = 0
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The claims about each subject that has a refresh token; without them, it is refused."""
    refreshes: dict[str, str] = field(default_factory=dict)

    def agree(self, page: str) -> dict[str, str]:
        """Do what somebody does who signs in there; return what they come back with."""
        parts = urlsplit(page)
        assert page.startswith(f"{self.issuer}/auth?")
        asked = {name: value[0] for name, value in parse_qs(parts.query).items()}
        assert asked["redirect_uri"] == self.back
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.asked[code] = asked
        return {"code": code, "state": asked["state"], "iss": self.issuer}

    async def _configuration(self, request: web.Request) -> web.Response:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/auth",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "authorization_response_iss_parameter_supported": True,
        }
        return web.json_response(found | self.bent.get("configuration", {}))

    async def _jwks(self, request: web.Request) -> web.Response:
        return web.json_response({"keys": [self.key.as_dict(private=False)]})

    async def _auth(self, request: web.Request) -> web.Response:
        """Sign in whoever comes with a browser, without asking."""
        back = self.agree(f"{self.issuer}/auth?{request.query_string}")
        raise web.HTTPFound(f"{self.back}?{urlencode(back)}")

    async def _token(self, request: web.Request) -> web.Response:
        self.tried += 1
        form = {name: str(value) for name, value in (await request.post()).items()}
        if form["grant_type"] == "refresh_token":
            return self._renew(request, form)
        asked = self.asked.pop(form.get("code", ""), None)
        words = f"{CLIENT}:a%20secret%20%2F%20with%20signs%3A".encode()
        known = request.headers.get("Authorization") == f"Basic {b64encode(words).decode()}"
        if asked is None or not known or form["redirect_uri"] != asked["redirect_uri"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        verified = hashlib.sha256(form["code_verifier"].encode()).digest()
        if urlsafe_b64encode(verified).decode().rstrip("=") != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.clock_gettime(time.CLOCK_REALTIME))
        told = {"iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now}
        told |= {"nonce": asked["nonce"], **self.claims, **self.bent.get("claims", {})}
        subject = str(told.get("sub"))
        self.accounts[subject] = dict(self.claims)
        more = {} if self.bent.get("no refresh") else {"refresh_token": self._make_refresh(subject)}
        return web.json_response(self._sign(told) | more)

    def _make_refresh(self, subject: str) -> str:
        refresh = secrets.token_urlsafe(16)
        self.refreshes[refresh] = subject
        return refresh

    def _sign(self, told: dict[str, Any]) -> dict[str, Any]:
        told = {name: value for name, value in told.items() if value is not None}
        key, header = self.bent.get("key", self.key), {"alg": "RS256", "kid": "one"}
        token = self.bent.get("token") or jwt.encode(header, told, key)
        return {"id_token": token, "access_token": "x", "token_type": "Bearer"}

    def _renew(self, request: web.Request, form: dict[str, str]) -> web.Response:
        """Take a refresh token once, as providers with rotation do."""
        if status := self.bent.get("status"):
            return web.json_response({"error": "temporarily_unavailable"}, status=status)
        subject = self.refreshes.pop(form["refresh_token"], "")
        if subject not in self.accounts or "Authorization" not in request.headers:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.clock_gettime(time.CLOCK_REALTIME))
        told = {"iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now}
        told |= {**self.accounts[subject], **self.bent.get("renewed", {})}
        answer = self._sign(told) | {"refresh_token": self._make_refresh(subject)}
        if self.bent.get("no token"):
            del answer["id_token"]
        return web.json_response(answer)


@asynccontextmanager
async def providing(back: str) -> AsyncIterator[Provider]:
    """Run a provider that leads back to this address."""
    made = Provider(back=back)
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", made._configuration)
    app.router.add_get("/jwks", made._jwks)
    app.router.add_get("/auth", made._auth)
    app.router.add_post("/token", made._token)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.issuer = f"http://localhost:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()
