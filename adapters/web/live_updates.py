"""Stream the ids of changed requests to open pages, which then read them; start with
`Streams.serve`.

All pages share one subscription. The first event is sent immediately, and the events of the next
0.2 seconds are sent together.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from typing import NamedTuple

from aiohttp import web

from adapters.web.security import Guard, Visitor, VisitRefused
from gateway.errors import Unreachable
from gateway.ports import AdapterApi, AuditEvent, Feed, JsonObject, cancel_and_wait

log = logging.getLogger("adapters.web")

BEAT_SECONDS = 10.0
# Browsers open six connections per host; some must stay free for reads and decisions.
MOST_STREAMS = 4
_NEWS = ("grant_", "stopped", "resumed")
MOST_OF_ALL = 1000
GATHER_SECONDS = 0.2
_MOST_BEHIND = 100  # bundles


class Bundle(NamedTuple):
    """The events of a short time, as bytes. `names_people` says that they may end a person's
    session."""

    frames: bytes
    names_people: bool


class News:
    """Collects events into bundles for all pages, while at least one page is open."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._pages: set[asyncio.Queue[Bundle | None]] = set()
        self._gathering: asyncio.Task[None] | None = None
        self._listening, self._turn = asyncio.Event(), asyncio.Lock()
        self._events: list[AuditEvent] = []
        self._due: asyncio.TimerHandle | None = None
        self._sent_at = 0.0

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[asyncio.Queue[Bundle | None]]:
        """Subscribe a page, and yield its queue. The value None in the queue means that events were
        missed."""
        page: asyncio.Queue[Bundle | None] = asyncio.Queue(_MOST_BEHIND + 1)
        self._pages.add(page)
        try:
            async with self._turn:
                if self._gathering is None:
                    self._listening.clear()
                    self._gathering = asyncio.create_task(
                        self._gather(),
                        name="inbox news",
                        context=Context(),  # for all pages, so its log lines have ids of none
                    )
                await self._listening.wait()
            yield page
        finally:
            self._pages.discard(page)
            async with self._turn:
                if not self._pages and self._gathering is not None:
                    await cancel_and_wait(self._gathering)

    async def _gather(self) -> None:
        try:
            async with self._feed.changes() as events:
                self._listening.set()
                async for event in events:
                    self._events.append(event)
                    if self._due is None:
                        loop = asyncio.get_running_loop()
                        at = max(loop.time(), self._sent_at + GATHER_SECONDS)
                        self._due = loop.call_at(at, self._send)
        except Unreachable:
            log.info("the inbox missed some events", extra={"event": "inbox_behind"})
        finally:
            if self._due is not None:
                self._due.cancel()
            self._events, self._due, self._gathering = [], None, None
            self._cut_off(*self._pages)  # the pages reconnect and read everything again
            self._listening.set()

    def _send(self) -> None:
        events, self._events, self._due = self._events, [], None
        self._sent_at = asyncio.get_running_loop().time()
        bundle = Bundle(
            b"".join(frame for event in events if (frame := _frame_of(event))),
            any(not event.request_id for event in events),
        )
        for page in list(self._pages):
            if page.qsize() < _MOST_BEHIND:
                page.put_nowait(bundle)
            else:
                self._cut_off(page)

    def _cut_off(self, *pages: asyncio.Queue[Bundle | None]) -> None:
        for page in pages:
            self._pages.discard(page)
            page.put_nowait(None)


class Streams:
    """Serves the live streams, and tracks the open ones by session."""

    def __init__(self, api: AdapterApi, guard: Guard) -> None:
        self._guard = guard
        self._news = News(api.feed)
        self._open: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._stopping = False

    def end(self, session: str) -> None:
        """End the streams of a session that was signed out."""
        for ending in self._open.get(session, ()):
            ending.set()

    def end_all(self) -> None:
        """End all streams and refuse new ones. Call it when the gateway stops."""
        self._stopping = True
        for session in list(self._open):
            self.end(session)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Stream until the page disconnects, its session ends, or the gateway stops."""
        visitor = await self._guard.check_reader(request)
        if self._stopping:
            raise VisitRefused(503, "stopping", "the gateway is stopping; this page reconnects")
        if len(self._open.get(visitor.session, ())) >= MOST_STREAMS:
            raise VisitRefused(429, "too_many_pages", "the inbox is open in too many tabs")
        if sum(map(len, self._open.values())) >= MOST_OF_ALL:
            raise VisitRefused(429, "too_many_pages", "too many pages are open on this gateway")
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
        async with self._news.subscribe() as news:
            await response.prepare(request)
            try:
                await _write(response, _frame("ready", {"beat": BEAT_SECONDS}))
                await self._relay(news, visitor, ending, response)
            except (Unreachable, TimeoutError, ConnectionResetError):
                # The page missed events or does not read. It reconnects and reads everything again.
                # An orderly close would wait for a page that may be gone.
                if request.transport is not None:
                    request.transport.abort()
        return response

    async def _relay(
        self,
        news: asyncio.Queue[Bundle | None],
        visitor: Visitor,
        ending: asyncio.Event,
        response: web.StreamResponse,
    ) -> None:
        leaving = asyncio.create_task(ending.wait())
        coming = asyncio.create_task(news.get())
        try:
            while not leaving.done():
                done, _ = await asyncio.wait(
                    {leaving, coming}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if coming in done:
                    bundle = coming.result()
                    if bundle is None:
                        raise Unreachable("the page missed some events; it reconnects")
                    coming = asyncio.create_task(news.get())
                else:
                    bundle = _BEAT
                # Check the session again on each beat, and on events that may end it.
                if bundle.names_people and not await self._guard.is_signed_in(visitor):
                    return
                if bundle.frames:
                    await _write(response, bundle.frames)
        finally:
            await cancel_and_wait(leaving, coming)


def _frame_of(event: AuditEvent) -> bytes:
    """Return the frame that informs pages about an event; empty if the event does not concern
    pages."""
    if event.request_id:
        return _frame("changed", {"id": event.request_id, "type": event.type})
    if not event.type.startswith(_NEWS):
        return b""
    about = event.data.get("grant")
    grant = about.get("id") if isinstance(about, dict) else about
    return _frame("news", {"type": event.type, "grant": grant})


def _frame(name: str, data: JsonObject) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


_BEAT = Bundle(_frame("beat", {}), names_people=True)


async def _write(response: web.StreamResponse, frames: bytes) -> None:
    async with asyncio.timeout(BEAT_SECONDS):
        await response.write(frames)
