"""What people do in the inbox: decide, compare an edit, claim, reveal, end a session."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from adapters.web.guard import (
    Guard,
    Handler,
    Refused,
    Visitor,
    finished,
    problem,
    seen_token,
)
from adapters.web.members import checked, written
from adapters.web.reading import Reading
from adapters.web.view import changes_of
from gateway.blocks import changes
from gateway.drawing import made
from gateway.errors import Conflict
from gateway.models import Action
from gateway.ports import Desk
from gateway.records import Click, Remember
from gateway.wire import JsonObject

_DECISION: dict[str, type] = {
    "revision": int,
    "action": str,
    "nonce": str,
    "message": str,
    "note": str,
    "arguments": dict,
    "answers": dict,
    "result": object,
    "abort": str,
    "feedback": bool,
    "confirmed": bool,
    "seen": str,
    "remember": dict,
}
_REMEMBER: dict[str, type] = {"offer": str, "everywhere": bool, "lifetime": str}
_NEEDED = ("revision", "action", "nonce")
_UNSEEN = (Action.DENY, Action.ABORT)  # no is always possible

Work = Callable[[web.Request, Visitor, JsonObject], Coroutine[Any, Any, web.Response]]


class Decisions:
    """The writes of the inbox over a desk."""

    def __init__(self, desk: Desk, guard: Guard, reading: Reading) -> None:
        self._desk = desk
        self._guard = guard
        self._reading = reading

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        one = "/inbox/api/requests/{id}"
        return [
            ("POST", f"{one}/decide", self._write(self._decide, _DECISION, _NEEDED)),
            ("POST", f"{one}/diff", self._write(self._diff, {"arguments": dict}, ("arguments",))),
            ("POST", f"{one}/claim", self._write(self._claim, {"on": bool}, ("on",))),
            ("POST", f"{one}/reveal", self._write(self._reveal, {}, ())),
            ("POST", "/inbox/api/sessions/end", self._write(self._end, *_SESSION)),
            ("POST", "/inbox/api/agents/lift", self._write(self._lift, {"agent": str}, ("agent",))),
        ]

    def _write(self, work: Work, members: dict[str, type], needed: tuple[str, ...]) -> Handler:
        """Return a handler that checks who writes, and what, before it does the work."""

        async def serve(request: web.Request) -> web.StreamResponse:
            visitor = await self._guard.writer(request)
            body = checked(await written(request), members, needed)
            return await finished(work(request, visitor, body))

        return serve

    async def _decide(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        request_id = request.match_info["id"]
        click = _click(request_id, visitor, body)
        try:
            after = await self._desk.decide(click)
        except Conflict as conflict:
            now = await self._reading.row(await self._desk.get(request_id), visitor)
            return problem(409, conflict.code, str(conflict), request=now)
        return web.json_response(await self._reading.row(after, visitor))

    async def _diff(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Show an edit beside what was asked, before it is sent."""
        record = await self._desk.get(request.match_info["id"])
        before, after = record.arguments, body["arguments"]
        rows = await made(lambda: changes_of(changes(before, after)), before, after)
        return web.json_response({"changed": rows})

    async def _claim(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        request_id = request.match_info["id"]
        record = await self._desk.claim(request_id, visitor.identity, on=body["on"])
        return web.json_response(await self._reading.row(record, visitor))

    async def _reveal(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        """Show the secrets; the desk writes down who saw them."""
        record = await self._desk.reveal(request.match_info["id"], visitor.identity)
        return web.json_response(await self._reading.whole(record, visitor, reveal=True))

    async def _end(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        ids = await self._desk.end_session(body["agent"], body["session"], visitor.identity)
        return web.json_response({"cancelled": len(ids)})

    async def _lift(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        await self._desk.lift(body["agent"], visitor.identity)
        return web.json_response({"ok": True})


_SESSION: tuple[dict[str, type], tuple[str, ...]] = (
    {"agent": str, "session": str},
    ("agent", "session"),
)


def _click(request_id: str, visitor: Visitor, body: JsonObject) -> Click:
    """Return the click that a body asks for; refuses a yes to what was not shown whole."""
    if body["action"] not in list(Action):
        raise Refused(422, "invalid_request", "there is no such action")
    action = Action(body["action"])
    seen = seen_token(visitor.session, request_id, body["revision"])
    if action not in _UNSEEN and body.get("seen") != seen:
        raise Refused(409, "not_seen", "open everything before you approve: only a part was shown")
    remember = body.get("remember")
    if remember is not None:
        checked(remember, _REMEMBER, tuple(_REMEMBER))
    return Click(
        request_id=request_id,
        revision=body["revision"],
        identity=visitor.identity,
        action=action,
        nonce=body["nonce"],
        message=body.get("message", ""),
        note=body.get("note", ""),
        arguments=body.get("arguments"),
        answers=body.get("answers"),
        result=body.get("result"),
        abort=body.get("abort"),
        feedback=body.get("feedback", False),
        confirmed=body.get("confirmed", False),
        remember=Remember(**remember) if remember is not None else None,
    )
