"""HTTP mode: receives interactions at the Interactions Endpoint URL, each verified and once only.

Each request is acknowledged at once; the reply goes the same way as in gateway mode.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import discord
from aiohttp import web
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from adapters.discord import library
from gateway.ports import (
    BodyTooLarge,
    BodyTooSlow,
    JsonObject,
    Notes,
    RetryLater,
    SystemClock,
    bug,
    read_whole,
)

log = logging.getLogger("adapters.discord")

PATH = "/discord/interactions"
FRESH_SECONDS = 300
_SEEN_SECONDS = 900.0  # as long as an interaction's token lives
_MOST_BYTES = 1_048_576
_PING = 1
_NOTE_SECONDS = 1.5

InteractionCallback = Callable[[discord.Interaction], Awaitable[None]]


class Endpoint:
    """The Interactions Endpoint URL."""

    def __init__(
        self,
        public_key: str,
        notes: Notes,
        client: Callable[[], discord.Client],
        arrived: InteractionCallback,
    ) -> None:
        self._key = VerifyKey(bytes.fromhex(public_key))
        self._notes = notes
        self._clock = SystemClock()
        self._client = client
        self._arrived = arrived

    async def serve(self, request: web.Request) -> web.Response:
        """Receive one interaction. Responds 401 unless Discord signed it just now."""
        try:
            if (request.content_length or 0) > _MOST_BYTES:
                raise BodyTooLarge
            body = await read_whole(request.content.iter_any(), most=_MOST_BYTES)
        except BodyTooLarge:
            return web.Response(status=413)
        except BodyTooSlow:
            return web.Response(status=408)
        if not self._is_signed(request, body):
            return web.Response(status=401)
        try:
            payload = json.loads(body)
            kind, number = payload["type"], str(payload["id"])
        except (ValueError, KeyError, TypeError):
            return web.Response(status=400)
        if kind == _PING:
            return web.json_response({"type": _PING})
        return await self._take(payload, number)

    async def _take(self, payload: JsonObject, number: str) -> web.Response:
        try:
            async with asyncio.timeout(_NOTE_SECONDS):
                fresh = await self._notes.put_new(f"seen {number}", "", seconds=_SEEN_SECONDS)
        except Exception as error:
            # Without the store nothing can be decided, and replays cannot be detected.
            log.warning("push not taken: %s", bug(error), extra={"event": "push_refused"})
            return web.Response(status=503)
        if not fresh:
            return web.Response(status=401)
        try:
            interaction = library.read_interaction(self._client(), payload)
        except RetryLater:
            return web.Response(status=503)
        except Exception as error:
            # discord.py may raise anything for unexpected content.
            log.warning("push not understood: %s", bug(error), extra={"event": "push_refused"})
            return web.Response(status=400)
        # The reply is posted to Discord; this only acknowledges.
        task = asyncio.ensure_future(self._arrived(interaction))
        # Its errors are already logged and reported to the person.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return web.Response(status=202)

    def _is_signed(self, request: web.Request, body: bytes) -> bool:
        stamp = request.headers.get("X-Signature-Timestamp", "")
        try:
            signature = bytes.fromhex(request.headers.get("X-Signature-Ed25519", ""))
            self._key.verify(stamp.encode() + body, signature)
            age = self._clock.now_ms() / 1000 - int(stamp)
        except (ValueError, BadSignatureError):
            return False
        return abs(age) <= FRESH_SECONDS
