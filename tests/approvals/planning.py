"""Plans of the tests: a few lines, and how ann approves them."""

from __future__ import annotations

from typing import Any

from gateway.domain.records import StoredRequest
from gateway.models import Action, Context, Kind
from gateway.policy.grants.grant import Grant
from tests.world import World, click

Line = dict[str, Any]

HERE = Context(cwd="/srv/app", host="build-1")
TEST: Line = {"tool": "shell", "arguments": {"command": "make test"}}
SEND: Line = {"tool": "send_email", "arguments": {"to": "ana@example.com", "subject": "Report"}}
REPORT: Line = {**SEND, "any_text": ["body"], "times": 2}
WRITE: Line = {"tool": "write_file", "arguments": {"path": "/srv/app/notes.txt"}}
NOTES: Line = {**WRITE, "any_text": ["content"]}


def listed(*lines: Line, minutes: int = 60) -> dict[str, Any]:
    """Return the arguments of a plan of these lines."""
    return {"calls": list(lines), "minutes": minutes}


async def plan(world: World, *lines: Line, minutes: int = 60, **more: Any) -> StoredRequest:
    """Submit a plan of these lines."""
    arguments = listed(*lines, minutes=minutes)
    members: dict[str, Any] = {"tool": "plan", "kind": Kind.CALLS, "context": HERE, **more}
    return await world.submit(arguments=arguments, **members)


async def agree(world: World, record: StoredRequest, **how: Any) -> StoredRequest:
    """Approve a plan as ann, who has read all of it."""
    return await world.core.requests.decide(click(record, **{"confirmed": True, **how}))


async def strike(
    world: World, record: StoredRequest, *left: Line, minutes: int = 60, **how: Any
) -> StoredRequest:
    """Approve what is left of a plan."""
    arguments = listed(*left, minutes=minutes)
    return await agree(world, record, action=Action.EDIT, arguments=arguments, **how)


async def planned(world: World, *lines: Line, **more: Any) -> StoredRequest:
    """Return a plan of these lines that ann approved."""
    return await agree(world, await plan(world, *lines, **more))


async def call(world: World, line: Line, **changes: Any) -> StoredRequest:
    """Submit the call of a line, with other members."""
    members = {"tool": line["tool"], "arguments": line["arguments"], "context": HERE, **changes}
    return await world.submit(**members)


async def report(world: World, body: Any = "All is well.", **changes: Any) -> StoredRequest:
    """Submit the message of REPORT with a text."""
    return await call(world, {**SEND, "arguments": {**SEND["arguments"], "body": body}}, **changes)


async def grants(world: World) -> dict[int, Grant]:
    """Return the live grants of plans by their lines."""
    return {one.line: one for one in await world.core.grants.all() if one.line is not None}
