"""What every answer of the inbox carries, and what every request must prove.

A page of another site can make a browser send requests here, so each write needs three things it
cannot forge: the session cookie (SameSite=Strict), our own `Origin`, and a token in a header that
only our page can read. The token is derived from the session, so nothing is stored for it.
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from gateway.errors import GatewayError
from gateway.ports import BodyTooLarge, BodyTooSlow, Identity, JsonObject, Logins, read_whole

log = logging.getLogger("adapters.web")

CSRF_HEADER = "X-CSRF-Token"
MAX_BODY = 512 * 1024  # bytes of one decision, edited arguments included

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Refused(Exception):
    """The browser's request is turned away: HTTP status, a code for scripts, words for people."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who is signed in, and the session that says so."""

    identity: Identity
    session: str


class Guard:
    """Checks the browser's requests and signs the answers with the security headers."""

    def __init__(self, logins: Logins, *, secure: bool) -> None:
        self._logins = logins
        self._secure = secure

    @property
    def cookie(self) -> str:
        """The session cookie's name; browsers accept `__Host-` from TLS alone."""
        return "__Host-agw" if self._secure else "agw"

    def open(self, handler: Handler) -> Handler:
        """Return the handler with the security headers, and errors told as problem documents."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = await self._call_handler(handler, request)
            if not response.prepared:
                response.headers.update(self.headers())
            return response

        return answer

    async def still(self, visitor: Visitor) -> bool:
        """Whether a visitor is still signed in."""
        return await self._logins.who(visitor.session) is not None

    def headers(self) -> dict[str, str]:
        """Return the headers of every answer."""
        if not self._secure:
            return HEADERS
        return {**HEADERS, "Strict-Transport-Security": "max-age=31536000"}

    def check_site(self, request: web.Request) -> None:
        """Refuse a read that another site's page asked for."""
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Refused(403, "foreign_site", "this can be asked for from the inbox alone")

    def check_origin(self, request: web.Request) -> None:
        """Refuse a write that our own page did not send."""
        if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise Refused(403, "foreign_site", "this can be sent from the inbox alone")
        ours = f"{'https' if self._secure else 'http'}://{request.host}"
        if request.headers.get("Origin") != ours:
            raise Refused(403, "foreign_origin", f"the Origin header is not {ours}")

    def check_token(self, request: web.Request, visitor: Visitor) -> None:
        """Refuse a write without the token that only our page can read."""
        given = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode(), csrf_token(visitor.session).encode()):
            raise Refused(403, "csrf", f"the {CSRF_HEADER} header is missing or wrong")

    async def visitor(self, request: web.Request) -> Visitor:
        """Return who is signed in; refuses with 401 when nobody is."""
        session = request.cookies.get(self.cookie, "")
        identity = await self._logins.who(session) if session else None
        if identity is None:
            raise Refused(401, "signed_out", "you are not signed in")
        return Visitor(identity, session)

    async def reader(self, request: web.Request) -> Visitor:
        """Return who reads."""
        self.check_site(request)
        return await self.visitor(request)

    async def writer(self, request: web.Request) -> Visitor:
        """Return who writes."""
        self.check_origin(request)
        visitor = await self.visitor(request)
        self.check_token(request, visitor)
        return visitor

    def sign_in(self, response: web.Response, session: str) -> None:
        """Give the browser its session; it ends with the browser or on the gateway's side."""
        response.set_cookie(
            self.cookie, session, httponly=True, samesite="Strict", **self._cookie_scope()
        )

    def sign_out(self, response: web.Response) -> None:
        """Take the session away from the browser."""
        response.del_cookie(self.cookie, httponly=True, samesite="Strict", **self._cookie_scope())

    def _cookie_scope(self) -> JsonObject:
        # `__Host-` needs Path=/. Without TLS any program on this host name can plant cookies, so
        # the narrower path at least keeps ours away from what else is served there.
        return {"secure": True, "path": "/"} if self._secure else {"path": "/inbox"}

    async def _call_handler(self, handler: Handler, request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refused as refused:
            return problem(refused.status, refused.code, refused.detail)
        except GatewayError as error:
            return problem(error.status, error.code, str(error))


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Let a write come to its end also when the browser hangs up in the middle."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            # Nobody is left to be told.
            log.warning("a write failed: %r", error, extra={"event": "write_unheard"})
        raise


async def json_body(request: web.Request) -> bytes:
    """Return the JSON bytes of a write, at most MAX_BODY."""
    if request.content_type != "application/json":
        raise Refused(415, "content_type", "send application/json")
    try:
        return await read_whole(request.content.iter_any(), most=MAX_BODY)
    except BodyTooLarge:
        raise Refused(413, "too_large", f"more than {MAX_BODY} bytes") from None
    except BodyTooSlow:
        raise Refused(408, "timeout", "the body did not arrive in time") from None


def csrf_token(session: str) -> str:
    """Return the token that proves a write came from a page that could read the session's API."""
    return hmac.new(session.encode(), b"inbox csrf", hashlib.sha256).hexdigest()


def seen_token(session: str, request_id: str, revision: int, *, revealed: bool = False) -> str:
    """Return what the page gets with a request that it shows whole, at this revision.

    Approving needs it: what was cut, or never fetched, was not seen. Another one tells that nothing
    was masked.
    """
    shown = f"{'revealed' if revealed else 'seen'} {request_id} {revision}"
    return hmac.new(session.encode(), shown.encode(), hashlib.sha256).hexdigest()


def refuse_unseen(visitor: Visitor, request_id: str, revision: int, given: object) -> bool:
    """Refuse a yes to what was not shown whole, at this revision; return if it was revealed."""
    if given == seen_token(visitor.session, request_id, revision, revealed=True):
        return True
    if given != seen_token(visitor.session, request_id, revision):
        raise Refused(
            409,
            "not_seen",
            "open everything, and reveal what is masked where the page says so, before you "
            "approve: only a part was shown",
        )
    return False


def problem(status: int, code: str, detail: str, **more: object) -> web.Response:
    """Return an RFC 9457 problem document; `more` are extension members."""
    members = {"type": "about:blank", "title": code, "status": status, "code": code}
    return web.json_response(
        {**members, "detail": detail, **more},
        status=status,
        content_type="application/problem+json",
    )
