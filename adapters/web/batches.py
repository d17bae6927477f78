"""The batch view: several requests of one agent, each shown in full, decided together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from aiohttp import web

from adapters.web.card_json import explain_exclusion
from adapters.web.queries import ReadHandlers
from adapters.web.security import (
    Guard,
    Handler,
    Visitor,
    VisitRefused,
    build_problem,
    build_write_handler,
    check_members,
    refuse_unseen,
)
from gateway.errors import BatchRefused, NotFound
from gateway.models import Action
from gateway.ports import Click, Desk, JsonObject, Query, Record

MOST = 50
_MOST_LETTERS = 2_000_000  # of one page
_MEMBERS: dict[str, type] = {
    "action": str,
    "items": list,
    "nonce": str,
    "message": str,
    "note": str,
    "feedback": bool,
}
_NEEDED = ("action", "items", "nonce")
_NOBODY = "nobody may approve it"
_HIDDEN = "what is masked could do something: reveal it, and approve it alone"
_ITEM: dict[str, type] = {"id": str, "revision": int, "seen": str}


class BatchHandlers:
    """HTTP handlers of the batch view."""

    def __init__(self, desk: Desk, guard: Guard, reading: ReadHandlers) -> None:
        self._desk = desk
        self._guard = guard
        self._reading = reading

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        return [
            ("GET", "/inbox/api/batch", self._read),
            (
                "POST",
                "/inbox/api/batch/decide",
                build_write_handler(self._guard, self._decide, _MEMBERS, _NEEDED),
            ),
        ]

    async def _read(self, request: web.Request) -> web.StreamResponse:
        """Return an agent's pending requests, and those that must be decided alone."""
        visitor = await self._guard.check_reader(request)
        found, more = await self._list_waiting(request.query.get("agent", ""))
        items: list[JsonObject] = []
        apart: list[JsonObject] = []
        letters = 0
        for record in found:
            why = explain_exclusion(record) or await self._desk.requests.may_decide(
                visitor.identity, record
            )
            if why is not None:
                row = await self._reading.build_row(record, visitor)
                apart.append({"id": record.id, "tool": row["tool"], "why": why})
                continue
            view = await self._reading.build_whole(record, visitor)
            if view["hides"]:
                apart.append({"id": record.id, "tool": view["tool"], "why": _HIDDEN})
                continue
            if not any(one["action"] == Action.APPROVE for one in view["controls"]):
                apart.append(
                    {"id": record.id, "tool": view["tool"], "why": view["progress"] or _NOBODY}
                )
                continue
            letters += len(json.dumps(view))
            if items and letters > _MOST_LETTERS:
                more = True
                break
            items.append(view)
            await asyncio.sleep(0)  # let clicks run between large requests
        return web.json_response({"items": items, "apart": apart, "more": more})

    async def _list_waiting(self, agent: str) -> tuple[list[Record], bool]:
        """Return an agent's pending requests, the soonest deadline first, and whether there are
        more.

        Canaries belong to no agent, so they are looked for among all pending requests.
        """
        own = await self._desk.requests.page(Query(soonest=True, agent=agent, limit=MOST))
        every = await self._desk.requests.page(Query(soonest=True, limit=MOST))
        found = {record.id: record for record in (*own.items, *every.items)}
        shown = [record for record in found.values() if record.request.agent == agent]
        shown.sort(key=lambda record: (record.deadline, record.id))
        return shown[:MOST], own.next is not None or len(shown) > MOST

    async def _decide(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Apply one decision to all selected requests, or to none of them."""
        clicks = [_build_click(visitor, body, item) for item in body["items"]]
        try:
            records = await self._desk.requests.decide_all(clicks)
        except BatchRefused as refused:
            ended = await self._list_ended(refused.reasons, visitor)
            return build_problem(
                409, refused.code, "Nothing was decided.", reasons=refused.reasons, ended=ended
            )
        rows = [await self._reading.build_row(record, visitor) for record in records]
        return web.json_response({"items": rows})

    async def _list_ended(self, ids: Iterable[str], visitor: Visitor) -> list[JsonObject]:
        """Return those that ended meanwhile, as they are shown then; none that is gone."""
        rows = []
        for one in ids:
            with suppress(NotFound):
                record = await self._desk.requests.get(one)
                if record.final:
                    rows.append(await self._reading.build_row(record, visitor))
        return rows


def _build_click(visitor: Visitor, body: JsonObject, item: Any) -> Click:
    """Return one click of a batch. Raises VisitRefused for approving what was not shown whole."""
    item = check_members(item, _ITEM, ("id", "revision"))
    if body["action"] not in (Action.APPROVE, Action.DENY):
        raise VisitRefused(422, "invalid_request", "a batch is approved or denied")
    action = Action(body["action"])
    if action is Action.APPROVE:
        refuse_unseen(visitor, item["id"], item["revision"], item.get("seen"))
    return Click(
        request_id=item["id"],
        revision=item["revision"],
        identity=visitor.identity,
        action=action,
        nonce=body["nonce"],
        message=body.get("message", ""),
        note=body.get("note", ""),
        feedback=body.get("feedback", False),
    )
