"""`gateway mcp proxy`: relay between one client and one server, and gate tool calls. See `serve`.

Messages pass unchanged in both directions and in every protocol version. The exceptions are
`tools/call`, which waits for approval, the listing of tools, and cancellations.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.dispatcher import CallOptions, DispatchContext, Outbound, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_INFO_META_KEY, INVALID_PARAMS, PROTOCOL_VERSION_META_KEY, RequestId

from gateway.client import OutcomeKind
from gateway.integrations.coding_agents.pipe import HostPipe, TooLong
from gateway.integrations.mcp.calls import CallGate, McpCall, Tool, result_of
from gateway.models import Execution
from gateway.wire.codec import JsonObject

_OWN_SETTINGS = "GATEWAY_"
# The dispatcher itself handles these notifications.
_HANDLED = ("notifications/cancelled", "notifications/progress")
_LISTING_SECONDS = 10.0
_LONGEST_NOISE = 200
_MOST_PAGES = 50
_MOST_TOOLS = 10_000
_NEVER_CANCELLED = ("initialize", "server/discover")

Params = Mapping[str, Any] | None
Streams = tuple[Any, Any]
Open = Callable[[], AbstractAsyncContextManager[Streams]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server that the proxy calls: a command to start, or an address with a token."""

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
                    if not name.startswith(_OWN_SETTINGS)  # it could use the agent's token
                }
                own = StdioServerParameters(
                    command=self.command[0], args=list(self.command[1:]), env=kept, cwd=Path.cwd()
                )
                logging.getLogger(stdio_client.__module__).addFilter(_shorten)
                yield await stack.enter_async_context(stdio_client(own, errlog=sys.stderr))
                return
            headers = {"Authorization": f"Bearer {self.token}"} if self.token else None
            client = await stack.enter_async_context(create_mcp_http_client(headers=headers))
            transport = streamable_http_client(self.url, http_client=client)
            yield await stack.enter_async_context(transport)


def _shorten(record: logging.LogRecord) -> bool:
    """Shorten the SDK's log about invalid messages to one line. Many servers print a greeting."""
    error = record.exc_info[1] if record.exc_info else None
    read: Any = getattr(error, "errors", None)  # a validation error of the SDK
    if isinstance(error, ValueError) and read is not None:
        shown = repr(read()[0]["input"])[:_LONGEST_NOISE]
        record.msg, record.args = f"skipped a line that is not an MCP message: {shown}", ()
        record.exc_info = None
    return True


