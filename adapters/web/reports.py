"""The report for admins on how people decide."""

from __future__ import annotations

from aiohttp import web

from adapters.web.security import Guard, Handler
from gateway.ports import Desk, plain


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
