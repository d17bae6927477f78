"""`gateway grant …`, `stop-all` and `resume`: manage grants and the kill switch as an approver."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import Any
from urllib.parse import quote

from gateway.cards.shared_texts import LIFT, KillSwitch
from gateway.cli.http_access import ID_LENGTH, connect_as_approver, find_request
from gateway.cli.redis_access import connect_backend
from gateway.cli.requests import format_json, print_rows, quote_name, say, summarize_action, until
from gateway.client.http_connection import HttpPool
from gateway.domain.safe_text import make_visible, show_masked
from gateway.errors import InvalidRequest, NotFound
from gateway.models import new_id
from gateway.policy.grants.grant import Shape
from gateway.wire.canonical_json import parse


def show_all(options: argparse.Namespace) -> int:
    """List grants."""
    with connect_as_approver() as http:
        found = [one for one in _read_all(http) if options.agent in (None, one["agent"])]
        nothing = "there are no grants"
        if options.suspended:
            found = [one for one in found if _why_suspended(one)]
            nothing = "no grants are suspended"
        return print_rows(found, options, partial(_format_grant, http), nothing)


def show(options: argparse.Namespace) -> int:
    """Show one grant."""
    with connect_as_approver() as http:
        grant = _find(http, options.id)
        if not options.json:
            print(_format_grant(http, grant))
    print(format_json(grant, options))
    return 0


def add_pass(options: argparse.Namespace) -> int:
    """Create a session pass, which approves a session's requests for a limited time."""
    body = {"what": options.what, "hours": options.hours}
    if options.next is not None:
        body["max_uses"] = options.next
    path = f"/v1/sessions/{quote(options.session, safe='')}/pass?agent={quote(options.agent)}"
    with connect_as_approver(acting=True) as http:
        _print_grant(http, http.call("POST", path, body), options)
    return 0


def _print_grant(http: HttpPool, grant: dict[str, Any], options: argparse.Namespace) -> None:
    print(json.dumps(grant) if options.json else _format_grant(http, grant))


def add(options: argparse.Namespace) -> int:
    """Create a grant from an example call and an offered scope. Without a scope, print the offered
    scopes."""
    with connect_as_approver(acting=options.offer is not None) as http:
        effect = "deny" if options.deny else "allow"
        body = {"agent": options.agent, "effect": effect, "example": _read_example(http, options)}
        if options.offer is None:
            _refuse_limits(options)
            for offer in http.call("POST", "/v1/grants/offers", body)["offers"]:
                say(offer, f"{offer['id']}  {show_masked(offer['words']).text}", options)
            print("choose one of them with --offer ID; nothing was saved yet", file=sys.stderr)
            return 2
        limits = {
            "session": options.session, "lifetime": options.lifetime, "max_uses": options.uses
        }  # fmt: skip
        body |= {name: value for name, value in limits.items() if value is not None}
        body |= {"offer": options.offer, "nonce": new_id()}
        _print_grant(http, http.call("POST", "/v1/grants", body), options)
    return 0


def _refuse_limits(options: argparse.Namespace) -> None:
    if (options.session, options.lifetime, options.uses) != (None, None, None):
        raise InvalidRequest("--session, --for and --uses need --offer: choose which offer to save")


def _read_example(http: HttpPool, options: argparse.Namespace) -> dict[str, Any]:
    """Return the example that the options name. Raises InvalidRequest."""
    where = {"cwd": options.cwd, "host": options.host}
    context = {name: value for name, value in where.items() if value is not None}
    if options.like is not None:
        if context or options.arguments is not None or options.kind is not None:
            raise InvalidRequest(
                "with --like, leave out the call: the request already states "
                "the call, its folder and its host"
            )
        return {"request": find_request(http, options.like)["request"]["id"]}
    try:
        arguments = parse((options.arguments or "{}").encode())
    except InvalidRequest as error:
        raise InvalidRequest(f"--arguments: {error}") from error
    if not isinstance(arguments, dict):
        raise InvalidRequest("--arguments must be a JSON object")
    example = {"tool": options.tool, "kind": options.kind or "tool", "arguments": arguments}
    return {**example, "context": context} if context else example


def offers(options: argparse.Namespace) -> int:
    """Print the scopes that a grant of a request may have, and what each one would match."""
    with connect_as_approver() as http:
        request_id = find_request(http, options.id)["request"]["id"]
        found = http.call("GET", f"/v1/requests/{request_id}/offers")
        if options.json:
            print(json.dumps(found))
            return 0
        for action in ("approve", "deny"):
            for offer in found.get(action, ()):
                print(f"{action:8} {offer['id']}  {show_masked(offer['words']).text}")
        for offer in found.get("host", ()):
            print(f"approve  {offer['id']}  {show_masked(offer['words']).text}")
        for offer in found.get("approve", ()):
            reach = http.call("GET", f"/v1/requests/{request_id}/reach?offer={offer['id']}")
            print(f"{offer['id']}: {make_visible(reach['words']).text}")
        return 0


