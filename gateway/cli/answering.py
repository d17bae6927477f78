"""`gateway approve` and `gateway deny`: answer requests with an approver's own token."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from gateway.cli.formatting import format_line, id_and_revision, say, summarize_action
from gateway.cli.http_access import ID_LENGTH, connect_as_approver, find_request
from gateway.client.http_pool import HttpPool
from gateway.errors import InvalidRequest
from gateway.models import Action, Status, new_id


async def approve(options: argparse.Namespace) -> int:
    """Approve one request, or several: all of them or none."""
    body = {"action": Action.APPROVE.value, **_remember(options)}
    if len(options.ids) > 1:
        if options.number:
            raise InvalidRequest("what takes a number is approved alone")
        return await asyncio.to_thread(_decide_all, options, body)
    typed = {"number": options.number} if options.number else {}
    return await asyncio.to_thread(_decide, options, {**body, **typed, "confirmed": options.yes})


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
    return await asyncio.to_thread(_decide, options, body)


def _remember(options: argparse.Namespace) -> dict[str, Any]:
    """Return the `remember` member of an answer, empty without --remember."""
    options_given = {
        "lifetime": options.lifetime,
        "max_uses": options.uses,
        "everywhere": options.everywhere or None,
    }
    how = {name: value for name, value in options_given.items() if value is not None}
    if options.remember is not None:
        return {"remember": {"offer": options.remember, **how}}
    if how:
        raise InvalidRequest(
            "--for, --uses and --everywhere say how an answer is remembered: add --remember"
        )
    return {}


def split_revision(wanted: str) -> tuple[str, int | None]:
    """Return the id, or its beginning, and the revision of ID@REVISION."""
    name, at, revision = wanted.partition("@")
    if at and not revision.isdecimal():
        raise InvalidRequest(f"{wanted} is no ID@REVISION, as `gateway pending` prints it")
    return name, int(revision) if at else None


def _find_for_answer(http: HttpPool, wanted: str, action: Action) -> tuple[dict[str, Any], int]:
    """Return the request that a person names, and the revision that they saw.

    Agents choose ids, and may withdraw a request and ask for something else under an id that begins
    the same. So an approval must name the whole id, and the revision too once the request was
    edited.
    """
    name, revision = split_revision(wanted)
    record = find_request(http, name)
    if action is Action.APPROVE:
        _check_approvable(record)
        command = f"gateway approve {id_and_revision(record)}"
        now = f"it is now\n  {format_line(record)}\nto approve that: {command}"
        if len(name) < ID_LENGTH:
            raise InvalidRequest(
                f"{wanted} is the beginning of an id, which may change hands; {now}"
            )
        if revision is None and record["digest"] != record["request"]["digest"]:
            raise InvalidRequest(f"this was edited since it was asked; {now}")
    return record, record["revision"] if revision is None else revision


def _check_approvable(record: dict[str, Any]) -> None:
    """Raise InvalidRequest when a pending request cannot be approved from the command line."""
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
    """Raise InvalidRequest when the one-line form of a request leaves something out."""
    if not summarize_action(record)[1]:
        shown = f"`gateway show {record['request']['id']}`"
        raise InvalidRequest(f"this does not fit its line: read {shown}, then add --yes")


def _decide(options: argparse.Namespace, body: dict[str, Any]) -> int:
    [wanted] = options.ids
    with connect_as_approver(acting=True) as http:
        record, revision = _find_for_answer(http, wanted, Action(body["action"]))
        risk = record.get("risk") or {}
        if body.get("confirmed") is False:
            if risk.get("level") == "high" and "number" not in body:
                shown = f"`gateway show {record['request']['id']}`"
                raise InvalidRequest(f"this is high risk: read {shown}, then add --yes")
            _check_fits(record)
        click = {**body, "revision": revision, "nonce": new_id()}
        done = http.call("POST", f"/v1/requests/{record['request']['id']}/decide", click)
        say(done, format_line(done), options)
        return 0


def _decide_all(options: argparse.Namespace, body: dict[str, Any]) -> int:
    """Decide several requests in one call: all of them or none."""
    if options.remember is not None:
        raise InvalidRequest("what is decided together is not remembered: answer it alone")
    with connect_as_approver(acting=True) as http:
        found = [_find_for_answer(http, wanted, Action(body["action"])) for wanted in options.ids]
        if Action(body["action"]) is Action.APPROVE and not options.yes:
            for record, _ in found:
                _check_fits(record)
        items = {record["request"]["id"]: revision for record, revision in found}
        ticked = [{"id": name, "revision": revision} for name, revision in items.items()]
        after = http.call("POST", "/v1/batches", {**body, "items": ticked, "nonce": new_id()})
        for record in after["items"]:
            say(record, format_line(record), options)
        return 0
