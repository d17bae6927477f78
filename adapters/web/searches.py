"""Looking for what ended, what is remembered and what happened, by fields of the address."""

from __future__ import annotations

import asyncio
import re

from aiohttp import web

from adapters.web.card_json import build_line
from adapters.web.grants_and_stop import build_grant_row
from adapters.web.queries import ReadHandlers
from adapters.web.queue import check_cursor
from adapters.web.security import Guard, Handler, VisitRefused
from gateway.ports import (
    AuditEvent,
    Desk,
    Grant,
    GrantCard,
    JsonObject,
    Search,
    grant_card_of,
    list_facts,
    name_event,
    render_safe,
)

_TEXT_CHARS = 200
_MOMENT = re.compile(r"[0-9]{1,15}")
_MOST_GRANTS = 500


class SearchHandlers:
    """HTTP handlers of the searches. Who may read the audit, the core checks."""

    def __init__(self, desk: Desk, guard: Guard, reading: ReadHandlers) -> None:
        self._desk = desk
        self._guard = guard
        self._reading = reading

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/inbox/api/final", self._history),
            ("GET", "/inbox/api/audit", self._audit),
            ("GET", "/inbox/api/grants", self._grants),
        ]

    async def _history(self, request: web.Request) -> web.StreamResponse:
        """Return what ended and fits, the newest first."""
        visitor = await self._guard.check_reader(request)
        found = await self._desk.search.history(_read_search(request))
        items = []
        for record in found.items:
            items.append(await self._reading.build_row(record, visitor))
            await asyncio.sleep(0)  # let clicks run between rows
        return web.json_response({"items": items, "looked": found.looked, "next": found.next})

    async def _audit(self, request: web.Request) -> web.StreamResponse:
        """Return which of the newest events fit, for admins."""
        visitor = await self._guard.check_reader(request)
        found = await self._desk.search.audit(visitor.identity, _read_search(request))
        items = [_build_event(event) for event in found.items]
        return web.json_response({"items": items, "looked": found.looked, "more": found.more})

    async def _grants(self, request: web.Request) -> web.StreamResponse:
        """List what is remembered, and what lately ended of it, where it fits."""
        await self._guard.check_reader(request)
        search = _read_search(request)
        live, ended = await self._desk.grants.newest(), await self._desk.grants.list_ended()
        items = []
        for grant in (*live, *ended):
            card = grant_card_of(grant)
            if _grant_fits(grant, card, search):
                items.append(build_grant_row(grant, card))
        looked = len(live) + len(ended)
        return web.json_response(
            {"items": items, "looked": looked, "more": len(live) >= _MOST_GRANTS}
        )


def _read_search(request: web.Request) -> Search:
    """Return what the address asks for. Raises VisitRefused."""
    query = request.query
    texts = {name: query.get(name, "").strip() for name in ("text", "agent", "outcome", "who")}
    if any(len(text) > _TEXT_CHARS for text in texts.values()):
        raise VisitRefused(
            422, "invalid_request", f"at most {_TEXT_CHARS} characters are looked for"
        )
    times: dict[str, int | None] = {}
    for name in ("since", "until"):
        given = query.get(name, "")
        if given and not _MOMENT.fullmatch(given):
            raise VisitRefused(422, "invalid_request", f"{name} is no moment in ms")
        times[name] = int(given) if given else None
    return Search(**texts, since=times["since"], until=times["until"], after=check_cursor(request))


def _grant_fits(grant: Grant, card: GrantCard, search: Search) -> bool:
    shown = " ".join((card.words.text, card.tool.text, *(one.text.text for one in card.facts)))
    state = "ended" if card.ended else "suspended" if grant.rests is not None else "in force"
    at = grant.made_at
    return (
        search.text.casefold() in shown.casefold()
        and search.agent in ("", grant.agent)
        and search.outcome in ("", state)
        and search.who in ("", grant.made_by)
        and (search.since is None or at >= search.since)
        and (search.until is None or at < search.until)
    )


def _build_event(event: AuditEvent) -> JsonObject:
    """Return an event as a row: what agents chose is made visible, and secrets are masked."""
    return {
        "id": event.id,
        "at": event.at,
        "type": name_event(event.type),
        "agent": build_line(render_safe(event.agent).segments),
        "request": event.request_id,
        "facts": [build_line(render_safe(fact).segments) for fact in list_facts(event)],
    }
