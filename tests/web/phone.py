"""A push service and the devices of people: what browsers' makers run, on this machine."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import http_ece
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.wire.codec import JsonObject
from tests.waiting import moment

PATIENCE = 30.0


def written(raw: bytes) -> str:
    """Return bytes as subscriptions write them."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass(frozen=True, kw_only=True)
class Push:
    """One push as its device reads it."""

    headers: dict[str, str]
    body: bytes
    told: JsonObject


@dataclass
class Phone:
    """A device: only it can read what is sent to its address."""

    service: PushService
    name: str
    secret: bytes = field(default_factory=lambda: os.urandom(16))
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    got: list[Push] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"{self.service.url}/push/{self.name}"

    @property
    def subscription(self) -> JsonObject:
        """What its browser hands out."""
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        keys = {"p256dh": written(point), "auth": written(self.secret)}
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": keys}

    async def pushed(self, count: int = 1) -> list[JsonObject]:
        """Return what it was told, once so many pushes were taken."""
        async with asyncio.timeout(PATIENCE):
            while len(self.got) < count:
                self.came.clear()
                await self.came.wait()
        return [one.told for one in self.got]

    def take(self, headers: dict[str, str], body: bytes) -> None:
        """Read a push as the browser does."""
        assert headers["content-encoding"] == "aes128gcm"
        text = http_ece.decrypt(
            body, private_key=self.key, auth_secret=self.secret, version="aes128gcm"
        )
        self.got.append(Push(headers=headers, body=body, told=json.loads(text)))
        self.came.set()


@dataclass
class PushService:
    """Takes pushes for its phones. What a phone has in `answers` is said first, one each."""

    url: str = ""
    phones: dict[str, Phone] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        """How the setting names it."""
        return self.url.removeprefix("http://")

    def phone(self, name: str = "one") -> Phone:
        """Return a new device."""
        self.phones[name] = made = Phone(self, name)
        return made

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one push."""
        name = request.match_info["name"]
        self.calls.append(name)
        phone = self.phones[name]
        status, headers = phone.answers.pop(0) if phone.answers else (201, {})
        if status == 201:
            sent = {key.lower(): value for key, value in request.headers.items()}
            phone.take(sent, await request.read())
        phone.came.set()
        return web.Response(status=status, headers=headers)


def pretend(subscription: JsonObject) -> str:
    """Return the script by which a page has this subscription once it asks for one: nothing of the
    browser's maker is reached from here."""
    return f"""(() => {{
        const kept = "pretended", handed = {json.dumps(subscription)};
        const bytes = (text) => Uint8Array.from(
            atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
        const made = () => localStorage.getItem(kept) && {{
            toJSON: () => handed,
            options: {{ applicationServerKey: bytes(localStorage.getItem(kept)).buffer }},
            unsubscribe: async () => localStorage.removeItem(kept),
        }};
        PushManager.prototype.subscribe = async (options) => {{
            localStorage.setItem(kept, options.applicationServerKey);
            return made();
        }};
        PushManager.prototype.getSubscription = async () => made();
    }})()"""


@asynccontextmanager
async def push_service() -> AsyncIterator[PushService]:
    """Run a push service."""
    service = PushService()
    app = web.Application()
    app.router.add_post("/push/{name}", service.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        service.url = f"http://localhost:{runner.addresses[0][1]}"
        yield service
    finally:
        await runner.cleanup()


async def until(holds: Any) -> None:
    """Wait until an async condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not await holds():
            await moment()
