"""The page's live stream: the ids of requests that changed, which the page reads again."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator

from aiohttp import web

from adapters.web.security import Guard, Refused, Visitor
from gateway.errors import Unreachable
from gateway.ports import AuditEvent, Desk, JsonObject

BEAT_SECONDS = 10.0
# Browsers open six connections to a place; a few must be left for reading and deciding.
MOST_STREAMS = 4
_NEWS = ("grant_", "stopped", "resumed")
MOST_OF_ALL = 1000


class Streams:
    """The open streams of all visitors, by session."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard
        self._open: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def end(self, session: str) -> None:
        """End a session's streams: it was signed out."""
        for ending in self._open.get(session, ()):
            ending.set()

    def end_all(self) -> None:
        """End every stream: the gateway stops."""
        for session in list(self._open):
            self.end(session)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Stream to the page until it leaves, signs out, or is no longer wanted."""
        visitor = await self._guard.reader(request)
        if len(self._open.get(visitor.session, ())) >= MOST_STREAMS:
            raise Refused(429, "too_many_pages", "the inbox is open in too many tabs")
        if sum(map(len, self._open.values())) >= MOST_OF_ALL:
            raise Refused(429, "too_many_pages", "too many pages are open on this gateway")
        mine, ending = self._open[visitor.session], asyncio.Event()
        mine.add(ending)
        try:
            return await self._stream(request, visitor, ending)
        finally:
            mine.discard(ending)
            if not mine:
                self._open.pop(visitor.session, None)

    async def _stream(
        self, request: web.Request, visitor: Visitor, ending: asyncio.Event
    ) -> web.StreamResponse:
        headers = {**self._guard.headers(), "Content-Type": "text/event-stream"}
        response = web.StreamResponse(headers=headers)
        async with self._desk.feed.changes() as events:
            await response.prepare(request)
            try:
                await _send(response, "ready", {"beat": BEAT_SECONDS})
                await self._relay(events, visitor, ending, response)
            except (Unreachable, StopAsyncIteration, TimeoutError, ConnectionResetError):
                # It missed something, or does not read: it comes back and reads everything again.
                # An orderly end would wait for a page that may be gone.
                if request.transport is not None:
                    request.transport.abort()
        return response

    async def _relay(
        self,
        events: AsyncIterator[AuditEvent],
        visitor: Visitor,
        ending: asyncio.Event,
        response: web.StreamResponse,
    ) -> None:
        leaving = asyncio.create_task(ending.wait())
        coming = asyncio.ensure_future(anext(events))
        try:
            while not leaving.done():
                # `wait` and not `timeout`: a cancelled iterator would be at its end.
                await asyncio.wait(
                    {leaving, coming}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                event = coming.result() if coming.done() else None
                if event is None or not event.request_id:
                    # Time passed, or it may be about people: who may read is checked again.
                    if not await self._guard.still(visitor):
                        return
                    if event is not None and event.type.startswith(_NEWS):
                        about = event.data.get("grant")
                        grant = about.get("id") if isinstance(about, dict) else about
                        await _send(response, "news", {"type": event.type, "grant": grant})
                    else:
                        await _send(response, "beat", {})
                else:
                    await _send(response, "changed", {"id": event.request_id, "type": event.type})
                if event is not None:
                    coming = asyncio.ensure_future(anext(events))
        finally:
            leaving.cancel()
            coming.cancel()
            await asyncio.gather(leaving, coming, return_exceptions=True)


async def _send(response: web.StreamResponse, name: str, data: JsonObject) -> None:
    async with asyncio.timeout(BEAT_SECONDS):
        await response.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
