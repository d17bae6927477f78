"""Serve the clients of `gateway mcp proxy` over streamable HTTP at `/mcp`. Start at `listen`.

A client of an older protocol version, with a handshake, gets a separate session and server.
Messages since version 2026-07-28 have no session. All these messages share one server, and their
requests share one session.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.abc
import mcp_types
import uvicorn
from mcp.server.context import CallNext, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware, TransportSecuritySettings
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from gateway.errors import Misconfigured
from gateway.integrations.mcp.calls import CallGate
from gateway.integrations.mcp.proxy import Open, Params, Relay, link, serve
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.integrations")

PATH = "/mcp"
_MOST_SESSIONS = 100
_IDLE_SECONDS = 1800.0
_GOODBYE_SECONDS = 2
_LOOPBACK = ("127.0.0.1:*", "localhost:*", "[::1]:*")

Context = ServerRequestContext[Any, Any]


class Subscribers:
    """The streams of clients that listen for changes. Without a request, the shared server sends
    only notifications of changes."""

    def __init__(self) -> None:
        self._open: dict[str, Context] = {}
        self._opened = 0

    @asynccontextmanager
    async def opened(self, context: Context) -> AsyncIterator[str]:
        """Add a client's stream, and yield its name for the server."""
        self._opened += 1
        name = f"gateway-listen-{self._opened}"
        self._open[name] = context
        try:
            yield name
        finally:
            del self._open[name]

    async def send_raw_request(
        self, method: str, params: Params, opts: CallOptions | None = None
    ) -> JsonObject:
        """Raise MCPError, because servers of this version send no requests to clients."""
        raise MCPError(
            mcp_types.METHOD_NOT_FOUND, f"an MCP client here does not accept the request {method}"
        )

    async def notify(self, method: str, params: Params, opts: CallOptions | None = None) -> None:
        """Pass a notification to the stream that it names."""
        given = dict(params or {})
        meta = given.get("_meta")
        name = meta.get(SUBSCRIPTION_ID_META_KEY) if isinstance(meta, dict) else None
        context = self._open.get(name) if isinstance(name, str) else None
        if context is None or context.request_id is None:
            return
        told: Any = mcp_types.JSONRPCNotification(
            jsonrpc="2.0", method=method, params=rename(given, context)
        )
        await context.session.send_notification(told, related_request_id=context.request_id)


def rename(values: JsonObject, context: Context) -> JsonObject:
    """Return a message or result in which the stream has the client's id."""
    meta = values.get("_meta")
    if not isinstance(meta, dict) or SUBSCRIPTION_ID_META_KEY not in meta:
        return values
    known = {**meta, SUBSCRIPTION_ID_META_KEY: context.request_id}
    return {**values, "_meta": known}


