"""Commands of people who answer, over HTTP, with an approver's own token."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateway.cli.formatting import line, named, runs, whole
from gateway.client.http_pool import HttpPool
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized, Unreachable
from gateway.models import Action, Status, new_id
from gateway.server.first_run import OWNER_FILE
from gateway.wire.local_discovery import FILE_NAME, read_private, secret, state_folder

_ID_LENGTH = 32
_PAGE = 200  # requests at a time


async def pending(options: argparse.Namespace) -> int:
    """List what waits."""
    return await asyncio.to_thread(_list, "status=pending", options, "nothing waits")


async def history(options: argparse.Namespace) -> int:
    """List what ended, answered or not."""
    return await asyncio.to_thread(_list, "final=true", options, "nothing has ended yet")


async def show(options: argparse.Namespace) -> int:
    """Show one request."""
    with connection() as http:
        record = await asyncio.to_thread(find_request, http, _split(options.id)[0])
        if options.reveal:
            path = f"/v1/requests/{record['request']['id']}?reveal=true"
            record = await asyncio.to_thread(http.call, "GET", path)
        print(json.dumps(record) if options.json else whole(record))
        return 0


async def approve(options: argparse.Namespace) -> int:
    """Approve one request, or several: all of them or none."""
    body = {"action": Action.APPROVE.value, **_remember(options)}
    if len(options.ids) > 1:
        return await asyncio.to_thread(_decide_all, options, body)
    return await asyncio.to_thread(_decide, options.ids[0], {**body, "confirmed": options.yes})


async def deny(options: argparse.Namespace) -> int:
    """Deny one request, or several: all of them or none."""
    body = {
        "action": Action.DENY.value,
        "message": options.reason,
        "feedback": options.feedback,
        **_remember(options),
    }
    if len(options.ids) > 1:
        return await asyncio.to_thread(_decide_all, options, body)
    return await asyncio.to_thread(_decide, options.ids[0], body)


async def sessions(options: argparse.Namespace) -> int:
    """List sessions, or end one."""
    return await asyncio.to_thread(_sessions, options)


def _sessions(options: argparse.Namespace) -> int:
    agent, name = options.agent, options.end
    if name is not None and agent is None:
        raise InvalidRequest("a session belongs to an agent: name it with --agent")
    query = "" if agent is None else f"?agent={quote(agent, safe='')}"
    with connection() as http:
        rows = http.call("GET", f"/v1/sessions{query}")["items"]
        if name is None:
            return listed(rows, options, "{agent:24} {name}".format_map, "no session is open")
        if name not in [row["name"] for row in rows]:
            raise NotFound(f"{agent} has no open session {name}: see `gateway sessions`")
        ended = http.call("POST", f"/v1/sessions/{quote(name, safe='')}/end{query}", {})
    count = len(ended["cancelled"])
    said = f"the session {name} of {agent} has ended; requests cancelled with it: {count}"
    print(json.dumps(ended) if options.json else said)
    return 0


async def agents_paused(options: argparse.Namespace) -> int:
    """List the agents that ask nobody for now."""
    with connection() as http:
        rows = (await asyncio.to_thread(http.call, "GET", "/v1/agents/paused"))["items"]
    if options.json:
        print(json.dumps(rows))
        return 0
    return listed(rows, options, _pause, "no agent is paused")


def _pause(one: dict[str, Any]) -> str:
    until = datetime.fromtimestamp(one["until"] / 1000, UTC).isoformat(timespec="seconds")
    return f"{one['agent']}  until {until}, or `gateway agent lift {one['agent']}`"


async def agent_lift(options: argparse.Namespace) -> int:
    """Let an agent ask again whom people denied too often."""
    path = f"/v1/agents/{quote(options.name, safe='')}/lift"
    with connection() as http:
        try:
            done = await asyncio.to_thread(http.call, "POST", path, {})
        except NotFound:
            raise NotFound(f"there is no agent {options.name}") from None
    print(f"{options.name} may ask again" if done["lifted"] else f"{options.name} was not paused")
    return 0


def _remember(options: argparse.Namespace) -> dict[str, Any]:
    """Return the member that asks to remember the decision; nothing when it is not to be."""
    said = {
        "lifetime": options.lifetime,
        "max_uses": options.uses,
        "everywhere": options.everywhere or None,
    }
    how = {name: value for name, value in said.items() if value is not None}
    if options.remember is not None:
        return {"remember": {"offer": options.remember, **how}}
    if how:
        raise InvalidRequest(
            "--for, --uses and --everywhere say how an answer is remembered: add --remember"
        )
    return {}


def connection() -> HttpPool:
    """Return a connection with the caller's approver token, or the local owner's."""
    folder = Path(state_folder())
    url = os.environ.get("GATEWAY_URL") or (read_private(folder / FILE_NAME) or {}).get("url")
    owner = folder / OWNER_FILE
    token = secret("GATEWAY_APPROVER_TOKEN") or (read_private(owner) or {}).get("token")
    if not url:
        raise Unreachable(
            f"no gateway of yours runs on {folder}: start `gateway up`, or name the folder of the "
            "one that runs in GATEWAY_DATA_DIR, or its address in GATEWAY_URL"
        )
    if not token:
        raise Unauthorized("set GATEWAY_APPROVER_TOKEN to the token of `gateway approver add NAME`")
    return HttpPool(url, token)


def listed(
    rows: Iterable[dict[str, Any]],
    options: argparse.Namespace,
    written: Callable[[dict[str, Any]], str],
    nothing: str,
) -> int:
    """Print each row; when there is none, tell a person so beside the output."""
    empty = True
    for row in rows:
        empty = False
        print(json.dumps(row) if options.json else written(row))
    if empty and not options.json:
        print(nothing, file=sys.stderr)
    return 0


def find_request(http: HttpPool, wanted: str) -> dict[str, Any]:
    """Return the request with this id, or the one whose id begins so: first of what waits."""
    if len(wanted) == _ID_LENGTH:
        found: dict[str, Any] = http.call("GET", f"/v1/requests/{wanted}")
        return found
    for records in (_all(http, "status=pending"), islice(_all(http, "final=true"), _PAGE)):
        matches = [one for one in records if one["request"]["id"].startswith(wanted)]
        if len(matches) > 1:
            raise Conflict(f"{len(matches)} requests begin with {wanted}; write more of the id")
        if matches:
            return matches[0]
    raise NotFound(
        f"no request begins with {wanted}: none that waits (`gateway pending`), and none of the "
        f"last {_PAGE} others (`gateway history`); an older one is found by its whole id"
    )


def _list(which: str, options: argparse.Namespace, nothing: str) -> int:
    with connection() as http:
        return listed(_all(http, which), options, line, nothing)


def _all(http: HttpPool, which: str) -> Iterator[dict[str, Any]]:
    after = ""
    while True:
        page = http.call("GET", f"/v1/requests?{which}&limit={_PAGE}{after}")
        yield from page["items"]
        if not page.get("next"):
            return
        after = f"&after={page['next']}"


def _split(wanted: str) -> tuple[str, int | None]:
    """Return the id, or its beginning, and the revision of ID@REVISION."""
    name, at, revision = wanted.partition("@")
    if at and not revision.isdecimal():
        raise InvalidRequest(f"{wanted} is no ID@REVISION, as `gateway pending` prints it")
    return name, int(revision) if at else None


def _meant(http: HttpPool, wanted: str, action: Action) -> tuple[dict[str, Any], int]:
    """Return the request that a person means, and the revision of it that they saw.

    Agents choose their ids, and may withdraw a request to ask for something else under an id that
    begins the same. So an approval names the whole id, which stays with what was asked, and the
    revision too once somebody has edited that.
    """
    name, revision = _split(wanted)
    record = find_request(http, name)
    if action is Action.APPROVE:
        _check_approvable(record)
        now = f"it is now\n  {line(record)}\nto approve that: gateway approve {named(record)}"
        if len(name) < _ID_LENGTH:
            raise InvalidRequest(
                f"{wanted} is the beginning of an id, which may change hands; {now}"
            )
        if revision is None and record["digest"] != record["request"]["digest"]:
            raise InvalidRequest(f"this was edited since it was asked; {now}")
    return record, record["revision"] if revision is None else revision


def _check_approvable(record: dict[str, Any]) -> None:
    """Raise InvalidRequest when a request waits for another answer than approve."""
    request = record["request"]
    allowed = request.get("allowed", [Action.APPROVE])  # left out where it may be approved
    fits = Action.APPROVE in allowed and not request.get("questions")
    if record["status"] == Status.PENDING and not fits:
        raise InvalidRequest(
            "this wants another answer than approve, and the command line fills in no form and "
            "edits nothing: deny it here, or use the inbox (`gateway login NAME`), `gateway "
            "adapter terminal` or HTTP"
        )


def _check_fits(record: dict[str, Any]) -> None:
    """Raise InvalidRequest when its line is not all that there is to read of a request."""
    if not runs(record)[1]:
        shown = f"`gateway show {record['request']['id']}`"
        raise InvalidRequest(f"this does not fit its line: read {shown}, then add --yes")


def _decide(wanted: str, body: dict[str, Any]) -> int:
    with connection() as http:
        record, revision = _meant(http, wanted, Action(body["action"]))
        risk = record.get("risk") or {}
        if body.get("confirmed") is False:
            if risk.get("level") == "high":
                raise InvalidRequest("this is high risk: read `gateway show ID`, then add --yes")
            _check_fits(record)
        click = {**body, "revision": revision, "nonce": new_id()}
        print(line(http.call("POST", f"/v1/requests/{record['request']['id']}/decide", click)))
        return 0


def _decide_all(options: argparse.Namespace, body: dict[str, Any]) -> int:
    """Decide several requests by one call, which decides all of them or none."""
    if options.remember is not None:
        raise InvalidRequest("what is decided together is not remembered: answer it alone")
    with connection() as http:
        found = [_meant(http, wanted, Action(body["action"])) for wanted in options.ids]
        if Action(body["action"]) is Action.APPROVE and not options.yes:
            for record, _ in found:
                _check_fits(record)
        items = {record["request"]["id"]: revision for record, revision in found}
        ticked = [{"id": name, "revision": revision} for name, revision in items.items()]
        after = http.call("POST", "/v1/batches", {**body, "items": ticked, "nonce": new_id()})
        for record in after["items"]:
            print(line(record))
        return 0
