"""Where somebody is signed in: their devices, and the calls that end one or all others."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from adapters.web.security import Guard, Handler, Visitor, VisitRefused, build_write_handler
from gateway.ports import Clock, JsonObject, Logins, SystemClock


class DeviceHandlers:
    """HTTP handlers of the page Devices."""

    def __init__(self, logins: Logins, guard: Guard, clock: Clock | None = None) -> None:
        self._logins = logins
        self._guard = guard
        self._clock = clock or SystemClock()

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        ending = build_write_handler(self._guard, self._end, {"device": str, "others": bool})
        return [
            ("GET", "/inbox/api/devices", self._list),
            ("POST", "/inbox/api/devices/end", ending),
        ]

    async def _list(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.check_reader(request)
        items = [asdict(one) for one in await self._logins.list_devices(visitor.session)]
        return web.json_response({"items": items, "now": self._clock.now_ms()})

    async def _end(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """End one device, or all others: never all by a member that was left out."""
        others, device = body.get("others") is True, body.get("device")
        if others == (device is not None):
            raise VisitRefused(422, "invalid_request", "name one device, or say others")
        ids = None if device is None else (device,)
        return web.json_response({"ended": await self._logins.end_devices(visitor.session, ids)})
