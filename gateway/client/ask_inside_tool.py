"""Asking from inside a running tool, for what only it knows."""

from __future__ import annotations

from typing import Any

from gateway.client.approval import Approval
from gateway.client.blocking import Client, current_client
from gateway.client.context import running_tool
from gateway.wire.codec import JsonObject


def confirm(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running tool, through the client that asked for it. Raises as
    `AsyncClient.ask` does."""
    tool, client = _asking()
    return client.ask(tool, {"confirm": hint}, hint=hint, payload=payload, **details)


async def confirm_async(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running coroutine tool. See `confirm`."""
    tool, client = _asking()
    request = client.request(tool, {"confirm": hint}, hint=hint, payload=payload, **details)
    return await client.there(client.inner.send(request))


def _asking() -> tuple[str, Client]:
    found = running_tool.get()
    return (found.tool, found.client) if found else ("confirm", current_client())
