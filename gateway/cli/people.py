"""Commands of people who answer, over HTTP, with an approver's own token."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateway.client.http import Http
from gateway.discovery import FILE_NAME, read_private, secret, state_folder
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized
from gateway.models import Action, new_id
from gateway.newcomers import OWNER_FILE

_ID_LENGTH = 32


async def pending(options: argparse.Namespace) -> int:
    """List what waits."""
    return await asyncio.to_thread(_list, "status=pending", options)


async def history(options: argparse.Namespace) -> int:
    """List what was answered."""
    return await asyncio.to_thread(_list, "final=true", options)


async def show(options: argparse.Namespace) -> int:
    """Show one request."""
    with connection() as http:
        record = await asyncio.to_thread(find_request, http, options.id)
        print(json.dumps(record, indent=None if options.json else 2, ensure_ascii=options.json))
        return 0


async def approve(options: argparse.Namespace) -> int:
    """Approve one request, or several: all of them or none."""
    body: dict[str, Any] = {"action": Action.APPROVE.value}
    if len(options.ids) > 1:
        return await asyncio.to_thread(_decide_all, options, body)
    body |= {"confirmed": options.yes, **_remember(options)}
    return await asyncio.to_thread(_decide, options.ids[0], body)


async def deny(options: argparse.Namespace) -> int:
    """Deny one request, or several: all of them or none."""
    body = {
        "action": Action.DENY.value,
        "message": options.reason,
        "feedback": options.feedback,
    }
    if len(options.ids) > 1:
        return await asyncio.to_thread(_decide_all, options, body)
    return await asyncio.to_thread(_decide, options.ids[0], {**body, **_remember(options)})


async def sessions(options: argparse.Namespace) -> int:
    """List sessions, or end one."""
    with connection() as http:
        if options.end:
            path = f"/v1/sessions/{options.end}/end?agent={options.agent or ''}"
            ended = await asyncio.to_thread(http.call, "POST", path, {})
            print(json.dumps(ended))
            return 0
        query = f"?agent={options.agent}" if options.agent else ""
        found = await asyncio.to_thread(http.call, "GET", f"/v1/sessions{query}")
        for row in found["items"]:
            print(json.dumps(row) if options.json else f"{row['agent']:24} {row['name']}")
        return 0


async def agents_paused(options: argparse.Namespace) -> int:
    """List the agents that ask nobody for now."""
    with connection() as http:
        rows = (await asyncio.to_thread(http.call, "GET", "/v1/agents/paused"))["items"]
    if options.json:
        print(json.dumps(rows))
    for one in () if options.json else rows:
        until = datetime.fromtimestamp(one["until"] / 1000, UTC).isoformat(timespec="seconds")
        print(f"{one['agent']}  until {until}, or `gateway agent lift {one['agent']}`")
    return 0


async def agent_lift(options: argparse.Namespace) -> int:
    """Let an agent ask again whom people denied too often."""
    path = f"/v1/agents/{quote(options.name, safe='')}/lift"
    with connection() as http:
        done = await asyncio.to_thread(http.call, "POST", path, {})
    print(f"{options.name} may ask again" if done["lifted"] else f"{options.name} was not paused")
    return 0


def _remember(options: argparse.Namespace) -> dict[str, Any]:
    """Return the member that asks to remember the decision; nothing when it is not to be."""
    if options.remember is None:
        return {}
    wish = {"offer": options.remember, "lifetime": options.lifetime}
    if options.uses is not None:
        wish["max_uses"] = options.uses
    return {"remember": {**wish, "everywhere": options.everywhere}}


def connection() -> Http:
    """Return a connection with the caller's approver token, or the local owner's."""
    folder = Path(state_folder())
    url = os.environ.get("GATEWAY_URL") or (read_private(folder / FILE_NAME) or {}).get("url")
    owner = folder / OWNER_FILE
    token = secret("GATEWAY_APPROVER_TOKEN") or (read_private(owner) or {}).get("token")
    if not url:
        raise NotFound("no gateway is running here; start one, or set GATEWAY_URL")
    if not token:
        raise Unauthorized("set GATEWAY_APPROVER_TOKEN to the token of `gateway approver add NAME`")
    return Http(url, token)


def _list(which: str, options: argparse.Namespace) -> int:
    with connection() as http:
        after = ""
        while True:
            page = http.call("GET", f"/v1/requests?{which}&limit=100{after}")
            for record in page["items"]:
                print(json.dumps(record) if options.json else _line(record))
            if not page.get("next"):
                return 0
            after = f"&after={page['next']}"


def _line(record: dict[str, Any]) -> str:
    request = record["request"]
    shown = json.dumps(request.get("arguments", {}))
    return (
        f"{request['id'][:8]}  {record['status']:9}  {request['agent']:16} "
        f"{request['tool']:20} {shown}"
    )


def find_request(http: Http, wanted: str) -> dict[str, Any]:
    """Return the request with this id, or the one whose id begins so: first of what waits."""
    if len(wanted) == _ID_LENGTH:
        found: dict[str, Any] = http.call("GET", f"/v1/requests/{wanted}")
        return found
    for which in ("status=pending", "final=true"):
        page = http.call("GET", f"/v1/requests?{which}&limit=200")
        matches = [one for one in page["items"] if one["request"]["id"].startswith(wanted)]
        if len(matches) > 1:
            raise Conflict(f"{len(matches)} requests begin with {wanted}; write more of the id")
        if matches:
            match: dict[str, Any] = matches[0]
            return match
    raise NotFound(f"no request that waits, and none of the last 200 others, begins with {wanted}")


def _decide(wanted: str, body: dict[str, Any]) -> int:
    with connection() as http:
        record = find_request(http, wanted)
        request_id = record["request"]["id"]
        click = {**body, "revision": record["revision"], "nonce": new_id()}
        risk = record.get("risk") or {}
        if body.get("confirmed") is False and risk.get("level") == "high":
            raise InvalidRequest("this is high risk: read `gateway show ID`, then add --yes")
        after = http.call("POST", f"/v1/requests/{request_id}/decide", click)
        print(f"{request_id[:8]} {after['status']}")
        return 0


def _decide_all(options: argparse.Namespace, body: dict[str, Any]) -> int:
    """Decide several requests by one call, which decides all of them or none."""
    if options.remember is not None:
        raise InvalidRequest("what is decided together is not remembered: answer it alone")
    with connection() as http:
        found = {one["request"]["id"]: one for one in (find_request(http, i) for i in options.ids)}
        items = [{"id": name, "revision": record["revision"]} for name, record in found.items()]
        after = http.call("POST", "/v1/batches", {**body, "items": items, "nonce": new_id()})
        for record in after["items"]:
            print(f"{record['request']['id'][:8]} {record['status']}")
        return 0
