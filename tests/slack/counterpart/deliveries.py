"""How what people do reaches the app: over a socket, or signed over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import json
from dataclasses import dataclass
from urllib.parse import urlencode

import aiohttp

from gateway.domain.time_and_tasks import SystemClock
from tests.slack.counterpart.sockets import Sockets
from tests.slack.counterpart.state import Json, State, Workspace

ACK_SECONDS = 3.0


@dataclass(frozen=True)
class Ack:
    """How the app answered: `ok` in time, `payload` if it sent one."""

    ok: bool
    payload: Json
    seconds: float


class Deliveries:
    """Sends interactions, commands and events to the app."""

    def __init__(self, state: State, sockets: Sockets) -> None:
        self._state, self._sockets = state, sockets
        self.request_url: str | None = None  # set: HTTP mode
        self.acks: list[Ack] = []

    @property
    def _patience(self) -> float:
        return ACK_SECONDS + self._state.hands.grace

    async def interaction(self, payload: Json) -> Ack:
        """Deliver a click, a submit or a close; it is never sent again."""
        return await self._delivered("interactive", payload)

    async def command(self, payload: Json) -> Ack:
        """Deliver a slash command."""
        return await self._delivered("slash_commands", payload)

    async def event(self, workspace: Workspace, event: Json, *, retry: int = 0) -> Ack:
        """Deliver an event."""
        number = self._state.number()
        payload = {
            "token": "unused",
            "team_id": workspace.id,
            "enterprise_id": workspace.org or None,
            "api_app_id": self._state.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{number}",
            "event_time": 1790000000 + number,
            "authorizations": [
                {
                    "enterprise_id": None,
                    "team_id": workspace.id,
                    "user_id": workspace.bot_user,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
        }
        return await self._delivered("events_api", payload, retry=retry)

    async def _delivered(self, kind: str, payload: Json, *, retry: int = 0) -> Ack:
        begun = asyncio.get_running_loop().time()
        if self.request_url is None:
            ok, answer = await self._by_socket(kind, payload, retry)
        else:
            ok, answer = await self._by_http(kind, payload)
        ack = Ack(ok, answer, asyncio.get_running_loop().time() - begun)
        self.acks.append(ack)
        self._state.ring()
        return ack

    async def _by_socket(self, kind: str, payload: Json, retry: int) -> tuple[bool, Json]:
        envelope = await self._sockets.deliver(kind, payload, retry=retry)
        try:
            async with asyncio.timeout(self._patience):
                await envelope.acked.wait()
        except TimeoutError:
            return False, {}
        return True, envelope.answer or {}

    async def _by_http(self, kind: str, payload: Json) -> tuple[bool, Json]:
        body, content_type = form(kind, payload)
        try:
            status, text = await self.post(body, content_type=content_type)
        except (TimeoutError, aiohttp.ClientError):
            return False, {}
        if status != 200:
            return False, {"status": status}
        if not text:
            return True, {}
        try:
            return True, json.loads(text)
        except ValueError:
            return True, {"text": text}

    async def post(
        self, body: bytes, *, content_type: str, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """POST a body to the app, signed unless other headers are given."""
        signed = self.signature(body) if headers is None else headers
        timeout = aiohttp.ClientTimeout(total=self._patience)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                str(self.request_url),
                data=io.BytesIO(body),
                headers={"Content-Type": content_type, **signed},
            ) as response,
        ):
            return response.status, await response.text()

    def signature(self, body: bytes, *, shift: int = 0, secret: str = "") -> dict[str, str]:
        """Return the headers that sign a body, `shift` seconds from now."""
        stamp = str(SystemClock().now_ms() // 1000 + shift)
        key = (secret or self._state.signing_secret).encode()
        mac = hmac.new(key, b"v0:" + stamp.encode() + b":" + body, hashlib.sha256).hexdigest()
        return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={mac}"}


def form(kind: str, payload: Json) -> tuple[bytes, str]:
    """Return the HTTP body of a payload and its content type."""
    if kind == "events_api":
        return json.dumps(payload).encode(), "application/json"
    fields = payload if kind == "slash_commands" else {"payload": json.dumps(payload)}
    return urlencode(fields).encode(), "application/x-www-form-urlencoded"
