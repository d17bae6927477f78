"""Inbox calls by which an admin says what a value of a tool's call is."""

from __future__ import annotations

from aiohttp import web

from adapters.web.queries import ReadHandlers
from adapters.web.security import (
    Guard,
    Handler,
    Visitor,
    VisitRefused,
    build_problem,
    build_write_handler,
)
from gateway.errors import Unconfirmed
from gateway.ports import Desk, JsonObject, ToolWord, undeclared_of

_WORD: dict[str, type] = {"address": str, "role": str, "harmless": bool, "confirmed": bool}


class DeclareHandlers:
    """HTTP handler of declarations; the core checks who may write."""

    def __init__(self, desk: Desk, guard: Guard, reading: ReadHandlers) -> None:
        self._desk = desk
        self._guard = guard
        self._reading = reading

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler."""
        work = build_write_handler(self._guard, self._declare, _WORD)
        return [("POST", "/inbox/api/requests/{id}/declare", work)]

    async def _declare(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        """Declare one value of a waiting request's tool, or the tool, for the agent that asks."""
        record = await self._desk.requests.get(request.match_info["id"])
        address, role = body.get("address", ""), body.get("role", "")
        if address and address not in {one.address for one in undeclared_of(record)}:
            raise VisitRefused(409, "conflict", "this value is declared already, or waits no more")
        word = ToolWord(
            tool=record.request.tool,
            arguments={address: role} if address else {},
            harmless=True if body.get("harmless") else None,
            agents=(record.request.agent,),
        )
        try:
            await self._desk.tools.declare(
                visitor.identity, word, confirmed=body.get("confirmed", False), about=record
            )
        except Unconfirmed as danger:
            return build_problem(danger.status, "unconfirmed", str(danger))
        what = f"{role} from now on" if address else "harmless from now on"
        return web.json_response({"said": f"Declared: {what}, for {record.request.agent}."})
