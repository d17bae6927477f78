"""Asks for approval from inside a running tool, which knows details that its caller does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from gateway.client.approval import Approval
from gateway.client.blocking import Client, current_client
from gateway.wire.codec import JsonObject


@dataclass(frozen=True, slots=True)
class RunningTool:
    """The gated tool that runs in this context, and the client that asked for it."""

    tool: str
    client: Client


_running_tool: ContextVar[RunningTool | None] = ContextVar("gateway_tool", default=None)


@contextmanager
def enter_tool(tool: str, client: Client) -> Iterator[None]:
    """Make a gated tool and its client the ones that `confirm` uses inside the block."""
    token = _running_tool.set(RunningTool(tool, client))
    try:
        yield
    finally:
        _running_tool.reset(token)


def confirm(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running tool, through the client that asked for it. Raises as
    `AsyncClient.ask` does."""
    tool, client = _tool_and_client()
    return client.ask(tool, {"confirm": hint}, hint=hint, payload=payload, **details)


async def confirm_async(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running coroutine tool. See `confirm`."""
    tool, client = _tool_and_client()
    request = client.request(tool, {"confirm": hint}, hint=hint, payload=payload, **details)
    return await client.run_on_loop(client.inner.send(request))


def _tool_and_client() -> tuple[str, Client]:
    found = _running_tool.get()
    return (found.tool, found.client) if found else ("confirm", current_client())
