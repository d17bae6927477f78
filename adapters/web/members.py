"""What a write of the page may say: one JSON object with known members of known types."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from adapters.web.guard import Refused, json_body
from gateway.canonical import parse
from gateway.wire import JsonObject


async def written(request: web.Request) -> Any:
    """Return the JSON that a write carries."""
    return parse(await json_body(request))


def checked(body: Any, members: dict[str, type], needed: tuple[str, ...]) -> JsonObject:
    """Return a body if its members are the ones there are, each of its type."""
    if not isinstance(body, dict):
        raise Refused(422, "invalid_request", "send one JSON object")
    for name, value in body.items():
        kind = members.get(name)
        if kind is None or not isinstance(value, kind) or (kind is int and value is True):
            raise Refused(422, "invalid_request", f"{name[:40]} is unknown, or of another type")
    for name in needed:
        if name not in body:
            raise Refused(422, "invalid_request", f"{name} is missing")
    return body
