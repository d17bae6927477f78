"""The inbox over HTTP: pages, the page's own small API, and its live stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from adapters.web.assets import Asset, assets
from adapters.web.blocks import CARD_CHARS, CARD_LINES, blocks_of, changes, pretty, shown
from adapters.web.guard import Guard, Refused, Visitor, csrf_token, json_body, problem
from adapters.web.view import view_of
from gateway.canonical import parse
from gateway.errors import Conflict
from gateway.models import Action, Status
from gateway.ports import Desk, Logins
from gateway.records import Click, Event, Query, Record
from gateway.wire import JsonObject

_PAGE = 50
_HEARTBEAT_SECONDS = 15.0
_MEMBERS = {
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
    "full": bool,
}
_NEEDED = {"revision", "action", "nonce"}


class Inbox:
    """The inbox's routes over a desk. `stopping` ends the live streams."""

    def __init__(
        self, desk: Desk, logins: Logins, *, secure: bool, stopping: asyncio.Event
    ) -> None:
        self._desk = desk
        self._logins = logins
        self._guard = Guard(logins, secure=secure)
        self._stopping = stopping
        self._pages = assets("templates")
        self._files = assets("static")

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, each behind the guard."""
        table = [
            ("GET", "/inbox", self._inbox),
            ("GET", "/inbox/login", self._login_page),
            ("GET", "/inbox/static/{name}", self._file),
            ("POST", "/inbox/api/login", self._login),
            ("POST", "/inbox/api/logout", self._logout),
            ("GET", "/inbox/api/me", self._me),
            ("GET", "/inbox/api/requests", self._list),
            ("GET", "/inbox/api/requests/{id}", self._show),
            ("POST", "/inbox/api/requests/{id}/decide", self._decide),
            ("POST", "/inbox/api/requests/{id}/diff", self._diff),
            ("GET", "/inbox/api/sessions", self._sessions),
            ("GET", "/inbox/api/changes", self._changes),
        ]
        return [web.route(method, path, self._guard.open(call)) for method, path, call in table]

    async def _inbox(self, request: web.Request) -> web.StreamResponse:
        return _file(self._pages["inbox.html"])

    async def _login_page(self, request: web.Request) -> web.StreamResponse:
        return _file(self._pages["login.html"])

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self._files.get(request.match_info["name"])
        if found is None:
            raise Refused(404, "not_found", "there is no such file")
        return _file(found)

    async def _login(self, request: web.Request) -> web.StreamResponse:
        self._guard.check_origin(request)
        body = parse(await json_body(request))
        code = body.get("code") if isinstance(body, dict) else None
        if not isinstance(code, str):
            raise Refused(422, "invalid_request", "code is missing")
        session = await self._logins.redeem(code)
        response = web.json_response({"ok": True})
        self._guard.sign_in(response, session)
        return response

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.writer(request)
        await self._logins.end(visitor.session)
        response = web.json_response({"ok": True})
        self._guard.sign_out(response)
        return response

    async def _me(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.reader(request)
        return web.json_response({"name": visitor.identity.id, "csrf": csrf_token(visitor.session)})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.reader(request)
        final = request.query.get("status", "pending") != "pending"
        query = Query(final=final, after=request.query.get("after"), limit=_PAGE)
        page = await self._desk.page(query)
        items = [await self._view(record, visitor, full=False) for record in page.items]
        return web.json_response({"items": items, "next": page.next})

    async def _show(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.reader(request)
        record = await self._desk.get(request.match_info["id"])
        full = request.query.get("full") == "1"
        return web.json_response(await self._view(record, visitor, full=full))

    async def _decide(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.writer(request)
        body = _decision(parse(await json_body(request)))
        request_id = request.match_info["id"]
        record = await self._desk.get(request_id)
        _check_seen(record, body)
        click = Click(
            request_id=request_id,
            revision=body["revision"],
            identity=visitor.identity,
            action=Action(body["action"]),
            nonce=body["nonce"],
            message=body.get("message", ""),
            note=body.get("note", ""),
            arguments=body.get("arguments"),
            answers=body.get("answers"),
            result=body.get("result"),
            abort=body.get("abort"),
            feedback=body.get("feedback", False),
            confirmed=body.get("confirmed", False),
        )
        try:
            after = await self._desk.decide(click)
        except Conflict as conflict:
            now = await self._view(await self._desk.get(request_id), visitor, full=False)
            return problem(409, "conflict", str(conflict), request=now)
        return web.json_response(await self._view(after, visitor, full=False))

    async def _diff(self, request: web.Request) -> web.StreamResponse:
        """Show an edit beside what was asked, before it is sent."""
        await self._guard.writer(request)
        body = parse(await json_body(request))
        if not isinstance(body, dict) or not isinstance(body.get("arguments"), dict):
            raise Refused(422, "invalid_request", "arguments must be a JSON object")
        record = await self._desk.get(request.match_info["id"])
        rows = changes(pretty(record.arguments), pretty(body["arguments"]))
        return web.json_response({"changed": rows})

    async def _sessions(self, request: web.Request) -> web.StreamResponse:
        await self._guard.reader(request)
        rows = await self._desk.sessions(None)
        items = [{"agent": row.agent, "name": row.name, "last_seen": row.last_seen} for row in rows]
        return web.json_response({"items": items})

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        """Stream the ids of requests that changed; the page reads them again."""
        await self._guard.reader(request)
        response = web.StreamResponse(
            headers={**self._guard.headers(), "Content-Type": "text/event-stream"}
        )
        async with self._desk.changes() as events:
            await response.prepare(request)
            await response.write(b"event: ready\ndata: {}\n\n")
            await self._relay(events, response)
        return response

    async def _relay(self, events: AsyncIterator[Event], response: web.StreamResponse) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        following = asyncio.ensure_future(anext(events))
        try:
            while not stopping.done():
                await asyncio.wait(
                    {stopping, following},
                    timeout=_HEARTBEAT_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not following.done():
                    await response.write(b": still here\n\n")
                    continue
                event = following.result()
                following = asyncio.ensure_future(anext(events))
                if event.request_id:
                    data = json.dumps({"id": event.request_id, "type": event.type})
                    await response.write(f"data: {data}\n\n".encode())
        except ConnectionResetError:
            return
        finally:
            stopping.cancel()
            following.cancel()
            await asyncio.gather(stopping, following, return_exceptions=True)

    async def _view(self, record: Record, visitor: Visitor, *, full: bool) -> JsonObject:
        refusal = None
        if record.status is Status.PENDING:
            refusal = await self._desk.may_decide(visitor.identity, record)
        return view_of(record, full=full, refusal=refusal)


def _file(asset: Asset) -> web.Response:
    return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8")


def _decision(body: Any) -> JsonObject:
    """Return a decision's members if they are the ones there are, each of its type."""
    if not isinstance(body, dict):
        raise Refused(422, "invalid_request", "send one JSON object")
    for name, value in body.items():
        kind = _MEMBERS.get(name)
        if kind is None or not isinstance(value, kind) or (kind is int and value is True):
            raise Refused(422, "invalid_request", f"{name[:40]} is unknown, or of another type")
    if missing := _NEEDED - set(body):
        raise Refused(422, "invalid_request", f"{sorted(missing)[0]} is missing")
    if body["action"] not in list(Action):
        raise Refused(422, "invalid_request", "there is no such action")
    return body


def _check_seen(record: Record, body: JsonObject) -> None:
    """Refuse to approve what was not shown whole."""
    if body["action"] in (Action.DENY, Action.ABORT) or body.get("full"):
        return
    if shown(blocks_of(record), full=False).long:
        raise Refused(
            409,
            "not_seen",
            f"this is longer than {CARD_LINES} lines or {CARD_CHARS} characters: "
            "open the full text before approving",
        )
