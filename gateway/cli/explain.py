"""`gateway explain`: how a call would be decided. Nothing is asked and nothing is stored."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
from dataclasses import replace
from typing import Any

from gateway.cli.http_access import connect_as_approver
from gateway.domain.safe_text import make_visible
from gateway.domain.step_up import StepUp, say_ways
from gateway.errors import InvalidRequest
from gateway.models import ApprovalRequest, Context, Kind, digest_of, new_id
from gateway.wire.canonical_json import parse
from gateway.wire.codec import plain


async def run(options: argparse.Namespace) -> int:
    """Print the opinion of each decider, hooks included, and the result: the gateway's own."""
    request = _build_request(options)
    with connect_as_approver() as http:
        answer = http.call("POST", "/v1/explain", {"request": plain(request)})
    context = request.context
    if options.json:
        where = {"session": request.session, "kind": request.kind.value, "cwd": context.cwd}
        print(json.dumps({**answer, **where}))
        return 0
    if not answer.get("known", True):
        print(f"there is no agent {request.agent} so far; if there were:")
    print(f"kind {request.kind}, session {request.session}, in {context.cwd}")
    _print_answer(answer)
    return 0


def _build_request(options: argparse.Namespace) -> ApprovalRequest:
    """Return the request that `gateway ask` would send from this folder."""
    try:
        arguments = parse(options.arguments.encode())
    except InvalidRequest as error:
        raise InvalidRequest(f"--arguments: {error}") from error
    if not isinstance(arguments, dict):
        raise InvalidRequest("--arguments takes a JSON object")
    if options.words:
        arguments["command"] = shlex.join(options.words)
    draft = ApprovalRequest(
        id=new_id(),
        agent=options.agent,
        tool=options.tool,
        arguments=arguments,
        digest="0" * 64,
        kind=Kind.COMMAND if options.words else Kind(options.kind),
        session=options.session,
        context=Context(cwd=options.cwd or os.getcwd(), host=socket.gethostname()),  # noqa: PTH109
    )
    return replace(draft, digest=digest_of(draft))


def _print_answer(answer: dict[str, Any]) -> None:
    risk = answer["risk"]
    who = ", ".join(answer["approvers"]) or "nobody"
    print(f"route {answer['route']} at {risk['level']} risk: {answer['quorum']} of {who}")
    print(f"shown in {', '.join(answer['targets'])}")
    if ways := answer.get("step_up"):
        print(f"approving takes {say_ways(map(StepUp, ways))}")
    because = "".join(f": {reason}" for reason in risk.get("reasons", ()))
    print(make_visible(f"risk {risk['level']}{because}").text.replace("\n", " "))
    print(f"kill switch: {'on, everything is denied' if answer['stopped'] else 'off'}")
    for one in answer["arguments"]:
        address = make_visible(one["address"]).text
        print(f"argument {address}: {one['role']} (said by {one['said_by']}), {one['varies']}")
    for one in answer["doubts"]:
        print(f"not understood: {make_visible(one).text}")
    for one in answer["findings"]:
        print(f"finding at {make_visible(one['place']).text}: {make_visible(one['words']).text}")
    for one in answer["grants"]:
        why = f"does not cover it: {one.get('differs')}" if one.get("differs") else "covers it"
        print(make_visible(f"remembered {one['id'][:8]}, {one['words']}: {why}").text)
    for one in answer["deciders"]:
        said = f"{one['effect']} {one.get('message', '')}"
        print(f"{one['priority']:5} {one['decider']:16} {said}".rstrip())
        for raised in one.get("raised", ()):
            print(make_visible(f"      raises the risk to {raised['level']}").text)
    print(f"result: {answer['result']}")
