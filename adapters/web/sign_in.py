"""Sign people in to the inbox and out: by links, passkeys or an identity provider; list devices.
Start with SignInHandlers."""

from __future__ import annotations

import secrets
from dataclasses import asdict

from aiohttp import web

from adapters.web.live_updates import Streams
from adapters.web.security import (
    Guard,
    Handlers,
    Visitor,
    VisitRefused,
    check_members,
    read,
    read_json_body,
    route,
    write,
)
from gateway.ports import (
    MOST_PASSKEYS,
    JsonObject,
    Logins,
    SystemClock,
    name_device,
    parse_json,
    run_to_end,
)


class SignInHandlers(Handlers):
    """HTTP handlers to sign in by link and to sign out. Calls must come from the inbox's pages."""

    def __init__(self, logins: Logins, guard: Guard, streams: Streams) -> None:
        self._logins = logins
        self._guard = guard
        self._streams = streams

    @route("GET", "/inbox/api/login/ways")
    async def _ways(self, request: web.Request) -> web.StreamResponse:
        """Return the sign-in methods other than links. Needs no session."""
        self._guard.check_site(request)
        provider = self._logins.provider.name
        return web.json_response(
            {"passkeys": not self._logins.passkeys.problem, "provider": provider}
        )

    @route("POST", "/inbox/api/login/whose")
    async def _whose(self, request: web.Request) -> web.StreamResponse:
        """Return whom a link signs in, so that the person sees it before pressing the button. With
        somebody else's link, a person would decide under the wrong name."""
        code = await self._read_code(request)
        name = await self._logins.find_holder(code, address=request.remote or "")
        return web.json_response({"name": name, "now": await self._find_name(request)})

    async def _find_name(self, request: web.Request) -> str | None:
        """Return the name of the person who is already signed in in this browser."""
        session = self._guard.find_session(request)
        devices = await self._logins.list_devices(session) if session else []
        return next((one.person for one in devices if one.current), None)

    @route("POST", "/inbox/api/login")
    async def _login(self, request: web.Request) -> web.StreamResponse:
        code = await self._read_code(request)
        device = name_device(request.headers.get("User-Agent", ""))
        redeeming = self._logins.redeem(code, address=request.remote or "", device=device)
        return await self.sign_in(request, await run_to_end(redeeming))

    async def sign_in(self, request: web.Request, session: str) -> web.Response:
        """Return the response that gives a browser its new session. End the browser's old session,
        which would otherwise stay valid."""
        if before := self._guard.find_session(request):
            await run_to_end(self._end(before))
        response = web.json_response({"ok": True})
        self._guard.sign_in(request, response, session)
        return response

    async def _read_code(self, request: web.Request) -> str:
        self._guard.check_origin(request)
        body = parse_json(await read_json_body(request))
        code = body.get("code") if isinstance(body, dict) else None
        if not isinstance(code, str):
            raise VisitRefused(422, "invalid_request", "the member code is missing")
        return code

    @route("POST", "/inbox/api/logout")
    async def _logout(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.check_writer(request)
        await run_to_end(self._end(visitor.session))
        response = web.json_response({"ok": True})
        self._guard.sign_out(request, response)
        return response

    async def _end(self, session: str) -> None:
        await self._logins.end(session)
        self._streams.end(session)


# Passkeys: add and remove them on the page Devices, and sign in with one.

_TRY_SECONDS = 300


class PasskeyHandlers(Handlers):
    """HTTP handlers of passkeys. The two calls of a sign-in need no session."""

    def __init__(self, logins: Logins, guard: Guard, signing_in: SignInHandlers) -> None:
        self._passkeys = logins.passkeys
        self._guard = guard
        self._signing_in = signing_in

    @read("/inbox/api/passkeys")
    async def _list(self, _: web.Request, visitor: Visitor) -> web.Response:
        found = await self._passkeys.list_passkeys(visitor.session)
        items = [asdict(one) for one in found]
        told = {"items": items, "problem": self._passkeys.problem, "most": MOST_PASSKEYS}
        return web.json_response(told)

    @write("/inbox/api/passkeys/options", {}, auditors=True)
    async def _begin_adding(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        return web.json_response(await self._passkeys.begin_adding(visitor.session))

    @write("/inbox/api/passkeys", {"credential": dict}, auditors=True)
    async def _add(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        device = name_device(request.headers.get("User-Agent", ""))
        await self._passkeys.add(visitor.session, body["credential"], device=device)
        return web.json_response({"ok": True})

    @write("/inbox/api/passkeys/remove", {"id": str}, auditors=True)
    async def _remove(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        removed = await self._passkeys.remove(visitor.session, body["id"])
        return web.json_response({"removed": removed})

    @route("POST", "/inbox/api/login/passkey/options")
    async def _begin_sign_in(self, request: web.Request) -> web.StreamResponse:
        """Return a challenge, and set the cookie that binds the sign-in to this browser."""
        self._guard.check_origin(request)
        browser = secrets.token_urlsafe(32)
        address = request.remote or ""
        response = web.json_response(await self._passkeys.begin_sign_in(browser, address=address))
        self._guard.remember_try(request, response, browser, seconds=_TRY_SECONDS)
        return response

    @route("POST", "/inbox/api/login/passkey")
    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        self._guard.check_origin(request)
        body = check_members(
            parse_json(await read_json_body(request)), {"credential": dict}, ("credential",)
        )
        browser = self._guard.find_try(request)
        signing_in = self._passkeys.sign_in(
            browser,
            body["credential"],
            address=request.remote or "",
            device=name_device(request.headers.get("User-Agent", "")),
        )
        return await self._signing_in.sign_in(request, await run_to_end(signing_in))


# Signing in with an identity provider: to its page, and back to a page of the inbox.
#
# That page posts the provider's answer to the gateway, because a GET must sign nobody in. Only
# calls from the inbox's pages include the cookie that ties the sign-in to the browser.

_PROVIDER_TRY_SECONDS = 300
_ANSWER: dict[str, type] = {"code": str, "state": str, "iss": str, "error": str}


class ProviderHandlers(Handlers):
    """HTTP handlers of an identity provider. Calls need no session, but must come from a page of
    the inbox."""

    def __init__(self, logins: Logins, guard: Guard, signing_in: SignInHandlers) -> None:
        self._provider = logins.provider
        self._guard = guard
        self._signing_in = signing_in

    @route("POST", "/inbox/api/login/provider")
    async def _begin(self, request: web.Request) -> web.StreamResponse:
        self._guard.check_origin(request)
        browser = secrets.token_urlsafe(32)
        page = await self._provider.begin(browser, address=request.remote or "")
        response = web.json_response({"page": page})
        self._guard.remember_try(request, response, browser, seconds=_PROVIDER_TRY_SECONDS)
        return response

    @route("POST", "/inbox/api/login/provider/finish")
    async def _finish(self, request: web.Request) -> web.StreamResponse:
        self._guard.check_origin(request)
        answer = check_members(parse_json(await read_json_body(request)), _ANSWER, ())
        browser = self._guard.find_try(request)
        finishing = self._provider.finish(
            browser,
            answer,
            address=request.remote or "",
            device=name_device(request.headers.get("User-Agent", "")),
        )
        return await self._signing_in.sign_in(request, await run_to_end(finishing))


# A person's signed-in devices, and the calls that end one or all others.


class DeviceHandlers(Handlers):
    """HTTP handlers of the page Devices."""

    def __init__(self, logins: Logins, guard: Guard) -> None:
        self._logins = logins
        self._guard = guard

    @read("/inbox/api/devices")
    async def _list(self, _: web.Request, visitor: Visitor) -> web.Response:
        items = [asdict(one) for one in await self._logins.list_devices(visitor.session)]
        return web.json_response({"items": items, "now": SystemClock().now_ms()})

    @write("/inbox/api/devices/end", {"device": str, "others": bool}, needed=(), auditors=True)
    async def _end(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """End the session of one device, or of all other devices. A missing member never means
        all."""
        others, device = body.get("others") is True, body.get("device")
        if others == (device is not None):
            raise VisitRefused(
                422, "invalid_request", "send either the member device or the member others"
            )
        ids = None if device is None else (device,)
        return web.json_response({"ended": await self._logins.end_devices(visitor.session, ids)})
