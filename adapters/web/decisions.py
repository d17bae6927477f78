"""Write calls of the inbox: decide, compare an edit, claim, reveal, end a session."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from adapters.web.card_json import build_changes
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
from gateway.errors import Conflict, NotRemembered, Unconfirmed
from gateway.models import Action
from gateway.ports import (
    Click,
    Desk,
    JsonObject,
    Passkeys,
    Proof,
    changes,
    draw,
    put_together,
    remember_as,
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
_DIFF: dict[str, type] = {"arguments": dict, "fields": dict, "revealed": bool}
_NEEDED = ("revision", "action", "nonce")
_UNSEEN = (Action.DENY, Action.ABORT)  # allowed without having seen the whole request


class DecisionHandlers:
    """HTTP handlers of decisions, claims and sessions."""

    def __init__(self, desk: Desk, guard: Guard, reading: ReadHandlers, passkeys: Passkeys) -> None:
        self._desk = desk
        self._passkeys = passkeys
        self._guard = guard
        self._reading = reading

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        guard, one = self._guard, "/inbox/api/requests/{id}"
        session: dict[str, type] = {"agent": str, "session": str}
        return [
            ("POST", f"{one}/decide", build_write_handler(guard, self._decide, _DECISION, _NEEDED)),
            ("POST", f"{one}/proof", build_write_handler(guard, self._offer, _DECISION, _NEEDED)),
            (
                "POST",
                f"{one}/diff",
                build_write_handler(guard, self._diff, _DIFF),
            ),
            (
                "POST",
                f"{one}/claim",
                build_write_handler(guard, self._claim, {"on": bool}, ("on",)),
            ),
            ("POST", f"{one}/reveal", build_write_handler(guard, self._reveal, {})),
            (
                "POST",
                "/inbox/api/sessions/end",
                build_write_handler(guard, self._end, session, tuple(session)),
            ),
            (
                "POST",
                "/inbox/api/agents/lift",
                build_write_handler(guard, self._lift, {"agent": str}, ("agent",)),
            ),
        ]

    async def _decide(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        request_id = request.match_info["id"]
        click = await self._read_click(request_id, visitor, body)
        credential = body.get("proof")

        async def prove(subject: str) -> Proof:
            return await self._passkeys.check_proof(visitor.session, subject, credential or {})

        try:
            after = await self._desk.requests.decide(click, prove=prove if credential else None)
        except NotRemembered as told:  # the answer counts all the same
            row = await self._reading.build_row(told.record, visitor)
            return web.json_response({**row, "warning": str(told)})
        except Conflict as conflict:
            now = await self._reading.build_row(await self._desk.requests.get(request_id), visitor)
            return build_problem(409, conflict.code, str(conflict), request=now)
        except Unconfirmed as high:
            return build_problem(high.status, "unconfirmed", str(high))
        return web.json_response(await self._reading.build_row(after, visitor))

    async def _read_click(self, request_id: str, visitor: Visitor, body: JsonObject) -> Click:
        """Return the click of a body, with what was typed into fields put together."""
        click = _build_click(request_id, visitor, body)
        if "fields" not in body:
            return click
        record = await self._desk.requests.get(request_id)
        # Fields of an older revision are of other arguments: the core refuses the click.
        current = body["revision"] >= record.shown_since
        typed = _read_fields(body["fields"]) if current else {}
        return replace(click, arguments=put_together(record, typed, reveal=click.revealed))

    async def _offer(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        """Return what a passkey is to sign for an answer, which is sent with that afterwards."""
        click = await self._read_click(request.match_info["id"], visitor, body)
        record = await self._desk.requests.get(click.request_id)
        offered = await self._passkeys.begin_proof(visitor.session, subject_of(record, click))
        return web.json_response(offered)

    async def _diff(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Return the differences between an edit and what was asked."""
        record = await self._desk.requests.get(request.match_info["id"])
        before, after = record.arguments, body.get("arguments")
        if after is None:
            typed = _read_fields(body.get("fields", {}))
            after = put_together(record, typed, reveal=body.get("revealed", False))
        rows = await draw(lambda: build_changes(changes(before, after)), before, after)
        return web.json_response({"changed": rows})

    async def _claim(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        request_id = request.match_info["id"]
        record = await self._desk.requests.claim(request_id, visitor.identity, on=body["on"])
        return web.json_response(await self._reading.build_row(record, visitor))

    async def _reveal(
        self, request: web.Request, visitor: Visitor, body: JsonObject
    ) -> web.Response:
        """Return the request with its secrets; the audit records who saw them."""
        record = await self._desk.requests.reveal(request.match_info["id"], visitor.identity)
        return web.json_response(await self._reading.build_whole(record, visitor, reveal=True))

    async def _end(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        ids = await self._desk.sessions.end_as(visitor.identity, body["agent"], body["session"])
        return web.json_response({"cancelled": len(ids)})

    async def _lift(self, request: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        await self._desk.operator.lift(body["agent"], visitor.identity)
        return web.json_response({"ok": True})


def _read_fields(given: JsonObject) -> dict[str, str]:
    """Return what was typed into fields. Raises VisitRefused for what is no text."""
    if not all(isinstance(text, str) for text in given.values()):
        raise VisitRefused(422, "invalid_request", "what is typed into a field is text")
    return given


def _build_click(request_id: str, visitor: Visitor, body: JsonObject) -> Click:
    """Return the click of a body. Raises VisitRefused for approving what was not shown whole."""
    if body["action"] not in list(Action):
        raise VisitRefused(422, "invalid_request", "there is no such action")
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
