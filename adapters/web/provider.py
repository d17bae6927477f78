"""Signing in with an identity provider: to its page, and back to one of ours.

The page that it comes back to is ours, and sends what it came with: the cookie of the browser that
began goes with our own page's calls alone, and no GET signs anybody in.
"""

from __future__ import annotations

import secrets

from aiohttp import web

from adapters.web.security import (
    Guard,
    Handler,
    VisitRefused,
    check_members,
    read_json_body,
    run_to_end,
)
from adapters.web.sign_in import SignInHandlers
from gateway.ports import Logins, name_device, parse_json

_TRY_SECONDS = 300
_ANSWER: dict[str, type] = {"code": str, "state": str, "iss": str, "error": str}


class ProviderHandlers:
    """HTTP handlers of an identity provider. Both need our own page."""

    def __init__(self, logins: Logins, guard: Guard, signing_in: SignInHandlers) -> None:
        self._provider = logins.provider
        self._guard = guard
        self._signing_in = signing_in

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("POST", "/inbox/api/login/provider", self._begin),
            ("POST", "/inbox/api/login/provider/finish", self._finish),
        ]

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        self._guard.check_origin(request)
        browser = secrets.token_urlsafe(32)
        page = await self._provider.begin(browser, address=request.remote or "")
        response = web.json_response({"page": page})
        self._guard.remember_try(response, browser, seconds=_TRY_SECONDS)
        return response

    async def _finish(self, request: web.Request) -> web.StreamResponse:
        self._guard.check_origin(request)
        answer = check_members(parse_json(await read_json_body(request)), _ANSWER, ())
        browser = self._guard.find_try(request)
        if not browser:
            raise VisitRefused(
                403, "unauthorized", "this was begun in another browser, or long ago"
            )
        finishing = self._provider.finish(
            browser,
            answer,
            address=request.remote or "",
            device=name_device(request.headers.get("User-Agent", "")),
        )
        return await self._signing_in.sign_in(request, await run_to_end(finishing))
