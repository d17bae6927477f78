"""The queue as the page lists it: short rows, the soonest deadline first, and whose they are."""

from __future__ import annotations

import asyncio
import re

from aiohttp import web

from adapters.web.card_json import build_short_row
from adapters.web.rows import Rows
from adapters.web.security import Guard, Handler, Visitor, VisitRefused
from gateway.ports import Desk, JsonObject, QueueCounts, Record, Side

_CURSOR = re.compile(r"[0-9]{1,20}-[0-9a-f]{32}")
_MOMENT = re.compile(r"[0-9]{1,20}")
_PAGE = 50


class QueueHandlers:
    """HTTP handlers of the queue."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard
        self._rows = Rows(build_short_row)

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/inbox/api/queue", self._page),
            ("GET", "/inbox/api/queue/counts", self._count),
            ("GET", "/inbox/api/queue/{id}", self._row),
        ]

    async def _page(self, request: web.Request) -> web.StreamResponse:
        """Return one page of a side. What it is among is counted apart: that looks at far more."""
        visitor = await self._guard.check_reader(request)
        side, after = request.query.get("side", Side.MINE), check_cursor(request)
        if side not in list(Side):
            raise VisitRefused(422, "invalid_request", "side is mine, others or all")
        page = await self._desk.queue.page(visitor.identity, Side(side), after=after, limit=_PAGE)
        items = []
        for record in page.items:
            items.append(await self._build(record, visitor))
            await asyncio.sleep(0)  # let clicks run between rows
        return web.json_response({"items": items, "next": page.next})

    async def _count(self, request: web.Request) -> web.StreamResponse:
        """Return the counts; `since` is what the page knew of already."""
        visitor = await self._guard.check_reader(request)
        since = request.query.get("since", "0")
        if not _MOMENT.fullmatch(since):
            raise VisitRefused(422, "invalid_request", "since is no moment")
        counts = await self._desk.queue.count(visitor.identity, since=int(since))
        return web.json_response(build_counts(counts))

    async def _row(self, request: web.Request) -> web.StreamResponse:
        """Return one request as a row, also one that has ended."""
        visitor = await self._guard.check_reader(request)
        record = await self._desk.requests.get(request.match_info["id"])
        return web.json_response(await self._build(record, visitor))

    async def _build(self, record: Record, visitor: Visitor) -> JsonObject:
        row = await self._rows.build(record)
        return {**row, "mine": await self._desk.queue.is_mine(record, visitor.identity)}


def check_cursor(request: web.Request) -> str | None:
    """Return where a page goes on. Raises VisitRefused for what names no place."""
    after = request.query.get("after")
    if after is not None and not _CURSOR.fullmatch(after):
        raise VisitRefused(422, "invalid_request", "after is no cursor of a page")
    return after


def build_counts(counts: QueueCounts) -> JsonObject:
    """Return the counts as the page reads them."""
    return {
        "mine": counts.mine,
        "others": counts.others,
        "more": counts.more,
        "fresh": counts.fresh,
        "newest": counts.newest,
    }
