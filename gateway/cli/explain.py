"""`gateway explain`: how a call would be decided. Nothing is asked and nothing is stored."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from gateway.cli.redis_access import connect_backend, operator_core
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Record
from gateway.domain.redaction import mask
from gateway.domain.risk_rules import lift
from gateway.domain.safe_text import make_visible
from gateway.errors import InvalidRequest
from gateway.models import ApprovalRequest, Context, Kind, digest_of, new_id
from gateway.policy.calls.roles import VARYING
from gateway.policy.calls.touches import Leaf, touches_of
from gateway.policy.chain import Opinion, find_decisive
from gateway.policy.grants.coverage import what_differs
from gateway.policy.grants.grant import Effect, Grant, Shape
from gateway.policy.guardrails import find_signs
from gateway.policy.hooks.host import host_hooks
from gateway.server.settings import Settings
from gateway.stores.credentials import AGENT
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject


async def run(options: argparse.Namespace) -> int:
    """Print the opinion of each decider, hooks included, and the result."""
    request = _build_request(options)
    hooks = host_hooks(Settings().hooks_file)
    async with connect_backend() as found, hooks.running():
        store = found.store
        core = operator_core(found, hooks)
        opinions = await core.approvals.explain(request)
        stopped = await store.is_stopped()
        policy = await store.policy()
        record = await core.approvals.draft(request)
        grants = [one for one in await core.grants.all() if _is_about(one, record)]
        agents = {agent.name for agent in await found.credentials.list_all(AGENT)}
    answer = mask(_build_answer(record, policy, opinions, grants, stopped=stopped))
    if options.json:
        print(json.dumps(answer))
        return 0
    if request.agent not in agents:
        print(f"there is no agent {request.agent} so far; if there were:")
    _print_answer(answer)
    return 0


def _is_about(grant: Grant, record: Record) -> bool:
    """Whether a remembered approval of the same tool might cover a call, but for what it runs."""
    request = record.request
    near = (grant.agent, grant.match.tool) == (request.agent, request.tool)
    allows = grant.effect is Effect.ALLOW and grant.match.shape is Shape.PATTERN
    return near and allows and grant.session in (None, request.session)


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


def _build_answer(
    record: Record,
    policy: PolicyDocument,
    opinions: Sequence[Opinion],
    grants: Sequence[Grant],
    *,
    stopped: bool,
) -> JsonObject:
    request = record.request
    route = policy.route_for(request.agent, request.tool)
    risk = lift(record.risk, [raised for one in opinions for raised in one.raised])
    decided = find_decisive(opinions)
    result = f"{decided.effect} by {decided.decider}" if decided else "people are asked"
    return {
        "digest": request.digest,
        "stopped": stopped,
        "risk": {"level": risk.level.value, "reasons": list(risk.reasons)},
        "route": route.name,
        "targets": list(route.targets),
        "approvers": list(route.approvers),
        "quorum": route.quorum,
        "arguments": [_describe(leaf) for one in touches_of(record) for leaf in one.leaves],
        "doubts": [
            f"{one.address}: {one.words}" for call in touches_of(record) for one in call.doubts
        ],
        "findings": [{"place": one.place, "words": one.words} for one in find_signs(record)],
        "grants": [
            {"id": one.id, "words": one.words, "differs": what_differs(one, record)}
            for one in grants
        ],
        "deciders": [asdict(opinion) for opinion in opinions],
        "session": request.session,
        "kind": request.kind.value,
        "cwd": request.context.cwd,
        "result": "denied: the kill switch is on" if stopped else result,
    }


def _describe(leaf: Leaf) -> JsonObject:
    """Return what one value is taken for, who says so, and under what it may differ."""
    if leaf.free:
        varies = "may differ"
    elif leaf.role in VARYING:
        varies = "may differ under a rule that reads it"
    else:
        varies = "stays as it is"
    return {
        "address": leaf.address,
        "role": leaf.role.value,
        "said_by": leaf.source.value,
        "varies": varies,
    }


def _print_answer(answer: dict[str, Any]) -> None:
    risk = answer["risk"]
    print(f"kind {answer['kind']}, session {answer['session']}, in {answer['cwd']}")
    who = ", ".join(answer["approvers"]) or "nobody"
    print(f"route {answer['route']}: {answer['quorum']} of {who}")
    print(f"shown in {', '.join(answer['targets'])}")
    because = "".join(f": {reason}" for reason in risk["reasons"])
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
        why = f"does not cover it: {one['differs']}" if one["differs"] else "covers it"
        print(make_visible(f"remembered {one['id'][:8]}, {one['words']}: {why}").text)
    for one in answer["deciders"]:
        print(f"{one['priority']:5} {one['decider']:16} {one['effect']} {one['message']}".rstrip())
        for raised in one["raised"]:
            print(make_visible(f"      raises the risk to {raised['level']}").text)
    print(f"result: {answer['result']}")
