"""Read calls of the inbox: requests as rows or in full, sessions, the signed-in person, and the
report for admins on how people decide.
"""

from __future__ import annotations

from aiohttp import web

from adapters.web.card_json import (
    Viewer,
    add_viewer,
    build_line,
    build_row,
    build_switch,
    build_whole,
)
from adapters.web.rows import Rows
from adapters.web.security import (
    Guard,
    Handler,
    Visitor,
    build_csrf_token,
    build_seen_token,
)
from gateway.ports import (
    ANOTHER_PLAN,
    DENIALS,
    LIFETIMES_BY_LENGTH,
    PASS_LIFETIME_WORDS,
    ROLES_ON_CARDS,
    USUAL_LIFETIME,
    Desk,
    JsonObject,
    Record,
    draw,
    plain,
    render_safe,
    weight_of,
)


class ReadHandlers:
    """HTTP handlers of requests, sessions and the signed-in person."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard
        self._rows = Rows(build_row)

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/inbox/api/me", self._me),
            ("GET", "/inbox/api/requests/{id}", self._one),
            ("GET", "/inbox/api/requests/{id}/reach", self._reach),
            ("GET", "/inbox/api/sessions", self._sessions),
        ]

    async def build_row(self, record: Record, visitor: Visitor) -> JsonObject:
        """Return a request as a row of the list."""
        return await self._for_visitor(await self._rows.build(record), record, visitor)

    async def build_whole(
        self, record: Record, visitor: Visitor, *, reveal: bool = False
    ) -> JsonObject:
        """Return everything about a request."""
        view = await draw(lambda: build_whole(record, reveal=reveal), *weight_of(record))
        return await self._for_visitor(view, record, visitor)

    async def _me(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.check_reader(request)
        person = await self._desk.requests.person(visitor.identity)
        told = {
            "name": await self._find_name(visitor),
            "csrf": build_csrf_token(visitor.session),
            "lifetimes": LIFETIMES_BY_LENGTH,
            "usual": USUAL_LIFETIME,
            "roles": ROLES_ON_CARDS,
            "another_plan": ANOTHER_PLAN,
            "denials": DENIALS,
            "pass_lifetimes": {
                name: words
                for name, words in LIFETIMES_BY_LENGTH.items()
                if name in PASS_LIFETIME_WORDS
            },
            "admin": person is not None and person.admin,
            "switch": build_switch(await self._desk.operator.kill_switch()),
            "troubles": await self._desk.operator.list_troubles(visitor.identity),
        }
        return web.json_response(told)

    async def _one(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.check_reader(request)
        record = await self._desk.requests.get(request.match_info["id"])
        if request.query.get("whole") == "1":
            return web.json_response(await self.build_whole(record, visitor))
        return web.json_response(await self.build_row(record, visitor))

    async def _for_visitor(self, view: JsonObject, record: Record, visitor: Visitor) -> JsonObject:
        look = await self._find_viewer(record, visitor)
        mine = await self._desk.queue.is_mine(record, visitor.identity)
        return {**_add_seen_token(add_viewer(view, record, look), visitor), "mine": mine}

    async def _reach(self, request: web.Request) -> web.StreamResponse:
        """Return how many recent requests an offer to remember would have covered."""
        await self._guard.check_reader(request)
        offer = request.query.get("offer", "")
        words = await self._desk.requests.reach(request.match_info["id"], offer)
        return web.json_response({"words": words})

    async def _sessions(self, request: web.Request) -> web.StreamResponse:
        await self._guard.check_reader(request)
        rows = await self._desk.sessions.open(None)
        items = [
            {
                "agent": row.agent,
                "name": row.name,
                "shown": build_line(render_safe(row.name).segments),
                "last_seen": row.last_seen,
            }
            for row in rows
        ]
        stopped = [
            {
                "agent": one.agent,
                "name": "",
                "shown": "asks nobody: people denied too much of it in a row",
                "last_seen": one.until,
                "paused": True,
            }
            for one in await self._desk.operator.list_paused()
        ]
        return web.json_response({"items": [*stopped, *items]})

    async def _find_name(self, visitor: Visitor) -> str:
        person = await self._desk.requests.person(visitor.identity)
        return person.name if person else visitor.identity.written

    async def _find_viewer(self, record: Record, visitor: Visitor) -> Viewer:
        name = await self._find_name(visitor)
        if record.final:
            return Viewer(name=name)
        requests, who = self._desk.requests, visitor.identity
        refusal = await requests.may_decide(who, record)
        return Viewer(name=name, refusal=refusal, may_pass=await requests.may_pass(who, record))


def _add_seen_token(view: JsonObject, visitor: Visitor) -> JsonObject:
    """Add the token that approval requires, if the request is shown whole."""
    whole = view["status"] == "pending" and view["complete"] and not view["hides"]
    revealed = bool(view.get("revealed"))
    seen = (
        build_seen_token(visitor.session, view["id"], view["revision"], revealed=revealed)
        if whole
        else None
    )
    return {**view, "seen": seen}


class Reports:
    """HTTP handler of the report page."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [("GET", "/inbox/api/report", self._read)]

    async def _read(self, request: web.Request) -> web.StreamResponse:
        """Return the figures of the last 30 days."""
        visitor = await self._guard.check_reader(request)
        return web.json_response(plain(await self._desk.operator.report(visitor.identity)))
