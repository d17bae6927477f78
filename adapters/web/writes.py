"""Handlers of write calls: checks of the sender and of the body."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from adapters.web.security import Guard, Handler, Refused, Visitor, read_json_body, run_to_end
from gateway.ports import JsonObject, parse_json

Work = Callable[[web.Request, Visitor, JsonObject], Coroutine[Any, Any, web.Response]]


def build_write_handler(
    guard: Guard, work: Work, members: dict[str, type], needed: tuple[str, ...] = ()
) -> Handler:
    """Return a handler that checks the visitor and the body before it does the work."""

    async def serve(request: web.Request) -> web.StreamResponse:
        visitor = await guard.check_writer(request)
        body = check_members(parse_json(await read_json_body(request)), members, needed)
        return await run_to_end(work(request, visitor, body))

    return serve


def check_members(body: Any, members: dict[str, type], needed: tuple[str, ...]) -> JsonObject:
    """Return a JSON object. Raises Refused for unknown, missing or wrongly typed members."""
    if not isinstance(body, dict):
        raise Refused(422, "invalid_request", "send one JSON object")
    for name, value in body.items():
        kind = members.get(name)
        if kind is None or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Refused(422, "invalid_request", f"{name[:40]} is unknown, or of another type")
    for name in needed:
        if name not in body:
            raise Refused(422, "invalid_request", f"{name} is missing")
    return body
