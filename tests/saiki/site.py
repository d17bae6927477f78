"""A gateway with Saiki's contract, and a user interface that knows nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from gateway.wire.codec import JsonObject
from tests.web.inbox import Inbox

PATH, LOGIN = "/api/tool-confirmation", "/api/tool-confirmation-login"


@dataclass
class Screen:
    """One open WebSocket."""

    socket: aiohttp.ClientWebSocketResponse

    async def next(self, kind: str = "toolConfirmationRequest") -> JsonObject:
        """Return the data of the next frame, which has this type."""
        async with asyncio.timeout(20):
            frame = await self.socket.receive_json()
        assert frame["type"] == kind, frame
        data: JsonObject = frame["data"]
        return data

    async def emit(self, data: Any, kind: str = "toolConfirmationResponse") -> None:
        """Send a frame."""
        await self.socket.send_json({"type": kind, "data": data})

    async def closed(self, *, within: float) -> None:
        """Return once the gateway has closed it."""
        async with asyncio.timeout(within):
            while (await self.socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
        assert self.socket.close_code == aiohttp.WSCloseCode.SERVICE_RESTART


@dataclass
class Ui:
    """Somebody's user interface: HTTP with their token."""

    http: aiohttp.ClientSession
    url: str
    token: str

    async def post(self, execution: str, body: Any, **headers: str) -> tuple[int, JsonObject]:
        """Answer by HTTP; return status and answer."""
        url = f"{self.url}{PATH}/{execution}"
        async with self.http.post(url, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    @asynccontextmanager
    async def connect(self, **headers: str) -> AsyncIterator[Screen]:
        """Open a WebSocket."""
        async with self.http.ws_connect(f"{self.url}{PATH}", headers=headers) as socket:
            yield Screen(socket)


async def token_of(box: Inbox, person: str) -> str:
    """Sign somebody in; return their token."""
    code = await box.gateway.backend.logins.invite(person)
    async with aiohttp.ClientSession() as http:
        answer = await http.post(f"{box.gateway.url}{LOGIN}", json={"code": code})
        assert answer.status == 200, await answer.text()
        token: str = (await answer.json())["token"]
        return token


@asynccontextmanager
async def ui(box: Inbox, person: str = "ann") -> AsyncIterator[Ui]:
    """Yield somebody's user interface, which holds a bearer token."""
    token = await token_of(box, person)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        yield Ui(http, box.gateway.url, token)


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Inbox]:
    """Run a gateway that answers by the contract alone; ann and bob may decide."""
    settings = Settings(data_dir=folder / "data", port=0, adapters=("saiki",))
    async with run_gateway(settings) as gateway:
        made = Inbox(gateway)
        await made.route(targets=("saiki",))
        yield made
