"""The wire-level Discord of the tests: REST, gateway and signed HTTP pushes on loopback.

Real discord.py talks to it once `discord.http.Route.BASE` and `DiscordWebSocket.DEFAULT_GATEWAY`
point here. It refuses what Discord refuses; what a test wants to go wrong it stages.
"""

from __future__ import annotations

import asyncio
import io
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from nacl.signing import SigningKey

from tests.discord.interactions import Desk
from tests.discord.messages import Board
from tests.discord.person import Person
from tests.discord.rest import BASE, Rest
from tests.discord.socket import Gateway
from tests.discord.town import Application, Calendar, Channel, Json, Town, User


@dataclass
class Pushed:
    """What an app answered to one signed HTTP push."""

    status: int
    body: bytes


@dataclass
class FakeDiscord:
    """The whole service. `api_base` and `gateway_url` are where a bot finds it."""

    calendar: Calendar = field(default_factory=Calendar)
    keys: dict[str, SigningKey] = field(default_factory=dict)
    origin: str = ""
    pushes: list[Pushed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.town = Town(self.calendar)
        self.board = Board(self.town, self.calendar)
        self.api = Desk(self.town, self.board, self.calendar)
        self.rest = Rest(self.town, self.board, self.api)
        self.gateway = Gateway(self.town)
        self.releasing = asyncio.Event()
        self.releasing.set()

    @property
    def api_base(self) -> str:
        return self.origin + BASE

    @property
    def gateway_url(self) -> str:
        return self.origin.replace("http", "ws", 1) + "/gateway"

    def application(self, name: str, owner: User) -> Application:
        """Register a bot."""
        user = self.town.user(name, bot=True)
        key = SigningKey.generate()
        token = f"{secrets.token_hex(12)}.test.{secrets.token_hex(16)}"
        public = bytes(key.verify_key).hex()
        made = Application(user.id, user, owner, token, public)
        self.keys[made.id] = key
        self.town.applications[token] = made
        return made

    def revoke(self, app: Application) -> None:
        """Make the bot's token worthless, as the portal's Reset Token does."""
        self.town.applications.pop(app.token)

    def person(self, name: str) -> Person:
        return Person(self.town.user(name), self.town, self.api, self.deliver)

    def as_person(self, user: User) -> Person:
        return Person(user, self.town, self.api, self.deliver)

    async def deliver(self, app: Application, payload: Json) -> None:
        """Hand an interaction to the app: by its URL if it has one, else over the gateway."""
        await self.releasing.wait()
        if app.endpoint is None:
            await self.gateway.interaction(app, payload)
        else:
            self.pushes.append(await self.push(app, json.dumps(payload).encode()))

    async def push(
        self, app: Application, body: bytes, *, at: str | None = None, **headers: str
    ) -> Pushed:
        """Post a signed body to the app's interactions URL, as Discord does."""
        assert app.endpoint is not None
        stamp = at or str(self.calendar.now_ms() // 1000)
        signature = self.keys[app.id].sign(stamp.encode() + body).signature.hex()
        signed = {
            "Content-Type": "application/json",
            "X-Signature-Ed25519": signature,
            "X-Signature-Timestamp": stamp,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        kept = {name: value for name, value in signed.items() if value}
        async with (
            aiohttp.ClientSession() as session,
            session.post(app.endpoint, data=io.BytesIO(body), headers=kept) as answer,
        ):
            return Pushed(answer.status, await answer.read())

    async def raw(
        self, app: Application, user: User, channel: Channel, data: Json, **more: Any
    ) -> Any:
        """Send a component interaction that no client would: a crafted or forwarded one."""
        message = more.get("message")
        made, payload = self.api.start(app, user, channel, more.get("kind", 3), data, message)
        payload |= more.get("payload", {})
        await self.deliver(app, payload)
        return made


@asynccontextmanager
async def running_discord(port: int = 0) -> AsyncIterator[FakeDiscord]:
    """Serve a Discord on loopback."""
    fake = FakeDiscord()
    app = web.Application(client_max_size=32 * 1024 * 1024)
    app.add_routes([*fake.rest.routes(), web.get("/gateway/", fake.gateway.serve)])
    app.router.add_get("/gateway", fake.gateway.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    fake.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    fake.board.base = fake.origin
    fake.gateway.url = fake.rest.gateway_url = fake.gateway_url
    try:
        yield fake
    finally:
        await fake.gateway.drop()
        await runner.cleanup()
