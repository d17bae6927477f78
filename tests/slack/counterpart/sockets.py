"""Socket Mode: tickets, at most ten sockets, each envelope to exactly one of them."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from tests.slack.counterpart.state import Json, State

MOST_SOCKETS = 10


@dataclass(eq=False)
class Envelope:
    """One envelope and what became of it: `answer` is the ack's payload, None until acked."""

    id: str
    body: Json
    acked: asyncio.Event = field(default_factory=asyncio.Event)
    answer: Json | None = None
    sent: int = 0
    acks: int = 0


class Sockets:
    """The open sockets of the app."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tickets: set[str] = set()
        self.open: list[web.WebSocketResponse] = []
        self.refuses = ""  # the error of apps.connections.open
        self.off = False  # Socket Mode is turned off in the app's settings
        self.deaf = False  # connected, pinging, but nothing is delivered
        self.mute = False  # pings are not answered
        self.connected = 0
        self.sent_ns = 0  # when the last envelope left, of the monotonic clock
        self._turn = 0
        self.on_ack: Callable[[], None] = lambda: None
        self._envelopes: dict[str, Envelope] = {}

    def ticket(self, url: str) -> str:
        """Return the address of a new socket, good once."""
        name = secrets.token_hex(8)
        self._tickets.add(name)
        return f"{url.replace('http', 'ws', 1)}link/{name}"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one socket until it closes."""
        name = request.match_info["ticket"]
        if name not in self._tickets:
            return web.Response(status=404)
        self._tickets.discard(name)
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        if self.off or len(self.open) >= MOST_SOCKETS:
            reason = "link_disabled" if self.off else "too_many_websockets"
            await socket.send_json({"type": "disconnect", "reason": reason})
            await socket.close()
            return socket
        self.open.append(socket)
        self.connected += 1
        await socket.send_json(
            {
                "type": "hello",
                "num_connections": len(self.open),
                "connection_info": {"app_id": self._state.app_id},
                "debug_info": {"host": "counterpart", "approximate_connection_time": 18060},
            }
        )
        self._state.ring()
        try:
            await self._read(socket)
        finally:
            self.open.remove(socket)
            self._state.ring()
        return socket

    async def _read(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type is WSMsgType.PING and not self.mute:
                await socket.pong(message.data)
            elif message.type is WSMsgType.TEXT:
                self._acked(json.loads(message.data))

    def _acked(self, answer: Json) -> None:
        envelope = self._envelopes.get(answer.get("envelope_id", ""))
        if envelope is None:
            return
        envelope.acks += 1
        self.on_ack()
        if not envelope.acked.is_set():
            envelope.answer = answer.get("payload") or {}
            envelope.acked.set()
        self._state.ring()

    async def deliver(self, kind: str, payload: Json, *, retry: int = 0) -> Envelope:
        """Send a payload in a new envelope to one of the sockets."""
        name = f"env-{self._state.number()}"
        accepts = kind != "events_api"
        body: Json = {
            "envelope_id": name,
            "type": kind,
            "accepts_response_payload": accepts,
            "payload": payload,
        }
        if retry:
            body |= {"retry_attempt": retry, "retry_reason": "timeout"}
        envelope = self._envelopes[name] = Envelope(name, body)
        await self.send(envelope)
        return envelope

    async def send(self, envelope: Envelope) -> None:
        """Send an envelope, perhaps again; each time to the next socket."""
        if self.deaf:
            return
        await self._state.until(lambda: self._alive)
        self._turn += 1
        socket = self._alive[self._turn % len(self._alive)]
        envelope.sent += 1
        self.sent_ns = time.monotonic_ns()
        await socket.send_json(envelope.body)

    @property
    def _alive(self) -> list[web.WebSocketResponse]:
        return [socket for socket in self.open if not socket.closed]

    async def disconnect(self, reason: str) -> None:
        """Tell every socket to go: `warning` keeps it open, the others close it."""
        for socket in list(self.open):
            await socket.send_json({"type": "disconnect", "reason": reason, "debug_info": {}})
            if reason != "warning":
                await socket.close()

    async def drop(self) -> None:
        """Cut every socket without a word."""
        for socket in list(self.open):
            await socket.close()
