"""Handle the inbox's calls for grants, manually created grants and the kill switch; start with
GrantAndStopHandlers."""

from __future__ import annotations

from aiohttp import web

from adapters.web.cards import build_line
from adapters.web.security import Handlers, Visitor, VisitRefused, read, write
from gateway.cards.grant_cards import GrantCard
from gateway.cards.remember_options import remember_as
from gateway.models import ApprovalRequest, Context, Kind
from gateway.ports import (
    Effect,
    Grant,
    JsonObject,
    ManualGrantRequest,
    build_example,
    render_safe,
)


class GrantAndStopHandlers(Handlers):
    """HTTP handlers of grants and the kill switch. The core checks rights."""

    @read("/inbox/api/grants/{id}")
    async def _grant(self, request: web.Request, visitor: Visitor) -> web.Response:
        """Return one grant with its origin and its matches in history."""
        return web.json_response(_build_card(await self._api.grants.card(request.match_info["id"])))

    @write("/inbox/api/grants/revoke", {"id": str})
    async def _revoke(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        await self._api.grants.revoke(body["id"], visitor.identity)
        return web.json_response({"ok": True})

    @write("/inbox/api/grants/revoke-all", {"agent": str, "session": str}, needed=())
    async def _revoke_all(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        gone = await self._api.grants.revoke_all(visitor.identity, **body)
        return web.json_response({"revoked": len(gone)})

    @write("/inbox/api/stop", {"on": bool})
    async def _stop(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        await self._api.operator.stop_all(visitor.identity, on=body["on"])
        return web.json_response({"ok": True})


def build_grant_row(grant: Grant, card: GrantCard) -> JsonObject:
    """Return a grant card as JSON. It contains agent and session, so that a person can revoke all
    grants of a session."""
    return {
        **_build_card(card),
        "outdated": grant.outdated is not None,
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


# Grants by hand: an admin creates a grant without a request.

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
_NEEDED_TO_CREATE = (*_NEEDED, "offer", "lifetime", "nonce")
_CHOICE: dict[str, type] = {"offer": str, "lifetime": str, "session": str, "nonce": str}
_FEWEST_NONCE, _MOST_NONCE = 8, 64


class HandHandlers(Handlers):
    """HTTP handlers to create grants manually. The core checks that the person is an admin."""

    @write("/inbox/api/grants/offers", _EXAMPLE, needed=_NEEDED)
    async def _offers(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Return the offered scopes for an example call, the narrowest first."""
        effect, example = _read_example(body)
        found = await self._api.grants.offers(visitor.identity, example.agent, example, effect)
        rows = [
            {"id": one.id, "words": build_line(render_safe(one.words).segments)} for one in found
        ]
        return web.json_response({"offers": rows})

    @write("/inbox/api/grants/by-hand", _EXAMPLE | _CHOICE, needed=_NEEDED_TO_CREATE)
    async def _create(self, _: web.Request, visitor: Visitor, body: JsonObject) -> web.Response:
        """Create a grant from an offered scope of an example call. Calls with one nonce create only
        one grant."""
        effect, example = _read_example(body)
        offer, nonce = body["offer"], body["nonce"]
        if not offer:
            raise VisitRefused(
                422, "invalid_request", "choose one of the offers that the page lists"
            )
        if not _FEWEST_NONCE <= len(nonce) <= _MOST_NONCE:
            raise VisitRefused(
                422, "invalid_request", f"nonce needs {_FEWEST_NONCE} to {_MOST_NONCE} characters"
            )
        session = body.get("session") or None
        limits = remember_as(offer, body["lifetime"], everywhere=session is None)
        wish = ManualGrantRequest(
            agent=example.agent,
            effect=effect,
            chosen=offer,
            session=session,
            lifetime=limits.lifetime,
            max_uses=limits.max_uses,
        )
        made = await self._api.grants.create(visitor.identity, example, wish, nonce=nonce)
        words = build_line(render_safe(made.words).segments)
        return web.json_response({"id": made.id, "words": words}, status=201)


def _read_example(body: JsonObject) -> tuple[Effect, ApprovalRequest]:
    """Return the effect and the example call in a request body. Raises VisitRefused or
    InvalidRequest."""
    if body["effect"] not in list(Effect) or body["kind"] not in list(Kind):
        raise VisitRefused(
            422, "invalid_request", f"unknown effect or kind; kind must be one of {', '.join(Kind)}"
        )
    for name in ("agent", "tool"):
        if not body[name]:
            raise VisitRefused(422, "invalid_request", f"the {name} is missing")
    example = build_example(
        agent=body["agent"],
        tool=body["tool"],
        kind=Kind(body["kind"]),
        arguments=body["arguments"],
        context=Context(cwd=body.get("cwd") or None, host=body.get("host") or None),
    )
    return Effect(body["effect"]), example