@asynccontextmanager
async def link(
    open_server: Open, peer: Callable[[], Outbound], gate: CallGate
) -> AsyncIterator[tuple[Relay, anyio.Event]]:
    """Open a server. Yield a relay to the server, and an event that is set when the server has
    ended.

    Requests and notifications of the server go to `peer`.
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
    """Serve one client until the client ends; return whether the server ended first. Raises
    OSError."""
    up: JSONRPCDispatcher[Any] = JSONRPCDispatcher(*streams)
    waiting: dict[object, Outbound] = {}

    def peer() -> Outbound:
        """Return the newest open request, because over HTTP each request has a separate stream."""
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


class Relay:
    """Relay the messages of one client to one server, and gate its tool calls."""

    def __init__(self, gate: CallGate, server: Outbound) -> None:
        self._gate = gate
        self._server = server
        self._tools: dict[str, Tool] = {}
        self._client = ""
        self._version: str | None = None
        self._listings = 0

    async def request(
        self,
        method: str,
        params: Params,
        request_id: RequestId | None,
        tell: ProgressFnT,
    ) -> JsonObject:
        """Answer a client's request. `request_id` is the id to use for the server, or None. `tell`
        sends the client a progress note. Raises MCPError."""
        given = dict(params or {})
        if method == "tools/call":
            return await self._call_tool(given, request_id, tell)
        if method == "initialize":
            self._client = _client_of(given.get("clientInfo"))
        result = await self._send(method, given, request_id, tell)
        if method == "initialize" and isinstance(result.get("protocolVersion"), str):
            self._version = result["protocolVersion"]
        return self._learn(given, result) if method == "tools/list" else result

    async def notify(self, method: str, params: Params) -> None:
        """Pass on a client's notification. Skip a cancellation, because the server is informed when
        the request is cancelled. Drop a tool call without an id."""
        if method not in ("notifications/cancelled", "tools/call"):
            await self._server.notify(method, params, self._options(method, dict(params or {})))

    def note(self, method: str) -> None:
        """Process a notification of the server: if its list of tools changed, forget the known
        tools."""
        if method == "notifications/tools/list_changed":
            self._tools.clear()

    async def _call_tool(
        self,
        params: JsonObject,
        request_id: RequestId | None,
        tell: ProgressFnT,
    ) -> JsonObject:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise MCPError(
                INVALID_PARAMS, "tools/call needs a name, and its arguments must be an object"
            )

        async def wait(told: int, number: str) -> None:  # below the first progress of the server
            words = f"waiting for approval; {number}" if number else "waiting for approval"
            await tell(told / 1_000_000, None, words)

        meta = _meta_of(params)
        tool = await self._find(name, meta)
        client = _client_of(meta.get(CLIENT_INFO_META_KEY)) or self._client
        call = McpCall(params=params, tool=tool, client=client, tell=wait)
        answered = await self._gate.ask(call)
        outcome = answered.outcome
        if outcome.kind is OutcomeKind.RESPONDED:
            answered.report(Execution.SKIPPED)
        if not outcome.runs or outcome.arguments is None:
            told = result_of(outcome)
            return {**told, "resultType": "complete"} if _version_of(params) else told
        if arguments is not None or outcome.arguments:
            params = {**params, "arguments": outcome.arguments}
        began = time.monotonic()
        try:
            result = await self._send("tools/call", params, request_id, tell)
        except BaseException as error:
            answered.report(Execution.FAILED, detail=type(error).__name__)
            raise
        spent = int((time.monotonic() - began) * 1000)
        answered.report(_execution_of(result), duration_ms=spent)
        return result

    async def _find(self, name: str, meta: JsonObject) -> Tool | None:
        """Return the server's description of a tool. If the client did not list the tools, list
        them first."""
        if name in self._tools:
            return self._tools[name]
        kept = {key: value for key, value in meta.items() if key != "progressToken"}
        params: JsonObject = {"_meta": kept} if kept else {}
        try:
            with anyio.fail_after(_LISTING_SECONDS):
                for _ in range(_MOST_PAGES):
                    self._listings += 1
                    page = await self._send("tools/list", params, f"gateway-{self._listings}")
                    self._learn(params, page)
                    if name in self._tools or not isinstance(page.get("nextCursor"), str):
                        break
                    params = {**params, "cursor": page["nextCursor"]}
        except (MCPError, TimeoutError):
            return None  # people are asked nevertheless, and the call itself shows the error
        return self._tools.get(name)

    def _learn(self, params: JsonObject, result: JsonObject) -> JsonObject:
        """Save the tools in a listing, and return the listing for the client."""
        told = result.get("tools")
        if not isinstance(told, list):
            return result
        if params.get("cursor") is None:
            self._tools.clear()
        for tool in map(Tool.read, told):
            if tool is not None and len(self._tools) < _MOST_TOOLS:
                self._tools[tool.name] = tool
        # Clients check results, and a text by a person would not fit the schema.
        shown = [_without(tool, "outputSchema") for tool in told]
        return {**result, "tools": shown}

    async def _send(
        self,
        method: str,
        params: JsonObject,
        request_id: RequestId | None,
        tell: ProgressFnT | None = None,
    ) -> JsonObject:
        opts = self._options(method, params)
        if tell is not None and "progressToken" in _meta_of(params):
            opts["on_progress"] = tell
        if request_id is not None:
            opts["request_id"] = request_id
        if method in _NEVER_CANCELLED:
            opts["cancel_on_abandon"] = False
        return await self._server.send_raw_request(method, params, opts)

    def _options(self, method: str, params: JsonObject) -> CallOptions:
        """Return the headers that the protocol requires over HTTP."""
        version = _version_of(params)
        if version is None:
            return (
                {"headers": {MCP_PROTOCOL_VERSION_HEADER: self._version}} if self._version else {}
            )
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            tool = self._tools.get(name) if method == "tools/call" else None
            if tool is not None and tool.schema is not None:
                mirrored = x_mcp_header_map(tool.schema)
                headers |= mcp_param_headers(mirrored, params.get("arguments") or {})
        return {"headers": headers}


def _meta_of(params: JsonObject) -> JsonObject:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _version_of(params: JsonObject) -> str | None:
    """Return the protocol version in a message. Only versions since 2026-07-28 send their
    number."""
    version = _meta_of(params).get(PROTOCOL_VERSION_META_KEY)
    return version if isinstance(version, str) else None


def _client_of(told: Any) -> str:
    """Return the name and version that a client claims, or "" if it sends none."""
    if not isinstance(told, dict):
        return ""
    return " ".join(one for one in (told.get("name"), told.get("version")) if isinstance(one, str))


def _execution_of(result: JsonObject) -> Execution:
    if result.get("resultType") == "input_required":  # the client calls again, with a new request
        return Execution.STARTED
    return Execution.FAILED if result.get("isError") is True else Execution.SUCCEEDED


def _without(tool: Any, name: str) -> Any:
    if not isinstance(tool, dict):
        return tool
    return {key: value for key, value in tool.items() if key != name}


# Standard input and output as streams of MCP messages.

LONGEST_MESSAGE = 16 * 1024 * 1024

Read = MemoryObjectReceiveStream[SessionMessage | Exception]
Write = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def own_pipes() -> AsyncIterator[tuple[Read, Write]]:
    """Yield the streams of messages from and to the program that started this process."""
    to_us, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, to_host = anyio.create_memory_object_stream[SessionMessage](0)
    async with HostPipe.opened(longest=LONGEST_MESSAGE) as pipe, anyio.create_task_group() as tasks:
        tasks.start_soon(_take, pipe, to_us)
        tasks.start_soon(_give, pipe, to_host)
        try:
            yield read, write
        finally:
            tasks.cancel_scope.cancel()


async def _take(pipe: HostPipe, to_us: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    """Read messages until the input or the receiving stream is closed."""
    async with to_us:
        while True:
            try:
                line = await pipe.next_line()
                if line is None:
                    return
                if line.strip():
                    read = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await to_us.send(SessionMessage(read))
            except TooLong as error:
                _refuse(pipe, str(error))
            except ValueError:
                _refuse(pipe, "the line is not a JSON-RPC 2.0 message")
            except anyio.BrokenResourceError:
                return


async def _give(pipe: HostPipe, to_host: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with to_host:
        async for told in to_host:
            pipe.write(told.message.model_dump_json(by_alias=True, exclude_unset=True).encode())


def _refuse(pipe: HostPipe, why: str) -> None:
    """Reply to a skipped line with an error. The error has no id, because a batch has several
    ids."""
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=why)
    told = mcp_types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
    pipe.write(told.model_dump_json(by_alias=True, exclude_unset=True).encode())
