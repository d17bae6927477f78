"""Protect the inbox: response headers, sessions, CSRF protection and body limits; start with Guard.

A page of another site can make a browser send requests here. So each write needs three things that
such a page cannot forge: the session cookie (SameSite=Strict), the gateway's `Origin`, and a token
that only the inbox's pages can read. The token is derived from the session, not stored.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

from aiohttp import web

from gateway.errors import GatewayError
from gateway.ports import (
    AUDITOR,
    LONGEST_SECONDS,
    AdapterApi,
    BodyTooLarge,
    BodyTooSlow,
    Identity,
    JsonObject,
    Logins,
    Person,
    parse_json,
    read_whole,
    run_to_end,
)

CSRF_HEADER = "X-CSRF-Token"
MAX_BODY = 512 * 1024  # bytes of one decision, edited arguments included

FindPerson = Callable[[Identity], Awaitable[Person | None]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class VisitRefused(Exception):
    """The inbox refuses the request, with an HTTP status, a code and a text for people."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


@dataclass(frozen=True, slots=True)
class Visitor:
    """The signed-in person and their session."""

    identity: Identity
    session: str


class Guard:
    """Checks requests and adds the security headers to responses."""

    def __init__(self, logins: Logins, find_person: FindPerson, *, secure: bool) -> None:
        self._logins = logins
        self._find_person = find_person
        self._secure = secure

    def find_session(self, request: web.Request) -> str:
        """Return the session from the browser's cookie, or "" if the browser has no such cookie."""
        return request.cookies.get(self._cookie(request)["name"], "")

    def wrap(self, handler: Handler) -> Handler:
        """Wrap a handler: add security headers, and return errors as problem documents."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = await self._call_handler(handler, request)
            if not response.prepared:
                response.headers.update(self.headers())
            return response

        return answer

    async def is_signed_in(self, visitor: Visitor) -> bool:
        """Whether a visitor is still signed in."""
        return await self._logins.who(visitor.session, prolong=False) is not None

    def headers(self) -> dict[str, str]:
        """Return the security headers of every response."""
        if not self._secure:
            return HEADERS
        return {**HEADERS, "Strict-Transport-Security": "max-age=31536000"}

    def check_site(self, request: web.Request) -> None:
        """Raise VisitRefused for a read from another site's page."""
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise VisitRefused(
                403, "foreign_site", "only a page of the inbox may read this address"
            )

    def check_origin(self, request: web.Request) -> None:
        """Raise VisitRefused unless the write comes from a page of the inbox."""
        if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise VisitRefused(403, "foreign_site", "only a page of the inbox may send this")
        ours = f"{'https' if self._is_secure(request) else 'http'}://{request.host}"
        if request.headers.get("Origin") != ours:
            raise VisitRefused(403, "foreign_origin", f"the Origin header is not {ours}")

    def check_token(self, request: web.Request, visitor: Visitor) -> None:
        """Raise VisitRefused for a write without the CSRF token."""
        given = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode(), build_csrf_token(visitor.session).encode()):
            raise VisitRefused(403, "csrf", f"the {CSRF_HEADER} header is missing or wrong")

    async def find_visitor(self, request: web.Request) -> Visitor:
        """Return the signed-in visitor. Raises VisitRefused (401) if nobody is signed in."""
        session = self.find_session(request)
        identity = await self._logins.who(session) if session else None
        if identity is None:
            raise VisitRefused(401, "signed_out", "you are not signed in")
        return Visitor(identity, session)

    async def check_reader(self, request: web.Request) -> Visitor:
        """Check a read, and return its visitor. Raises VisitRefused."""
        self.check_site(request)
        return await self.find_visitor(request)

    async def check_writer(self, request: web.Request) -> Visitor:
        """Check a write, and return its visitor. Raises VisitRefused."""
        self.check_origin(request)
        visitor = await self.find_visitor(request)
        self.check_token(request, visitor)
        return visitor

    async def refuse_auditor(self, visitor: Visitor) -> None:
        """Raise VisitRefused for an auditor."""
        person = await self._find_person(visitor.identity)
        if person and person.auditor:
            raise VisitRefused(403, "unauthorized", AUDITOR)

    def sign_in(self, request: web.Request, response: web.Response, session: str) -> None:
        """Set the session cookie. It outlives the browser, because phones close browsers often. The
        gateway itself ends the session."""
        response.set_cookie(**self._cookie(request), value=session, max_age=LONGEST_SECONDS)

    def remember_try(
        self, request: web.Request, response: web.Response, browser: str, *, seconds: int
    ) -> None:
        """Set the cookie, for this number of seconds, that binds a sign-in to the browser that
        began it."""
        response.set_cookie(**self._cookie(request, "-try"), value=browser, max_age=seconds)

    def find_try(self, request: web.Request) -> str:
        """Return the cookie that binds a sign-in to this browser. Raises VisitRefused if it is
        missing."""
        if found := request.cookies.get(self._cookie(request, "-try")["name"]):
            return found
        raise VisitRefused(
            403,
            "unauthorized",
            "you started this sign-in in another browser, or it has expired; sign in again",
        )

    def sign_out(self, request: web.Request, response: web.Response) -> None:
        """Delete the session cookie."""
        response.del_cookie(**self._cookie(request))

    def _is_secure(self, request: web.Request) -> bool:
        """Whether this browser uses TLS; with `gateway up --lan`, browsers can connect with or
        without it."""
        return self._secure or request.secure

    def _cookie(self, request: web.Request, kind: str = "") -> JsonObject:
        """Return the name and attributes of a cookie. Browsers accept `__Host-` only over TLS."""
        common = {"httponly": True, "samesite": "Strict"}
        if self._is_secure(request):  # `__Host-` needs Path=/
            return {**common, "name": f"__Host-agw{kind}", "secure": True, "path": "/"}
        # Without TLS, any program on this host name can plant cookies. The narrower path at least
        # keeps these cookies from its other pages.
        return {**common, "name": f"agw{kind}", "path": "/inbox"}

    async def _call_handler(self, handler: Handler, request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except VisitRefused as refused:
            return build_problem(refused.status, refused.code, refused.detail)
        except GatewayError as error:
            return build_problem(error.status, error.code, str(error))


async def read_json_body(request: web.Request) -> bytes:
    """Read the JSON body of a write, at most MAX_BODY bytes. Raises VisitRefused."""
    if request.content_type != "application/json":
        raise VisitRefused(415, "content_type", "send application/json")
    try:
        return await read_whole(request.content.iter_any(), most=MAX_BODY)
    except BodyTooLarge:
        raise VisitRefused(413, "too_large", f"the body has more than {MAX_BODY} bytes") from None
    except BodyTooSlow:
        raise VisitRefused(408, "timeout", "the body did not arrive in time") from None


def build_csrf_token(session: str) -> str:
    """Return the CSRF token of a session; only pages that can read the API know it."""
    return hmac.new(session.encode(), b"inbox csrf", hashlib.sha256).hexdigest()


def build_seen_token(
    session: str, request_id: str, revision: int, *, revealed: bool = False
) -> str:
    """Return the token that a page gets with a complete request, for this revision.

    Approval requires it, so nobody can approve a request that was cut or never loaded. With
    `revealed`, the token differs and says that secrets were shown too.
    """
    shown = f"{'revealed' if revealed else 'seen'} {request_id} {revision}"
    return hmac.new(session.encode(), shown.encode(), hashlib.sha256).hexdigest()


def refuse_unseen(visitor: Visitor, request_id: str, revision: int, given: object) -> bool:
    """Raise VisitRefused if the page did not show the complete request; return whether secrets were
    revealed."""
    if given == build_seen_token(visitor.session, request_id, revision, revealed=True):
        return True
    if given != build_seen_token(visitor.session, request_id, revision):
        raise VisitRefused(
            409,
            "not_seen",
            "you have seen only a part of the request: open everything, and reveal masked values "
            "if the page says so, before you approve",
        )
    return False


def build_problem(status: int, code: str, detail: str, **more: object) -> web.Response:
    """Return an RFC 9457 problem document; `more` are extension members."""
    members = {"type": "about:blank", "title": code, "status": status, "code": code}
    return web.json_response(
        {**members, "detail": detail, **more},
        status=status,
        content_type="application/problem+json",
    )


Method = Callable[[Any, web.Request], Awaitable[web.StreamResponse]]
Reading = Callable[[Any, web.Request, Visitor], Awaitable[web.Response]]
Writing = Callable[[Any, web.Request, Visitor, JsonObject], Coroutine[Any, Any, web.Response]]

_ROUTES: dict[Method, tuple[str, str]] = {}


class Handlers:
    """Base class of HTTP handlers: methods marked with `read`, `write` or `route`."""

    _guard: Guard

    def __init__(self, api: AdapterApi, guard: Guard) -> None:
        self._api = api
        self._guard = guard

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return the HTTP method, path and handler of each marked method."""
        own = [one for one in vars(type(self)).values() if isinstance(one, FunctionType)]
        return [(*_ROUTES[one], partial(one, self)) for one in own if one in _ROUTES]


def route(method: str, path: str) -> Callable[[Method], Method]:
    """Serve a method of `Handlers` at a path, without checks. The method must check the caller."""

    def mark(work: Method) -> Method:
        _ROUTES[work] = method, path
        return work

    return mark


def read(path: str) -> Callable[[Reading], Method]:
    """Serve a method of `Handlers` at a path, for GET by signed-in people."""

    def mark(work: Reading) -> Method:
        async def serve(self: Any, request: web.Request) -> web.StreamResponse:
            return await work(self, request, await self._guard.check_reader(request))

        return route("GET", path)(serve)

    return mark


def write(
    path: str,
    members: dict[str, type],
    *,
    needed: tuple[str, ...] | None = None,
    auditors: bool = False,
) -> Callable[[Writing], Method]:
    """Serve a method of `Handlers` at a path, for POST, after checks of visitor and body.

    `members` are the known members and their types. All are required, unless `needed` lists some.
    With `auditors`, auditors may call it too: it changes only the caller's own sign-in, or nothing.
    """
    wanted = tuple(members) if needed is None else needed

    def mark(work: Writing) -> Method:
        async def serve(self: Any, request: web.Request) -> web.StreamResponse:
            visitor = await self._guard.check_writer(request)
            if not auditors:
                await self._guard.refuse_auditor(visitor)
            body = check_members(parse_json(await read_json_body(request)), members, wanted)
            return await run_to_end(work(self, request, visitor, body))

        return route("POST", path)(serve)

    return mark


def check_members(body: Any, members: dict[str, type], needed: tuple[str, ...]) -> JsonObject:
    """Check and return a JSON object. Raises VisitRefused for members that are unknown, missing or
    of another type."""
    if not isinstance(body, dict):
        raise VisitRefused(422, "invalid_request", "send one JSON object")
    for name, value in body.items():
        kind = members.get(name)
        if kind is None or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise VisitRefused(
                422,
                "invalid_request",
                f"{name[:40]} is not a known member, or its value has the wrong type",
            )
    for name in needed:
        if name not in body:
            raise VisitRefused(422, "invalid_request", f"the member {name} is missing")
    return body
