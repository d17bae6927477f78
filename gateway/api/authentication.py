"""Authenticate calls: check the Host header and bearer tokens, and limit failed credentials."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn

from aiohttp import web

from gateway.api.problems import TooMany, Unauthenticated, WrongHost
from gateway.domain.log_context import log_also
from gateway.domain.web_limits import FailureLimit
from gateway.errors import NotFound, Unauthorized
from gateway.ports import Credential, Credentials

CALLER = web.RequestKey("caller", str)  # the kind and name of a call's credential

log = logging.getLogger("gateway.api")

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

_TOKEN_PREFIX = "agw_"
_TOKEN_NAMES = frozenset({"token", "access_token", "api_key", "apikey", "key", "authorization"})
_LONGEST_TOKEN = 512
_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-f:.]*:[0-9a-f:.]*")  # no name ends with a number


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAccess:
    """Authenticates callers by their bearer tokens."""

    credentials: Credentials
    limit: FailureLimit

    async def authenticate(self, request: web.Request, kinds: Collection[str]) -> Credential:
        """Return the credential of the caller.

        Raises Unauthenticated for a bad token, TooMany after many of those, and Unauthorized if the
        token's kind is not in `kinds`.
        """
        token = bearer_token(request)
        found = await self.credentials.authenticate(token)
        if found is None:
            self._refuse(request)
        request[CALLER] = f"{found.kind} {found.name}"
        log_also(agent=found.name if found.kind == "agent" else "")
        if found.kind not in kinds:
            raise Unauthorized(f"this call needs a token of kind {' or '.join(sorted(kinds))}")
        return found

    async def check_unchanged(self, request: web.Request, caller: Credential) -> None:
        """Raise Unauthenticated if the token was revoked or changed during the call."""
        if await self.credentials.authenticate(bearer_token(request)) != caller:
            raise Unauthenticated("the token was revoked while the call waited")

    async def check_agent(self, name: str) -> None:
        """Raise NotFound unless an agent of this name has a credential."""
        try:
            await self.credentials.holder(name)
        except Unauthorized:
            raise NotFound(f"there is no agent named {name!r}") from None

    def check_secret(self, request: web.Request, secret: str) -> None:
        """Raise the errors of `authenticate` unless the bearer token is this secret."""
        if not hmac.compare_digest(bearer_token(request).encode(), secret.encode()):
            self._refuse(request)

    def _refuse(self, request: web.Request) -> NoReturn:
        if not self.limit.count(request.remote or ""):
            raise TooMany("too many failed credentials from this address; try again later")
        raise Unauthenticated("the token is unknown or revoked; ask an operator for a new one")


def bearer_token(request: web.Request) -> str:
    """Return the bearer token of the Authorization header. Raises Unauthenticated without one.

    Two headers are refused, because a proxy may have checked the other one.
    """
    given = request.headers.getall("Authorization", [])
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN or not token.isascii():
        raise Unauthenticated("send the token in the header: Authorization: Bearer <token>")
    return token


def check_query(request: web.Request) -> None:
    """Raise Unauthenticated if the query string has a token, because URLs are logged."""
    for name, value in request.query.items():
        if name.lower() in _TOKEN_NAMES or _TOKEN_PREFIX in value:
            log.warning("a token in a query string", extra={"event": "token_in_query"})
            raise Unauthenticated(
                "the token is in the URL, which logs record: replace the token, and send the new "
                "one in the header"
            )


def check_host(request: web.Request, allowed: Collection[str]) -> None:
    """Raise WrongHost unless the Host header names this gateway, to prevent DNS rebinding. The
    metrics may be read at any IP address."""
    named = request.headers.getall("Host", [])
    match = _AUTHORITY.fullmatch(named[0]) if len(named) == 1 else None
    host = match[1].strip("[]").lower() if match else ""
    if host not in allowed and not (request.path == "/metrics" and _ADDRESS.fullmatch(host)):
        raise WrongHost("the Host header does not name this gateway")
