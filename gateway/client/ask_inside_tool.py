"""Asks for approval from inside a running tool, which knows details that its caller does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from gateway.client.approval import Approval
from gateway.client.blocking import Client, current_client
from gateway.models import Context
from gateway.wire.codec import JsonObject


@dataclass(frozen=True, slots=True)
class RunningTool:
    """The gated tool that runs, the client that asked, and where its author says that it works."""

    tool: str
    client: Client
    context: Context | None


_running_tool: ContextVar[RunningTool | None] = ContextVar("gateway_tool", default=None)


@contextmanager
def enter_tool(tool: str, client: Client, context: Context | None) -> Iterator[None]:
    """Make a gated tool, its client and place the ones that `confirm` uses inside the block."""
    token = _running_tool.set(RunningTool(tool, client, context))
    try:
        yield
    finally:
        _running_tool.reset(token)


def confirm(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running tool, through the client that asked for it, with its `context`
    unless another is given. Raises as `AsyncClient.ask` does."""
    running = _running()
    details = {"context": running.context, **details}
    return running.client.ask(
        running.tool, {"confirm": hint}, hint=hint, payload=payload, **details
    )


async def confirm_async(hint: str, payload: JsonObject | None = None, **details: Any) -> Approval:
    """Ask from inside a running coroutine tool. See `confirm`."""
    running = _running()
    client, details = running.client, {"context": running.context, **details}
    request = client.request(running.tool, {"confirm": hint}, hint=hint, payload=payload, **details)
    return await client.run_on_loop(client.inner.send(request))


def _running() -> RunningTool:
    return _running_tool.get() or RunningTool("confirm", current_client(), None)
