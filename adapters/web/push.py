"""Handle calls for web push, decisions on a notification, and absences; see PushHandlers."""

from __future__ import annotations

from aiohttp import web

from adapters.web.security import (
    Handlers,
    Visitor,
    VisitRefused,
    build_problem,
    check_members,
    read,
    write,
)
from gateway.errors import Unconfirmed
from gateway.models import Action
from gateway.ports import (
    Click,
    DeviceCalls,
    JsonObject,
    PushDevice,
    QuietHours,
    Subscription,
    name_device,
    plain,
)

_DECISION: dict[str, type] = {
    "id": str,
    "revision": int,
    "digest": str,
    "action": str,
    "nonce": str,
}
_QUIET: dict[str, type] = {"begin": str, "end": str, "zone": str, "high": bool}
_SUBSCRIPTION: dict[str, type] = {"endpoint": str, "keys": dict, "expirationTime": object}
_KEYS: dict[str, type] = {"p256dh": str, "auth": str}
_OFFERED = (Action.APPROVE, Action.DENY)


class PushHandlers(Handlers):
    """HTTP handlers of push devices, quiet hours, decisions on notifications, and absence."""

    @property
    def _calls(self) -> DeviceCalls:
        if self._api.devices is None:
            raise VisitRefused(404, "not_found", "push notifications are off on this gateway")
        return self._api.devices

    @read("/inbox/api/push")
    async def _list(self, _: web.Request, visitor: Visitor) -> web.Response:
        """Return the person's devices, quiet hours, and the server key for a subscription."""
        calls = self._calls
        hours = await calls.quiet(visitor.identity)
        devices = await calls.devices(visitor.identity)
        told = {
            "missing": calls.missing,
            "key": "" if calls.missing else calls.server_key(),
            "quiet": None if hours is None else plain(hours),
            "devices": [self._build_row(device, visitor) for device in devices],
        }
        return web.json_response(told)

    def _build_row(self, device: PushDevice, visitor: Visitor) -> JsonObject:
        """Return a device without its address and keys, which are secrets of the browser."""
        return {
            "id": device.id,
            "label": device.label,
            "added": device.added,
            "discreet": device.discreet,
            "failure": device.failure,
            "failed_at": device.failed_at,
            "here": self._calls.is_of(device, visitor.session),
        }

    @write("/inbox/api/push/subscribe", {"subscription": dict})
    async def _subscribe(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        given = check_members(body["subscription"], _SUBSCRIPTION, ("endpoint", "keys"))
        keys = check_members(given["keys"], _KEYS, tuple(_KEYS))
        wish = Subscription(
            endpoint=given["endpoint"],
            key=keys["p256dh"],
            auth=keys["auth"],
            label=name_device(request.headers.get("User-Agent", "")),
        )
        device = await self._calls.subscribe(visitor.identity, visitor.session, wish)
        return web.json_response(self._build_row(device, visitor))

    @write("/inbox/api/push/devices/{device}/discreet", {"on": bool})
    async def _set_discreet(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        device = request.match_info["device"]
        await self._calls.set_discreet(visitor.identity, device, on=body["on"])
        return web.json_response({"ok": True})

    @write("/inbox/api/push/devices/{device}/remove", {})
    async def _remove(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        await self._calls.remove(visitor.identity, request.match_info["device"])
        return web.json_response({"ok": True})

    @write("/inbox/api/push/devices/{device}/test", {})
    async def _test(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        await self._calls.test(visitor.identity, request.match_info["device"])
        return web.json_response({"ok": True})

    @write("/inbox/api/push/quiet", {"hours": object})
    async def _set_quiet(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        hours = body["hours"]
        if hours is not None:
            hours = QuietHours(**check_members(hours, _QUIET, tuple(_QUIET)))
        await self._calls.set_quiet(visitor.identity, hours)
        return web.json_response({"ok": True})

    @write("/inbox/api/push/decide", _DECISION)
    async def _decide(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Approve or deny exactly the revision and digest that a notification showed."""
        if body["action"] not in _OFFERED:
            raise VisitRefused(422, "invalid_request", "a notification can only approve or deny")
        action = Action(body["action"])
        await self._calls.check_answer(
            visitor.identity,
            visitor.session,
            request_id=body["id"],
            revision=body["revision"],
            digest=body["digest"],
            action=action,
        )
        click = Click(
            request_id=body["id"],
            revision=body["revision"],
            identity=visitor.identity,
            action=action,
            nonce=body["nonce"],
        )
        try:
            after = await self._api.requests.decide(click)
        except Unconfirmed as high:
            return build_problem(high.status, "unconfirmed", str(high))
        return web.json_response({"status": after.status.value})

    @read("/inbox/api/away")
    async def _find_absence(self, _: web.Request, visitor: Visitor) -> web.Response:
        """Return the person's absence as a sentence, and the people who may be named as
        delegate."""
        absence, names = await self._api.away.find(visitor.identity)
        return web.json_response({"away": absence and f"{absence}.", "names": names})

    @write("/inbox/api/away/leave", {"delegate": str, "until": int, "zone": str})
    async def _leave(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        return web.json_response({"says": await self._api.away.leave(visitor.identity, **body)})

    @write("/inbox/api/away/back", {})
    async def _back(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        return web.json_response({"says": await self._api.away.come_back(visitor.identity)})
