"""Handle the inbox's writes: decide one request or a batch, edit, claim, reveal, declare; start
with DecisionHandlers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiohttp import web

from adapters.web.cards import build_changes, explain_exclusion
from adapters.web.queries import ReadHandlers
from adapters.web.security import (
    Guard,
    Handlers,
    Visitor,
    VisitRefused,
    build_problem,
    check_members,
    read,
    refuse_unseen,
    write,
)
from gateway.cards.blocks import changes, draw
from gateway.cards.forms import put_together
from gateway.cards.remember_options import remember_as, undeclared_of
from gateway.errors import BatchRefused, Conflict, NotFound, NotRemembered, Unconfirmed
from gateway.models import Action
from gateway.ports import (
    AdapterApi,
    Click,
    JsonObject,
    Passkeys,
    Proof,
    Query,
    StoredRequest,
    ToolWord,
    subject_of,
)

_DECISION: dict[str, type] = {
    "revision": int,
    "action": str,
    "nonce": str,
    "message": str,
    "note": str,
    "arguments": dict,
    "fields": dict,
    "answers": dict,
    "result": object,
    "abort": str,
    "feedback": bool,
    "confirmed": bool,
    "seen": str,
    "remember": dict,
    "number": str,
    "proof": dict,
}
_REMEMBER: dict[str, type] = {"offer": str, "everywhere": bool, "lifetime": str}
_WORD: dict[str, type] = {"address": str, "role": str, "harmless": bool, "confirmed": bool}
_DIFF: dict[str, type] = {"arguments": dict, "fields": dict, "revealed": bool}
_NEEDED = ("revision", "action", "nonce")
_UNSEEN = (Action.DENY, Action.ABORT)  # allowed before the page has shown the complete request


class DecisionHandlers(Handlers):
    """HTTP handlers of decisions, claims and sessions."""

    def __init__(
        self, api: AdapterApi, guard: Guard, reading: ReadHandlers, passkeys: Passkeys
    ) -> None:
        super().__init__(api, guard)
        self._passkeys = passkeys
        self._reading = reading

    @write("/inbox/api/requests/{id}/decide", _DECISION, needed=_NEEDED)
    async def _decide(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        request_id = request.match_info["id"]
        click = await self._read_click(request_id, visitor, body)
        credential = body.get("proof")

        async def prove(subject: str) -> Proof:
            return await self._passkeys.check_proof(visitor.session, subject, credential or {})

        try:
            after = await self._api.requests.decide(click, prove=prove if credential else None)
        except NotRemembered as told:  # the decision itself is made
            row = await self._reading.build_row(told.record, visitor)
            return web.json_response({**row, "warning": str(told)})
        except Conflict as conflict:
            now = await self._reading.build_row(await self._api.requests.get(request_id), visitor)
            return build_problem(409, conflict.code, str(conflict), request=now)
        except Unconfirmed as high:
            return build_problem(high.status, "unconfirmed", str(high))
        return web.json_response(await self._reading.build_row(after, visitor))

    async def _read_click(self, request_id: str, visitor: Visitor, body: JsonObject) -> Click:
        """Build the click from a request body. Combine typed fields to arguments."""
        click = _build_click(request_id, visitor, body)
        if "fields" not in body:
            return click
        record = await self._api.requests.get(request_id)
        # Fields of an older revision belong to other arguments; the core refuses that click.
        current = body["revision"] >= record.shown_since
        typed = _read_fields(body["fields"]) if current else {}
        return replace(click, arguments=put_together(record, typed, reveal=click.revealed))

    @write("/inbox/api/requests/{id}/proof", _DECISION, needed=_NEEDED)
    async def _offer(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        """Return the challenge that a passkey must sign for a decision. The page then sends
        decision and signature."""
        click = await self._read_click(request.match_info["id"], visitor, body)
        record = await self._api.requests.get(click.request_id)
        offered = await self._passkeys.begin_proof(visitor.session, subject_of(record, click))
        return web.json_response(offered)

    @write("/inbox/api/requests/{id}/diff", _DIFF, needed=(), auditors=True)
    async def _diff(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Return the differences between an edit and the current call."""
        record = await self._api.requests.get(request.match_info["id"])
        before, after = record.arguments, body.get("arguments")
        if after is None:
            typed = _read_fields(body.get("fields", {}))
            after = put_together(record, typed, reveal=body.get("revealed", False))
        rows = await draw(lambda: build_changes(changes(before, after)), before, after)
        return web.json_response({"changed": rows})

    @write("/inbox/api/requests/{id}/claim", {"on": bool})
    async def _claim(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        request_id = request.match_info["id"]
        record = await self._api.requests.claim(request_id, visitor.identity, on=body["on"])
        return web.json_response(await self._reading.build_row(record, visitor))

    @write("/inbox/api/requests/{id}/decline", {"offer": str})
    async def _decline(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        """Stop suggesting an offer to this person."""
        record = await self._api.requests.get(request.match_info["id"])
        await self._api.suggestions.decline(visitor.identity, record, body["offer"])
        return web.json_response({"ok": True})

    @write("/inbox/api/requests/{id}/reveal", {})
    async def _reveal(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        """Return the request with its secrets. The audit records who saw them."""
        record = await self._api.requests.reveal(request.match_info["id"], visitor.identity)
        view = await self._reading.build_whole(record, visitor, reveal=True)
        return web.json_response(await self._reading.look_back(view, record, visitor))

    @write("/inbox/api/sessions/end", {"agent": str, "session": str})
    async def _end(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        ids = await self._api.operator.end_session(visitor.identity, body["agent"], body["session"])
        return web.json_response({"cancelled": len(ids)})

    @write("/inbox/api/agents/lift", {"agent": str})
    async def _lift(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        await self._api.operator.lift(body["agent"], visitor.identity)
        return web.json_response({"ok": True})

    @write("/inbox/api/requests/{id}/declare", _WORD, needed=())
    async def _declare(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        """Declare an argument of a pending request's tool, or the whole tool, for its agent."""
        record = await self._api.requests.get(request.match_info["id"])
        address, role = body.get("address", ""), body.get("role", "")
        if address and address not in {one.address for one in undeclared_of(record)}:
            raise VisitRefused(
                409, "conflict", "this value is already declared, or the request has ended"
            )
        word = ToolWord(
            tool=record.request.tool,
            arguments={address: role} if address else {},
            harmless=True if body.get("harmless") else None,
            agents=(record.request.agent,),
        )
        try:
            await self._api.operator.declare(
                visitor.identity, word, confirmed=body.get("confirmed", False), about=record
            )
        except Unconfirmed as danger:
            return build_problem(danger.status, "unconfirmed", str(danger))
        what = f"from now on, this is {role}" if address else "harmless from now on"
        return web.json_response({"said": f"Declared: {what}, for {record.request.agent}."})


def _read_fields(given: JsonObject) -> dict[str, str]:
    """Check that all field values are text, and return them. Raises VisitRefused."""
    if not all(isinstance(text, str) for text in given.values()):
        raise VisitRefused(422, "invalid_request", "the value of a field must be a string")
    return given


def _build_click(request_id: str, visitor: Visitor, body: JsonObject) -> Click:
    """Build the click from a request body. Raises VisitRefused if a click other than a denial lacks
    the proof that the page showed the complete request."""
    if body["action"] not in list(Action):
        raise VisitRefused(
            422, "invalid_request", f"unknown action; use one of {', '.join(Action)}"
        )
    action = Action(body["action"])
    revealed = action not in _UNSEEN and refuse_unseen(
        visitor, request_id, body["revision"], body.get("seen")
    )
    remember = body.get("remember")
    if remember is not None:
        check_members(remember, _REMEMBER, tuple(_REMEMBER))
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
        revealed=revealed,
        remember=remember_as(**remember) if remember is not None else None,
        number=body.get("number", ""),
    )


# The batch view: several requests of one agent, each shown in full, decided together.

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
_NEEDED_IN_BATCH = ("action", "items", "nonce")
_NOBODY = "nobody may approve it"
_HIDDEN = "a masked value could change what runs: reveal it, and approve the request alone"
_ITEM: dict[str, type] = {"id": str, "revision": int, "seen": str}


class BatchHandlers(Handlers):
    """HTTP handlers of the batch view."""

    def __init__(self, api: AdapterApi, guard: Guard, reading: ReadHandlers) -> None:
        super().__init__(api, guard)
        self._reading = reading

    @read("/inbox/api/batch")
    async def _read(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Return an agent's pending requests, and which of them must be decided alone."""
        found, more = await self._list_waiting(request.query.get("agent", ""))
        items: list[JsonObject] = []
        apart: list[JsonObject] = []
        letters = 0
        for record in found:
            why = explain_exclusion(record) or await self._api.requests.may_decide(
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

    async def _list_waiting(self, agent: str) -> tuple[list[StoredRequest], bool]:
        """Return an agent's pending requests, the soonest deadline first, and whether there are
        more."""
        page = await self._api.requests.page(Query(soonest=True, agent=agent, limit=MOST))
        return list(page.items), page.next is not None

    @write("/inbox/api/batch/decide", _MEMBERS, needed=_NEEDED_IN_BATCH)
    async def _decide(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Apply one decision to all selected requests, or to none of them."""
        clicks = [_build_batch_click(visitor, body, item) for item in body["items"]]
        try:
            records = await self._api.requests.decide_all(clicks)
        except BatchRefused as refused:
            ended = await self._list_ended(refused.reasons, visitor)
            return build_problem(
                409, refused.code, "Nothing was decided.", reasons=refused.reasons, ended=ended
            )
        rows = [await self._reading.build_row(record, visitor) for record in records]
        return web.json_response({"items": rows})

    async def _list_ended(self, ids: Iterable[str], visitor: Visitor) -> list[JsonObject]:
        """Return the rows of requests that have ended meanwhile. Skip deleted requests."""
        rows = []
        for one in ids:
            with suppress(NotFound):
                record = await self._api.requests.get(one)
                if record.final:
                    rows.append(await self._reading.build_row(record, visitor))
        return rows


def _build_batch_click(visitor: Visitor, body: JsonObject, item: Any) -> Click:
    """Build the click for one request of a batch. Raises VisitRefused for an approval if the page
    did not show the complete request."""
    item = check_members(item, _ITEM, ("id", "revision"))
    if body["action"] not in (Action.APPROVE, Action.DENY):
        raise VisitRefused(422, "invalid_request", "a batch can only be approved or denied")
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
