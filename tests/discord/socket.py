"""The gateway websocket of the wire-level Discord: sessions, replay, and the ways it breaks."""

from __future__ import annotations

import asyncio
import json
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.discord.town import DIRECT, Application, Channel, Json, Town

GUILDS, MEMBERS, GUILD_MESSAGES, PRESENCES = 1 << 0, 1 << 1, 1 << 9, 1 << 8
DIRECT_MESSAGES, MESSAGE_CONTENT = 1 << 12, 1 << 15
PRIVILEGED = MEMBERS | PRESENCES | MESSAGE_CONTENT
_NEEDS = {
    "MESSAGE_CREATE": (GUILD_MESSAGES, DIRECT_MESSAGES),
    "MESSAGE_UPDATE": (GUILD_MESSAGES, DIRECT_MESSAGES),
    "MESSAGE_DELETE": (GUILD_MESSAGES, DIRECT_MESSAGES),
    "THREAD_CREATE": (GUILDS, GUILDS),
}


class Wire:
    """One open websocket, with the compression that the client asked for."""

    def __init__(self, socket: web.WebSocketResponse, compress: str | None) -> None:
        self.socket = socket
        self._zlib = zlib.compressobj() if compress == "zlib-stream" else None

    async def send(self, message: Json) -> None:
        text = json.dumps(message)
        if self._zlib is None:
            await self.socket.send_str(text)
            return
        data = self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
        await self.socket.send_bytes(data)


@dataclass
class Session:
    """What Discord keeps of one IDENTIFY: the events sent, so that RESUME can replay them."""

    id: str
    app: Application
    intents: int
    sequence: int = 0
    sent: list[Json] = field(default_factory=list)
    wire: Wire | None = None


class Gateway:
    """All sessions. What a test sets: `refuse` closes new connections with this code, `mute` stops
    acknowledging heartbeats, `fickle` ends every session as it begins."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.url = ""
        self.sessions: dict[str, Session] = {}
        self.identified = 0
        self.resumed = 0
        self.connections = 0
        self.refuse: int | None = None
        self.mute = False
        self.fickle = False
        self.heartbeat_ms = 41_250
        self.down = 0  # so many handshakes fail
        self.changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        town.changed.append(self.announce)

    # --- connections -------------------------------------------------------------------------

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one websocket until it closes."""
        if self.down:
            self.down -= 1
            self._note()
            return web.Response(status=503)
        socket = web.WebSocketResponse(autoping=True)
        await socket.prepare(request)
        self.connections += 1
        wire = Wire(socket, request.query.get("compress"))
        await wire.send({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}, "s": None})
        session: Session | None = None
        try:
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    break
                session = await self._received(wire, json.loads(message.data), session)
        finally:
            if session is not None and session.wire is wire:
                session.wire = None
                self._note()
        return socket

    async def _received(self, wire: Wire, frame: Json, session: Session | None) -> Session | None:
        match frame["op"]:
            case 1 if not self.mute:
                await wire.send({"op": 11, "d": None, "s": None})
            case 2:
                return await self._identify(wire, frame["d"])
            case 6:
                return await self._resume(wire, frame["d"])
        return session

    async def _identify(self, wire: Wire, data: Json) -> Session | None:
        app = self.town.applications.get(data["token"])
        code = self.refuse or (4004 if app is None else None)
        if app is not None and data["intents"] & PRIVILEGED and not app.privileged:
            code = 4014
        if code is not None or app is None:
            await wire.socket.close(code=code or 4004)
            return None
        self.identified += 1
        session = Session(secrets.token_hex(16), app, data["intents"], wire=wire)
        if self.fickle:
            await wire.send({"op": 9, "d": False, "s": None})
            return None
        self.sessions[session.id] = session
        await self._greet(session)
        return session

    async def _greet(self, session: Session) -> None:
        guilds = [one for one in self.town.guilds.values() if session.app.user.id in one.members]
        await self._push(
            session,
            "READY",
            {
                "v": 10,
                "user": session.app.user.json(),
                "guilds": [{"id": one.id, "unavailable": True} for one in guilds],
                "session_id": session.id,
                "resume_gateway_url": self.url,
                "application": {"id": session.app.id, "flags": 0},
                "private_channels": [],
            },
        )
        if session.intents & GUILDS:
            for guild in guilds:
                if not guild.unavailable:
                    await self._push(session, "GUILD_CREATE", guild.created(session.app.user))
        self._note()

    async def _resume(self, wire: Wire, data: Json) -> Session | None:
        session = self.sessions.get(data["session_id"])
        if session is None or data["token"] != session.app.token:
            await wire.send({"op": 9, "d": False, "s": None})
            return None
        self.resumed += 1
        session.wire = wire
        for event in session.sent:
            if event["s"] > data["seq"]:
                await wire.send(event)
        await self._push(session, "RESUMED", {})
        self._note()
        return session

    async def _push(self, session: Session, event: str, data: Json) -> None:
        session.sequence += 1
        frame = {"op": 0, "t": event, "s": session.sequence, "d": data}
        session.sent.append(frame)
        if session.wire is not None and not session.wire.socket.closed:
            try:
                await session.wire.send(frame)
            except ConnectionResetError:
                session.wire = None

    # --- events ------------------------------------------------------------------------------

    def announce(self, event: str, data: Json, channel: Channel | None) -> None:
        """Send an event of the town to every session whose intents cover it."""
        guild_bit, direct_bit = _NEEDS.get(event, (0, 0))
        direct = channel is not None and channel.kind == DIRECT
        needed = direct_bit if direct else guild_bit
        for session in self.sessions.values():
            if not needed or session.intents & needed:
                self._soon(self._push(session, event, data))

    async def interaction(self, app: Application, payload: Json) -> None:
        """Send an interaction to every session of its application; needs no intent."""
        for session in list(self.sessions.values()):
            if session.app is app:
                await self._push(session, "INTERACTION_CREATE", payload)

    async def send_raw(self, event: str, data: Any) -> None:
        """Send any event to everyone, also one that no client knows."""
        for session in self.sessions.values():
            await self._push(session, event, data)

    # --- breaking it -------------------------------------------------------------------------

    async def drop(self, *, code: int | None = None, forget: bool = False) -> None:
        """Cut every connection: without a word, or with a close code; `forget` ends sessions."""
        for session in list(self.sessions.values()):
            wire, session.wire = session.wire, None
            if wire is not None and code is not None:
                await wire.socket.close(code=code)
            elif wire is not None and (transport := wire.socket._req.transport):  # type: ignore[union-attr]
                transport.abort()
        if forget:
            self.sessions.clear()

    async def command(self, op: int, data: Any = None) -> None:
        """Send op 7 (reconnect) or op 9 (invalid session, `data` tells whether to resume)."""
        for session in list(self.sessions.values()):
            if session.wire is not None:
                await session.wire.send({"op": op, "d": data, "s": None})
        if op == 9 and data is False:
            self.sessions.clear()

    @property
    def connected(self) -> int:
        """How many sessions are on the line now."""
        return sum(session.wire is not None for session in self.sessions.values())

    async def until(self, holds: Callable[[], bool], seconds: float = 40) -> None:
        """Return once `holds`, which is looked at whenever a session changed."""
        async with asyncio.timeout(seconds):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    def _note(self) -> None:
        self.changed.set()

    def _soon(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
