"""Commands about remembered decisions, over HTTP, with an approver's own token."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any
from urllib.parse import quote

from gateway.cli.answering import connection, find_request, listed
from gateway.cli.formatting import readable, runs
from gateway.client.http_pool import HttpPool
from gateway.domain.safe_text import visible
from gateway.errors import Conflict, InvalidRequest, NotFound
from gateway.policy.grants.grant import Shape

_ID_LENGTH = 32


async def offers(options: argparse.Namespace) -> int:
    """Show what may be remembered about a request, and how far it would reach."""
    return await asyncio.to_thread(_offers, options)


async def listing(options: argparse.Namespace) -> int:
    """List grants."""
    return await asyncio.to_thread(_listing, options)


def _listing(options: argparse.Namespace) -> int:
    with connection() as http:
        found = [one for one in _all(http) if options.agent in (None, one["agent"])]
        nothing = "nothing is remembered"
        if options.suspended:
            found, nothing = [one for one in found if _suspended(one)], "nothing is suspended"
        return listed(found, options, lambda grant: _line(http, grant), nothing)


async def show(options: argparse.Namespace) -> int:
    """Show one grant."""
    return await asyncio.to_thread(_show, options)


def _show(options: argparse.Namespace) -> int:
    with connection() as http:
        grant = _one(http, options.id)
        if not options.json:
            print(_line(http, grant))
    print(readable(grant, options))
    return 0


async def revoke(options: argparse.Namespace) -> int:
    """Take grants back: one, a session's, an agent's, or all."""
    return await asyncio.to_thread(_revoke, options)


async def let_through(options: argparse.Namespace) -> int:
    """Give a session a pass."""
    return await asyncio.to_thread(_let_through, options)


def _let_through(options: argparse.Namespace) -> int:
    body = {"what": "edits" if options.edits else "all", "hours": options.hours}
    if options.next is not None:
        body["max_uses"] = options.next
    path = f"/v1/sessions/{quote(options.session, safe='')}/pass?agent={quote(options.agent)}"
    with connection() as http:
        print(_line(http, http.call("POST", path, body)))
    return 0


def _offers(options: argparse.Namespace) -> int:
    with connection() as http:
        request_id = find_request(http, options.id)["request"]["id"]
        found = http.call("GET", f"/v1/requests/{request_id}/offers")
        if options.json:
            print(json.dumps(found))
            return 0
        for action in ("approve", "deny"):
            for offer in found.get(action, ()):
                print(f"{action:8} {offer['id']}  {visible(offer['words']).text}")
        for offer in found.get("approve", ()):
            reach = http.call("GET", f"/v1/requests/{request_id}/reach?offer={offer['id']}")
            print(f"{offer['id']}: {visible(reach['words']).text}")
        return 0


def _revoke(options: argparse.Namespace) -> int:
    with connection() as http:
        if options.id is not None:
            grant = _one(http, options.id)
            http.call("POST", f"/v1/grants/{grant['id']}/revoke", {})
            print(f"{grant['id']} is revoked")
            return 0
        whose = {"agent": options.agent, "session": options.session}
        named = {name: value for name, value in whose.items() if value is not None}
        if not named and not options.all:
            raise InvalidRequest("name a grant, --agent, --session or --all")
        ended = http.call("POST", "/v1/grants/revoke", named)
        print(f"{len(ended['ids'])} revoked")
        return 0


def _all(http: HttpPool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = http.call("GET", f"/v1/grants?limit=200{after}")
        found += page["items"]
        if not page.get("next"):
            return found
        after = f"&after={page['next']}"


def _one(http: HttpPool, wanted: str) -> dict[str, Any]:
    if len(wanted) == _ID_LENGTH:
        grant: dict[str, Any] = http.call("GET", f"/v1/grants/{wanted}")
        return grant
    matches = [grant for grant in _all(http) if grant["id"].startswith(wanted)]
    if len(matches) > 1:
        raise Conflict(f"{len(matches)} grants begin with {wanted}; write more of the id")
    if not matches:
        raise NotFound(
            f"nothing that is remembered begins with {wanted}: see `gateway grant list`; what has "
            "ended is found by its whole id"
        )
    return matches[0]


def _line(http: HttpPool, grant: dict[str, Any]) -> str:
    most = f" of {grant['max_uses']}" if "max_uses" in grant else ""
    uses = f"{grant.get('used', 0)}{most}"
    where = grant.get("session", "everywhere")
    return (
        f"{grant['id']}  {grant['effect']:5}  {grant['agent']:16} {where:12} "
        f"{visible(grant['match']['tool']).text:20} used {uses}  by {grant['made_by']}  "
        f"{visible(grant.get('words', '')).text}{_exactly(http, grant)}{_suspended(grant)}"
    )


def _suspended(grant: dict[str, Any]) -> str:
    """Return why a grant decides nothing for now; empty when it decides."""
    if rests := grant.get("rests"):
        return (
            f"  suspended: {visible(rests['why']).text}; let the agent ask again, and remember that"
        )
    if grant.get("suspended"):
        return "  suspended: too few of those who remembered it may still approve here"
    return ""


def _exactly(http: HttpPool, grant: dict[str, Any]) -> str:
    """Return what an exact grant covers: it holds a digest of it, its request the rest."""
    asked = grant.get("from_request")
    if grant["match"]["shape"] != Shape.EXACT or asked is None or grant.get("erased"):
        return ""
    try:
        seen, fits = runs(http.call("GET", f"/v1/requests/{asked}"))
    except NotFound:
        return f": request {asked}, which is no longer kept"
    return f": {seen}" if fits else f": {seen} (`gateway show {asked}`)"
