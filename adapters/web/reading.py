"""What people read in the inbox: requests as rows or whole, sessions, and who they are."""

from __future__ import annotations

from aiohttp import web

from adapters.web.guard import Guard, Handler, Visitor, csrf_token, seen_token
from adapters.web.view import Look, line_of, made, row_of, weight_of, whole_of
from gateway.masking import shown
from gateway.ports import Desk
from gateway.records import Query, Record
from gateway.wire import JsonObject

_PAGE = 50


class Reading:
    """The reads of the inbox over a desk."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/inbox/api/me", self._me),
            ("GET", "/inbox/api/requests", self._list),
            ("GET", "/inbox/api/requests/{id}", self._one),
            ("GET", "/inbox/api/sessions", self._sessions),
        ]

    async def row(self, record: Record, visitor: Visitor) -> JsonObject:
        """Return a request as a row of the list."""
        look = await self._look(record, visitor)
        return _signed(await made(lambda: row_of(record, look), *weight_of(record)), visitor)

    async def whole(self, record: Record, visitor: Visitor, *, reveal: bool = False) -> JsonObject:
        """Return everything about a request."""
        look = await self._look(record, visitor)
        view = await made(lambda: whole_of(record, look, reveal=reveal), *weight_of(record))
        return _signed(view, visitor)

    async def _me(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.reader(request)
        name = await self._name(visitor)
        return web.json_response({"name": name, "csrf": csrf_token(visitor.session)})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.reader(request)
        final = request.query.get("status", "pending") != "pending"
        query = Query(final=final, after=request.query.get("after"), limit=_PAGE)
        page = await self._desk.page(query)
        items = [await self.row(record, visitor) for record in page.items]
        return web.json_response({"items": items, "next": page.next})

    async def _one(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._guard.reader(request)
        record = await self._desk.get(request.match_info["id"])
        if request.query.get("whole") == "1":
            return web.json_response(await self.whole(record, visitor))
        return web.json_response(await self.row(record, visitor))

    async def _sessions(self, request: web.Request) -> web.StreamResponse:
        await self._guard.reader(request)
        rows = await self._desk.sessions(None)
        items = [
            {
                "agent": row.agent,
                "name": row.name,
                "shown": line_of(shown(row.name).segments),
                "last_seen": row.last_seen,
            }
            for row in rows
        ]
        return web.json_response({"items": items})

    async def _name(self, visitor: Visitor) -> str:
        person = await self._desk.person(visitor.identity)
        return person.name if person else visitor.identity.written

    async def _look(self, record: Record, visitor: Visitor) -> Look:
        refusal = None
        if not record.final:
            refusal = await self._desk.may_decide(visitor.identity, record)
        return Look(name=await self._name(visitor), refusal=refusal)


def _signed(view: JsonObject, visitor: Visitor) -> JsonObject:
    """Add the token that approving needs to a request that is shown whole."""
    whole = view["status"] == "pending" and view["complete"]
    seen = seen_token(visitor.session, view["id"], view["revision"]) if whole else None
    return {**view, "seen": seen}