def revoke(options: argparse.Namespace) -> int:
    """Revoke one grant, or all grants of a session, of an agent, or of everybody."""
    with connect_as_approver(acting=True) as http:
        if options.id is not None:
            grant = _find(http, options.id)
            http.call("POST", f"/v1/grants/{grant['id']}/revoke", {})
            say({"ids": [grant["id"]]}, f"{grant['id']} is revoked", options)
            return 0
        whose = {"agent": options.agent, "session": options.session}
        id_and_revision = {name: value for name, value in whose.items() if value is not None}
        if not id_and_revision and not options.all:
            raise InvalidRequest("name a grant, --agent, --session or --all")
        ended = http.call("POST", "/v1/grants/revoke", id_and_revision)
        say(ended, f"{len(ended['ids'])} revoked", options)
        return 0


def _read_all(http: HttpPool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = http.call("GET", f"/v1/grants?limit=200{after}")
        found += page["items"]
        if not page.get("next"):
            return found
        after = f"&after={page['next']}"


def _find(http: HttpPool, wanted: str) -> dict[str, Any]:
    if len(wanted) == ID_LENGTH:
        grant: dict[str, Any] = http.call("GET", f"/v1/grants/{wanted}")
        return grant
    matches = [grant for grant in _read_all(http) if grant["id"].startswith(wanted)]
    if len(matches) > 1:
        raise InvalidRequest(
            f"{len(matches)} grant ids begin with {wanted}; give more characters of the id"
        )
    if not matches:
        raise NotFound(
            f"no active grant has an id that begins with {wanted}: see `gateway grant list`; to "
            "find an ended grant, give its whole id"
        )
    return matches[0]


def _format_grant(http: HttpPool, grant: dict[str, Any]) -> str:
    """Return a grant as lines: its id, agent and lifetime; its scope; who created it; and, if it is
    suspended, the reason."""
    most = f" of {grant['max_uses']}" if "max_uses" in grant else ""
    where = f"session {quote_name(grant['session'])}" if "session" in grant else "all sessions"
    lines = [
        f"{grant['id']}  {grant['effect']} agent {quote_name(grant['agent'])}, {where}, "
        f"{_format_end(grant)}",
        _format_exact_match(http, grant) or show_masked(grant.get("words", "")).text,
        f"tool {quote_name(grant['match']['tool'])}, used {grant.get('used', 0)}{most} times, "
        f"{_format_backing(grant)}",
        _why_suspended(grant),
    ]
    return "\n     ".join(filter(None, lines))


def _format_end(grant: dict[str, Any]) -> str:
    if "expires_at" not in grant:
        return "until revoked"
    return f"until {until(grant['expires_at'])}"


def _format_backing(grant: dict[str, Any]) -> str:
    """Return a line that names who saved a grant, and the other people whose votes the grant
    needs."""
    by = grant["made_by"]
    others = [one["person"] for one in grant.get("backers", ()) if one["person"] != by]
    return f"made by {by}" + (f", with the votes of {', '.join(others)}" if others else "")


def _why_suspended(grant: dict[str, Any]) -> str:
    """Return the reason why a grant is suspended, or "" if it is active."""
    if outdated := grant.get("outdated"):
        why = make_visible(outdated["why"]).text
        return f"suspended: {why}; let the agent ask again, and remember that decision"
    if grant.get("suspended"):
        return "suspended: too few of the people who approved this grant may still approve here"
    return ""


def _format_exact_match(http: HttpPool, grant: dict[str, Any]) -> str:
    """Return the call that an exact grant matches, read from the request it was created from, or ""
    if that request does not contain the call."""
    asked = grant.get("from_request")
    if grant["match"]["shape"] != Shape.EXACT or asked is None or grant.get("erased"):
        return ""
    try:
        seen, fits = summarize_action(http.call("GET", f"/v1/requests/{asked}"))
    except NotFound:
        return ""
    return f"exactly this: {seen}" if fits else f"exactly this: {seen} (`gateway show {asked}`)"


# `gateway stop-all` and `gateway resume`: the kill switch.


async def stop_all(options: argparse.Namespace) -> int:
    """Turn the kill switch on."""
    async with connect_backend(acting=True) as found:
        waiting = await found.store.count_pending()
        await found.store.set_stopped(True, by=options.by)
    sentence = KillSwitch(on=True, waiting=waiting).stopped
    told = {"stopped": True, "waiting": waiting}
    say(told, f"{sentence}\n`gateway resume` turns the kill switch off: {LIFT}", options)
    return 0


async def resume(options: argparse.Namespace) -> int:
    """Turn the kill switch off."""
    async with connect_backend(acting=True) as found:
        await found.store.set_stopped(False, by=options.by)
    say({"stopped": False}, LIFT, options)
    return 0
