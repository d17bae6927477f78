"""Signing in and out: a one-time link says whom it is for, and becomes a session when pressed."""

from __future__ import annotations

from aiohttp import web

from adapters.web.live_updates import Streams
from adapters.web.security import Guard, Handler, VisitRefused, read_json_body, run_to_end
from gateway.ports import Logins, name_device, parse_json


class SignInHandlers:
    """HTTP handlers of the ways in and out. None needs a session, all need our own page."""

    def __init__(self, logins: Logins, guard: Guard, streams: Streams) -> None:
        self._logins = logins
        self._guard = guard
        self._streams = streams

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/inbox/api/login/ways", self._ways),
            ("POST", "/inbox/api/login", self._login),
            ("POST", "/inbox/api/login/whose", self._whose),
            ("POST", "/inbox/api/logout", self._logout),
        ]

    async def _ways(self, request: web.Request) -> web.StreamResponse:
        """Say which ways in there are besides links, to whom is not signed in."""
        self._guard.check_site(request)
        provider = self._logins.provider.name
        return web.json_response(
            {"passkeys": not self._logins.passkeys.problem, "provider": provider}
        )

    async def _whose(self, request: web.Request) -> web.StreamResponse:
        """Say whom a link signs in, before anybody presses: a link of somebody else's would have
        a person answer under another name."""
        code = await self._read_code(request)
        name = await self._logins.find_holder(code, address=request.remote or "")
        return web.json_response({"name": name, "now": await self._find_name(request)})

    async def _find_name(self, request: web.Request) -> str | None:
        """Return who is signed in in this browser already."""
        session = request.cookies.get(self._guard.cookie, "")
        devices = await self._logins.list_devices(session) if session else []
        return next((one.person for one in devices if one.current), None)

    async def _login(self, request: web.Request) -> web.StreamResponse:
        code = await self._read_code(request)
        device = name_device(request.headers.get("User-Agent", ""))
        redeeming = self._logins.redeem(code, address=request.remote or "", device=device)
        return await self.sign_in(request, await run_to_end(redeeming))

    async def sign_in(self, request: web.Request, session: str) -> web.Response:
        """Return the answer that hands a browser its session. The one that it had ends: nobody
        could see it any more, and it would still answer."""
        if before := request.cookies.get(self._guard.cookie):
            await run_to_end(self._end(before))
        response = web.json_response({"ok": True})
        self._guard.sign_in(response, session)
        return response

    async def _read_code(self, request: web.Request) -> str:
        self._guard.check_origin(request)
        body = parse_json(await read_json_body(request))
        code = body.get("code") if isinstance(body, dict) else None
        if not isinstance(code, str):
            raise VisitRefused(422, "invalid_request", "code is missing")
        return code

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.check_writer(request)
        await run_to_end(self._end(visitor.session))
        response = web.json_response({"ok": True})
        self._guard.sign_out(response)
        return response

    async def _end(self, session: str) -> None:
        await self._logins.end(session)
        self._streams.end(session)
