"""Inbox calls for remembered decisions and the kill switch."""

from __future__ import annotations

from aiohttp import web

from adapters.web.card_json import build_line
from adapters.web.security import Guard, Handler, Visitor, build_write_handler
from gateway.ports import Desk, Effect, Grant, GrantCard, JsonObject, render_safe


class GrantAndStopHandlers:
    """HTTP handlers; the core checks who may write."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        guard, grants = self._guard, "/inbox/api/grants"
        whose: dict[str, type] = {"agent": str, "session": str}
        return [
            ("GET", f"{grants}/{{id}}", self._grant),
            (
                "POST",
                f"{grants}/revoke",
                build_write_handler(guard, self._revoke, {"id": str}, ("id",)),
            ),
            ("POST", f"{grants}/revoke-all", build_write_handler(guard, self._revoke_all, whose)),
            (
                "POST",
                "/inbox/api/stop",
                build_write_handler(guard, self._stop, {"on": bool}, ("on",)),
            ),
        ]

    async def _grant(self, request: web.Request) -> web.StreamResponse:
        """Return one grant with its origin and its reach."""
        await self._guard.check_reader(request)
        return web.json_response(
            _build_card(await self._desk.grants.card(request.match_info["id"]))
        )

    async def _revoke(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        await self._desk.grants.revoke(body["id"], visitor.identity)
        return web.json_response({"ok": True})

    async def _revoke_all(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        gone = await self._desk.grants.revoke_all(visitor.identity, **body)
        return web.json_response({"revoked": len(gone)})

    async def _stop(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        await self._desk.operator.stop_all(visitor.identity, on=body["on"])
        return web.json_response({"ok": True})


def build_grant_row(grant: Grant, card: GrantCard) -> JsonObject:
    """Return a card with the agent and session of its grant, for revoking them together."""
    return {
        **_build_card(card),
        "rests": grant.rests is not None,
        "allows": grant.effect is Effect.ALLOW,
        "agent": grant.agent,
        "session": grant.session,
        "where": grant.session and build_line(render_safe(grant.session).segments),
        "made_by": grant.made_by,
    }


def _build_card(card: GrantCard) -> JsonObject:
    return {
        "id": card.grant_id,
        "ended": card.ended,
        "word": card.word,
        "icon": card.icon,
        "tool": build_line(card.tool.segments),
        "words": build_line(card.words.segments),
        "asked": card.asked and build_line(card.asked.segments),
        "facts": [[fact.label, build_line(fact.text.segments)] for fact in card.facts],
        "until": card.until,
        "uses": card.uses,
        "reach": card.reach,
        "notices": card.notices,
        "outcome": card.outcome,
        "ended_at": card.ended_at,
        "confirm": card.confirm,
    }
