"""Passkeys in the inbox: making and removing them under Devices, and signing in with one."""

from __future__ import annotations

import secrets
from dataclasses import asdict

from aiohttp import web

from adapters.web.security import (
    Guard,
    Handler,
    Visitor,
    VisitRefused,
    build_write_handler,
    check_members,
    read_json_body,
    run_to_end,
)
from adapters.web.sign_in import SignInHandlers
from gateway.ports import MOST_PASSKEYS, JsonObject, Logins, name_device, parse_json

_TRY_SECONDS = 300


class PasskeyHandlers:
    """HTTP handlers of passkeys. What begins and ends a sign-in needs our own page alone."""

    def __init__(self, logins: Logins, guard: Guard, signing_in: SignInHandlers) -> None:
        self._passkeys = logins.passkeys
        self._guard = guard
        self._signing_in = signing_in

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        begin = build_write_handler(self._guard, self._begin_adding, {})
        add = build_write_handler(self._guard, self._add, {"credential": dict}, ("credential",))
        remove = build_write_handler(self._guard, self._remove, {"id": str}, ("id",))
        return [
            ("GET", "/inbox/api/passkeys", self._list),
            ("POST", "/inbox/api/passkeys/options", begin),
            ("POST", "/inbox/api/passkeys", add),
            ("POST", "/inbox/api/passkeys/remove", remove),
            ("POST", "/inbox/api/login/passkey/options", self._begin_sign_in),
            ("POST", "/inbox/api/login/passkey", self._sign_in),
        ]

    async def _list(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.check_reader(request)
        found = await self._passkeys.list_passkeys(visitor.session)
        items = [asdict(one) for one in found]
        told = {"items": items, "problem": self._passkeys.problem, "most": MOST_PASSKEYS}
        return web.json_response(told)

    async def _begin_adding(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        return web.json_response(await self._passkeys.begin_adding(visitor.session))

    async def _add(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        device = name_device(request.headers.get("User-Agent", ""))
        await self._passkeys.add(visitor.session, body["credential"], device=device)
        return web.json_response({"ok": True})

    async def _remove(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        removed = await self._passkeys.remove(visitor.session, body["id"])
        return web.json_response({"removed": removed})

    async def _begin_sign_in(self, request: web.Request) -> web.StreamResponse:
        """Hand out a challenge, and the secret by which this browser is known again."""
        self._guard.check_origin(request)
        browser = secrets.token_urlsafe(32)
        address = request.remote or ""
        response = web.json_response(await self._passkeys.begin_sign_in(browser, address=address))
        self._guard.remember_try(response, browser, seconds=_TRY_SECONDS)
        return response

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        self._guard.check_origin(request)
        body = check_members(
            parse_json(await read_json_body(request)), {"credential": dict}, ("credential",)
        )
        browser = self._guard.find_try(request)
        if not browser:
            raise VisitRefused(
                403, "unauthorized", "this was begun in another browser, or long ago"
            )
        signing_in = self._passkeys.sign_in(
            browser,
            body["credential"],
            address=request.remote or "",
            device=name_device(request.headers.get("User-Agent", "")),
        )
        return await self._signing_in.sign_in(request, await run_to_end(signing_in))
