"""`gateway mcp proxy`: opens the server that it stands before, and serves one client."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from gateway.integrations.mcp_calls import CallGate
from gateway.integrations.mcp_relay import Peer, Relay
from gateway.wire.codec import JsonObject

_OWN_SETTINGS = "GATEWAY_"
# The dispatcher applies them to what they are about, whose id or token they name.
_HANDLED = ("notifications/cancelled", "notifications/progress")

Streams = tuple[Any, Any]
Open = Callable[[], AbstractAsyncContextManager[Streams]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server behind the proxy: a command, or an address with a token."""

    command: tuple[str, ...] = ()
    url: str | None = None
    token: str | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Streams]:
        """Yield the streams of messages from and to the server. Raises OSError."""
        async with AsyncExitStack() as stack:
            if self.url is None:
                kept = {
                    name: value
                    for name, value in os.environ.items()
                    if not name.startswith(_OWN_SETTINGS)  # it could ask in the agent's name
                }
                own = StdioServerParameters(
                    command=self.command[0], args=list(self.command[1:]), env=kept, cwd=Path.cwd()
                )
                yield await stack.enter_async_context(stdio_client(own, errlog=sys.stderr))
                return
            headers = {"Authorization": f"Bearer {self.token}"} if self.token else None
            client = await stack.enter_async_context(create_mcp_http_client(headers=headers))
            transport = streamable_http_client(self.url, http_client=client)
            yield await stack.enter_async_context(transport)


@asynccontextmanager
async def link(
    open_server: Open, peer: Callable[[], Peer], gate: CallGate
) -> AsyncIterator[tuple[Relay, anyio.Event]]:
    """Yield a relay to a server that was opened for it, and what is set when the server is gone.

    What the server says by itself goes to `peer`.
    """
    gone = anyio.Event()
    async with open_server() as streams, anyio.create_task_group() as tasks:
        down: JSONRPCDispatcher[Any] = JSONRPCDispatcher(*streams)
        relay = Relay(gate, down)

        async def ask_client(
            context: DispatchContext[Any], method: str, params: Mapping[str, Any] | None
        ) -> JsonObject:
            opts: Any = {} if context.request_id is None else {"request_id": context.request_id}
            return await peer().send_raw_request(method, params, opts)

        async def tell_client(
            context: DispatchContext[Any], method: str, params: Mapping[str, Any] | None
        ) -> None:
            relay.note(method)
            if method not in _HANDLED:
                await peer().notify(method, params)

        async def read(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            try:
                await down.run(ask_client, tell_client, task_status=task_status)
            finally:
                gone.set()

        await tasks.start(read)
        try:
            yield relay, gone
        finally:
            with anyio.CancelScope(shield=True):
                await gate.close()
            tasks.cancel_scope.cancel()


async def serve(streams: Streams, open_server: Open, gate: CallGate) -> bool:
    """Serve one client until it is gone; return whether the server went first. Raises OSError."""
    up: JSONRPCDispatcher[Any] = JSONRPCDispatcher(*streams)
    waiting: dict[object, Peer] = {}

    def peer() -> Peer:
        """Return the newest request that waits: over HTTP, it has a stream of its own."""
        return next(reversed(waiting.values()), up)

    async with link(open_server, peer, gate) as (relay, gone):

        async def answer(
            context: DispatchContext[Any], method: str, params: Mapping[str, Any] | None
        ) -> JsonObject:
            key = object()
            waiting[key] = context
            try:
                return await relay.request(method, params, context.request_id, context.progress)
            finally:
                del waiting[key]

        async def take(
            context: DispatchContext[Any], method: str, params: Mapping[str, Any] | None
        ) -> None:
            await relay.notify(method, params)

        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                await gone.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(leave)
            await up.run(answer, take)
            tasks.cancel_scope.cancel()
        return gone.is_set()
