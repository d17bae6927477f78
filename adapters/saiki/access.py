"""Who calls: a signed-in session, as a cookie or a bearer token, and from which origin.

A page of another site can make a browser send a cookie, so with one, and on every WebSocket of a
browser, the `Origin` must be ours or one that the operator listed. A bearer token proves that its
caller holds it; only browsers send an `Origin` beside it, and theirs must fit, too.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from gateway.errors import Misconfigured
from gateway.ports import Identity, Logins

ORIGINS = "GATEWAY_SAIKI_ORIGINS"
_LONGEST_TOKEN = 512


class CallRefused(Exception):
    """The call is refused, with an HTTP status and a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(frozen=True, slots=True)
class SaikiVisitor:
    """The signed-in person and their session."""

    identity: Identity
    session: str


def read_origins() -> frozenset[str]:
    """Return the origins of `GATEWAY_SAIKI_ORIGINS`, a JSON list. Raises Misconfigured."""
    try:
        found = json.loads(os.environ.get(ORIGINS) or "[]")
        if not isinstance(found, list) or not all(map(_is_origin, found)):
            raise ValueError
    except ValueError:
        raise Misconfigured(
            f'{ORIGINS}: write a JSON list of origins, for example ["https://ui.example"]'
        ) from None
    return frozenset(found)


def _is_origin(text: object) -> bool:
    if not isinstance(text, str):
        return False
    parts = urlsplit(text)
    whole = f"{parts.scheme}://{parts.netloc}" == text and "@" not in text
    return whole and parts.scheme in ("http", "https") and bool(parts.hostname)


class Access:
    """Admits callers, and names the origins whose pages may read answers."""

    def __init__(self, logins: Logins, origins: frozenset[str], *, secure: bool) -> None:
        self.logins = logins
        self._origins = origins
        self._secure = secure

    @property
    def cookie(self) -> str:
        """The session cookie's name; browsers accept `__Host-` over TLS only."""
        return "__Host-saiki" if self._secure else "saiki"

    async def find_visitor(self, request: web.Request) -> SaikiVisitor:
        """Return who calls. Raises CallRefused: 403 for a foreign origin, 401 for nobody."""
        self.check_origin(request)
        session = _bearer(request)
        if not session:
            if "Origin" not in request.headers:
                raise CallRefused(
                    401, "send a bearer token, or an Origin beside the session cookie"
                )
            session = request.cookies.get(self.cookie, "")
        identity = await self.logins.who(session) if session else None
        if identity is None:
            raise CallRefused(401, "you are not signed in")
        return SaikiVisitor(identity, session)

    async def is_signed_in(self, visitor: SaikiVisitor) -> bool:
        """Whether a visitor is still signed in."""
        return await self.logins.who(visitor.session, prolong=False) is not None

    def check_origin(self, request: web.Request) -> None:
        """Refuse a page of an origin that is neither ours nor listed."""
        given = request.headers.getall("Origin", [])
        ours = f"{'https' if self._secure else 'http'}://{request.host}"
        if any(one != ours and one not in self._origins for one in given):
            raise CallRefused(403, f"pages of this origin may not ask; list it in {ORIGINS}")

    def headers(self, request: web.Request) -> dict[str, str]:
        """Return the headers that let a page of a listed origin read the answer."""
        origin = request.headers.get("Origin", "")
        allowed = {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Credentials": "true",
            "Access-Control-Allow-Headers": "authorization, content-type",
            "Access-Control-Allow-Methods": "POST, DELETE",
        }
        return {"Vary": "Origin", **(allowed if origin in self._origins else {})}

    def sign_in(self, response: web.Response, session: str) -> None:
        """Set the session cookie. It expires with the browser or with the session."""
        # Without TLS any program on this host name can plant cookies: `__Host-` is not to be had.
        response.set_cookie(
            self.cookie, session, httponly=True, samesite="Strict", secure=self._secure
        )

    def sign_out(self, response: web.Response) -> None:
        """Delete the session cookie."""
        response.del_cookie(self.cookie, httponly=True, samesite="Strict", secure=self._secure)


def _bearer(request: web.Request) -> str:
    given = request.headers.getall("Authorization", [])
    if not given:
        return ""
    scheme, _, token = given[0].partition(" ")
    if len(given) > 1 or scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN:
        raise CallRefused(401, "send one header: Authorization: Bearer <token>")
    return token