class ProxyServer:
    """The ASGI application at one address. Use it inside `running`."""

    def __init__(
        self,
        open_server: Open,
        make_gate: Callable[[], CallGate],
        *,
        token: str | None,
        loopback: bool,
    ) -> None:
        self._open = open_server
        self._make_gate = make_gate
        self._token = token
        self._security = TransportSecuritySettings(
            enable_dns_rebinding_protection=loopback,
            allowed_hosts=list(_LOOPBACK),
            allowed_origins=[f"http://{host}" for host in _LOOPBACK],
        )
        self._sessions: dict[str, StreamableHTTPServerTransport] = {}
        relayed: Server[Any] = Server("approval-gateway")
        relayed.middleware.append(self._relay)
        self._manager = StreamableHTTPSessionManager(relayed, security_settings=self._security)
        self._application = RequestBodyLimitMiddleware(self._answer, 4 * 1024 * 1024)
        self._subscribers = Subscribers()
        self._opening = anyio.Lock()
        self._shared: tuple[Relay, anyio.Event] | None = None
        self._tasks: anyio.abc.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ProxyServer]:
        """Serve inside the block. At the end of the block, every session ends."""
        async with self._manager.run(), anyio.create_task_group() as self._tasks:
            yield self
            self._tasks.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        await self._application(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if scope["path"] != PATH:
            await PlainTextResponse("not here", 404)(scope, receive, send)
        elif not self._may_enter(headers.get("authorization", "")):
            refused = {"WWW-Authenticate": "Bearer"}
            await PlainTextResponse("a token is missing", 401, refused)(scope, receive, send)
        elif (
            headers.get("mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[-1])
            in HANDSHAKE_PROTOCOL_VERSIONS
        ):
            await self._answer_in_session(headers.get("mcp-session-id"), scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    def _may_enter(self, authorization: str) -> bool:
        if self._token is None:
            return True
        return hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode())

    async def _answer_in_session(
        self, session: str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if session is not None:
            known = self._sessions.get(session)
            if known is None:
                await PlainTextResponse("no such session", 404)(scope, receive, send)
            else:
                await known.handle_request(scope, receive, send)
            return
        if len(self._sessions) >= _MOST_SESSIONS:
            await PlainTextResponse("too many sessions", 503)(scope, receive, send)
            return
        transport = StreamableHTTPServerTransport(
            uuid.uuid4().hex, security_settings=self._security, idle_timeout=_IDLE_SECONDS
        )
        statuses: list[int] = []

        async def watch(message: Any) -> None:
            if "status" in message:
                statuses.append(message["status"])
            await send(message)

        await self._tasks.start(self._hold_session, transport)
        await transport.handle_request(scope, receive, watch)
        if not statuses or statuses[-1] >= 400:  # noqa: PLR2004 (an error): it did not start
            await transport.terminate()

    async def _hold_session(
        self,
        transport: StreamableHTTPServerTransport,
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        name = transport.mcp_session_id or ""
        self._sessions[name] = transport
        try:
            async with transport.connect() as streams:
                task_status.started()
                with transport.idle_scope or anyio.CancelScope():
                    await serve(streams, self._open, self._make_gate())
        except Exception:  # the other sessions go on
            log.exception("an MCP session has failed")
        finally:
            del self._sessions[name]
            with anyio.CancelScope(shield=True):
                await transport.terminate()

    async def _relay(self, ctx: Context, call_next: CallNext) -> JsonObject | None:
        """Answer one message of the newer protocol version. Notifications are ignored."""
        if ctx.request_id is None:
            return None
        relay = await self._share()
        method, tell = ctx.method, ctx.session.report_progress
        if method != "subscriptions/listen":
            return await relay.request(method, ctx.params, None, tell)
        async with self._subscribers.opened(ctx) as name:
            return rename(await relay.request(method, ctx.params, name, tell), ctx)

    async def _share(self) -> Relay:
        """Return the relay for messages without a session. If its server has ended, start the
        server again."""
        async with self._opening:
            if self._shared is None or self._shared[1].is_set():
                self._shared = await self._tasks.start(self._hold_shared)
            assert self._shared is not None
            return self._shared[0]

    async def _hold_shared(
        self, *, task_status: anyio.abc.TaskStatus[tuple[Relay, anyio.Event]]
    ) -> None:
        peer, began = self._subscribers, False
        try:
            async with link(self._open, lambda: peer, self._make_gate()) as (relay, gone):
                task_status.started((relay, gone))
                began = True
                await gone.wait()
        except Exception:  # the next message starts another server
            if not began:
                raise
            log.exception("the shared MCP server has failed")


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Server(uvicorn.Server):
    """A server that can be stopped with `stop`. It does not use Uvicorn's signal handling, which
    would raise the signal again before pending requests are cancelled."""

    def stop(self) -> None:
        """Make the server end as soon as the running calls have ended."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing, so that Uvicorn handles no signals."""
        yield


async def listen(front: Callable[[bool], ProxyServer], place: str, token: str | None) -> None:
    """Serve at `place` (HOST:PORT) until a signal. Raises Misconfigured or OSError.

    `front` makes the application; its argument says whether the address is reachable only from this
    machine.
    """
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        raise Misconfigured("--listen must be HOST:PORT")
    loopback = is_loopback(host)
    if not loopback and token is None:
        raise Misconfigured(
            f"--listen {place}: other machines can reach this address, so set GATEWAY_MCP_TOKEN, "
            "and give it to the clients as their bearer token"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, int(port)), family=family) as listening:
        place = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"gateway mcp: http://{place}:{listening.getsockname()[1]}{PATH}\n")
        async with front(loopback).running() as application:
            server = _Server(
                uvicorn.Config(
                    application, lifespan="off", log_config=None, access_log=False,
                    timeout_graceful_shutdown=_GOODBYE_SECONDS,
                )
            )  # fmt: skip
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, server.stop)
            await server.serve(sockets=[listening])
