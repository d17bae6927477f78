"""Inbox calls by which an admin has something remembered that no request asked for."""

from __future__ import annotations

from aiohttp import web

from adapters.web.card_json import build_line
from adapters.web.security import Guard, Handler, Visitor, VisitRefused, build_write_handler
from gateway.models import ApprovalRequest, Context, Kind
from gateway.ports import (
    Desk,
    Effect,
    JsonObject,
    Wish,
    build_example,
    remember_as,
    render_safe,
)

_EXAMPLE: dict[str, type] = {
    "agent": str,
    "effect": str,
    "tool": str,
    "kind": str,
    "arguments": dict,
    "cwd": str,
    "host": str,
}
_NEEDED = ("agent", "effect", "tool", "kind", "arguments")
_CHOICE: dict[str, type] = {"offer": str, "lifetime": str, "session": str, "nonce": str}
_FEWEST_NONCE, _MOST_NONCE = 8, 64


class HandHandlers:
    """HTTP handlers of grants by hand; the core checks who may make one."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return method, path and handler of each."""
        listed = build_write_handler(self._guard, self._offers, _EXAMPLE, _NEEDED)
        needed = (*_NEEDED, "offer", "lifetime", "nonce")
        made = build_write_handler(self._guard, self._create, {**_EXAMPLE, **_CHOICE}, needed)
        return [
            ("POST", "/inbox/api/grants/offers", listed),
            ("POST", "/inbox/api/grants/by-hand", made),
        ]

    async def _offers(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Return what may be remembered of an example, in the gateway's words, narrow first."""
        effect, example = _read_example(body)
        found = await self._desk.by_hand.offers(visitor.identity, example.agent, example, effect)
        rows = [
            {"id": one.id, "words": build_line(render_safe(one.words).segments)} for one in found
        ]
        return web.json_response({"offers": rows})

    async def _create(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Make a grant of one offer of an example."""
        effect, example = _read_example(body)
        offer, nonce = body["offer"], body["nonce"]
        if not offer:
            raise VisitRefused(422, "invalid_request", "choose one of the offers")
        if not _FEWEST_NONCE <= len(nonce) <= _MOST_NONCE:
            raise VisitRefused(422, "invalid_request", "nonce is too short or too long")
        session = body.get("session") or None
        limits = remember_as(offer, body["lifetime"], everywhere=session is None)
        wish = Wish(
            agent=example.agent,
            effect=effect,
            chosen=offer,
            session=session,
            lifetime=limits.lifetime,
            max_uses=limits.max_uses,
        )
        made = await self._desk.by_hand.create(visitor.identity, example, wish, nonce=nonce)
        words = build_line(render_safe(made.words).segments)
        return web.json_response({"id": made.id, "words": words}, status=201)


def _read_example(body: JsonObject) -> tuple[Effect, ApprovalRequest]:
    """Return the effect and the call of a body. Raises VisitRefused or InvalidRequest."""
    if body["effect"] not in list(Effect) or body["kind"] not in list(Kind):
        raise VisitRefused(
            422, "invalid_request", "there is no such effect, or no such kind of call"
        )
    for name in ("agent", "tool"):
        if not body[name]:
            raise VisitRefused(422, "invalid_request", f"name the {name}")
    example = build_example(
        agent=body["agent"],
        tool=body["tool"],
        kind=Kind(body["kind"]),
        arguments=body["arguments"],
        context=Context(cwd=body.get("cwd") or None, host=body.get("host") or None),
    )
    return Effect(body["effect"]), example
