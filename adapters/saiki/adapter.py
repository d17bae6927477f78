"""The adapter: the document's addresses on the gateway's web server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from adapters.saiki.access import Access, CallRefused, read_origins
from adapters.saiki.answers import decide, read_answer
from adapters.saiki.configuration import add_command
from adapters.saiki.live import Sockets, finish
from gateway.errors import GatewayError
from gateway.ports import (
    BodyTooLarge,
    BodyTooSlow,
    Desk,
    Logins,
    name_device,
    parse_json,
    read_whole,
)

PATH, LOGIN = "/api/tool-confirmation", "/api/tool-confirmation-login"
_MOST_BODY = 16 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SaikiAdapter:
    """Serves a WebSocket and POST for custom user interfaces."""

    name = "saiki"

    def __init__(self) -> None:
        self._sockets: list[Sockets] = []

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        """Check the settings; the web server serves the routes."""
        read_origins()
        yield

    def routes(self, desk: Desk, logins: Logins, *, secure: bool) -> list[web.RouteDef]:
        """Return the routes. `secure`: browsers reach the gateway over TLS."""
        pages = Pages(desk, Access(logins, read_origins(), secure=secure))
        self._sockets.append(pages.sockets)
        return pages.routes()

    def end_streams(self) -> None:
        """End the connections, so that the web server can stop."""
        for sockets in self._sockets:
            sockets.end_all()

    def commands(self, verbs: Any) -> None:
        """Add `gateway policy saiki`."""
        add_command(verbs)


class Pages:
    """The handlers of the routes."""

    def __init__(self, desk: Desk, access: Access) -> None:
        self._desk = desk
        self._access = access
        self.sockets = Sockets(desk, access)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, each with refusals as JSON."""
        one = f"{PATH}/{{executionId}}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", PATH, self.sockets.serve),
            ("POST", one, self._decide),
            ("POST", LOGIN, self._login),
            ("DELETE", LOGIN, self._logout),
            ("OPTIONS", one, self._preflight),
            ("OPTIONS", LOGIN, self._preflight),
        ]
        return [web.route(method, path, self._guard(call)) for method, path, call in table]

    def _guard(self, call: Handler) -> Handler:
        async def serve(request: web.Request) -> web.StreamResponse:
            try:
                response = await call(request)
            except CallRefused as refusal:
                response = web.json_response({"error": refusal.why}, status=refusal.status)
            except GatewayError as error:
                response = web.json_response({"error": str(error)}, status=error.status)
            if not response.prepared:
                response.headers.update(self._access.headers(request))
            return response

        return serve

    async def _decide(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._access.find_visitor(request)
        body = await _read_body(request)
        named = request.match_info["executionId"]
        if body.setdefault("executionId", named) != named:
            raise CallRefused(422, "executionId is another one than that of the address")
        return web.json_response(await finish(decide(self._desk, visitor, read_answer(body))))

    async def _login(self, request: web.Request) -> web.StreamResponse:
        self._access.check_origin(request)
        code = (await _read_body(request)).get("code")
        if not isinstance(code, str):
            raise CallRefused(422, "code is missing")
        session = await finish(
            self._access.logins.redeem(
                code,
                address=request.remote or "",
                device=name_device(request.headers.get("User-Agent", "")),
            )
        )
        response = web.json_response({"token": session})
        self._access.sign_in(response, session)
        return response

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._access.find_visitor(request)
        await finish(self._access.logins.end(visitor.session))
        self.sockets.end(visitor.session)
        response = web.json_response({"success": True})
        self._access.sign_out(response)
        return response

    async def _preflight(self, request: web.Request) -> web.StreamResponse:
        self._access.check_origin(request)
        return web.Response(status=204)


async def _read_body(request: web.Request) -> dict[str, Any]:
    if request.content_type != "application/json":
        raise CallRefused(415, "send application/json")
    try:
        body = parse_json(await read_whole(request.content.iter_any(), most=_MOST_BODY))
    except BodyTooLarge:
        raise CallRefused(413, f"more than {_MOST_BODY} bytes") from None
    except BodyTooSlow:
        raise CallRefused(408, "the body did not arrive in time") from None
    if not isinstance(body, dict):
        raise CallRefused(422, "send one JSON object")
    return body
