"""Live updates: a stream of the ids of changed requests, which the page then reads."""

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
# Browsers open six connections per host; some must stay free for reading and deciding.
MOST_STREAMS = 4
_NEWS = ("grant_", "stopped", "resumed")
MOST_OF_ALL = 1000


class Streams:
    """The open streams by session."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard
        self._open: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._stopping = False

    def end(self, session: str) -> None:
        """End the streams of a session that was signed out."""
        for ending in self._open.get(session, ()):
            ending.set()

    def end_all(self) -> None:
        """End every stream, and let none begin, when the gateway stops."""
        self._stopping = True
        for session in list(self._open):
            self.end(session)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Stream until the page disconnects, its session ends, or the gateway stops."""
        visitor = await self._guard.check_reader(request)
        if self._stopping:  # also for a call that was on its way here
            raise Refused(503, "stopping", "the gateway stops; the page asks again")
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
                # The page missed events or does not read: it reconnects and reads everything again.
                # Closing in order would wait for a page that may be gone.
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
                # `wait`, not `timeout`: cancelling would end the iterator.
                await asyncio.wait(
                    {leaving, coming}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                event = coming.result() if coming.done() else None
                if event is None or not event.request_id:
                    # On a timeout, or an event that may concern people, check the session again.
                    if not await self._guard.is_signed_in(visitor):
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
