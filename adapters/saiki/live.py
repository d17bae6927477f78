"""The WebSocket: events go out as frames, and answers come in as frames.

A frame is `{"type": …, "data": …}`. Whoever connects gets what waits; a connection that missed
something is closed, and gets it when it comes back.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from aiohttp import WSCloseCode, WSMsgType, web

from adapters.saiki.access import Access, CallRefused, SaikiVisitor
from adapters.saiki.answers import decide, read_answer
from adapters.saiki.events import (
    ERROR,
    REQUEST,
    RESPONSE,
    build_request,
    build_response,
    execution_id,
    is_offered,
)
from gateway.errors import GatewayError, NotFound, Unreachable
from gateway.ports import (
    AuditEvent,
    Desk,
    JsonObject,
    Query,
    Record,
    cancel_and_wait,
    draw,
    parse_json,
)
from gateway.ports import weight_of as weigh

BEAT_SECONDS = 10.0
MOST_OF_SESSION, MOST_OF_ALL = 4, 1000
_MOST_FRAME = 16 * 1024
_GONE = (Unreachable, StopAsyncIteration, TimeoutError, ConnectionError)

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Complete a decision even when its caller disconnects."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # there is nobody to tell any more
        raise


class Sockets:
    """The open connections by session."""

    def __init__(self, desk: Desk, access: Access) -> None:
        self._desk = desk
        self._access = access
        self._open: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._stopping = False

    def end_all(self) -> None:
        """End every connection, and let none begin, when the gateway stops."""
        self._stopping = True
        for session in list(self._open):
            self.end(session)

    def end(self, session: str) -> None:
        """End the connections of a session that was signed out."""
        for ending in self._open.get(session, ()):
            ending.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve until the page leaves, its session ends, or the gateway stops."""
        visitor = await self._access.find_visitor(request)
        if self._stopping:
            raise CallRefused(503, "the gateway stops; connect again")
        total = sum(map(len, self._open.values()))
        if len(self._open.get(visitor.session, ())) >= MOST_OF_SESSION or total >= MOST_OF_ALL:
            raise CallRefused(429, "too many connections are open")
        mine, ending = self._open[visitor.session], asyncio.Event()
        mine.add(ending)
        try:
            return await self._converse(request, visitor, ending)
        finally:
            mine.discard(ending)
            if not mine:
                self._open.pop(visitor.session, None)

    async def _converse(
        self, request: web.Request, visitor: SaikiVisitor, ending: asyncio.Event
    ) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=BEAT_SECONDS, max_msg_size=_MOST_FRAME)
        if not socket.can_prepare(request):
            raise CallRefused(426, "this is a WebSocket; answers alone go to POST")
        async with self._desk.feed.changes() as events:
            await socket.prepare(request)
            screen = Screen(socket, self._desk, self._access, visitor)
            parts = [
                asyncio.create_task(screen.relay(events)),
                asyncio.create_task(screen.listen()),
                asyncio.create_task(ending.wait()),
            ]
            try:
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for part in parts:
                    part.cancel()
                ends = await asyncio.gather(*parts, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, _GONE):
                raise end
        with suppress(*_GONE):
            async with asyncio.timeout(BEAT_SECONDS):
                await socket.close(code=WSCloseCode.SERVICE_RESTART, message=b"connect again")
        return socket


class Screen:
    """What one connection shows: the `executionId` in front of the person, by request."""

    def __init__(
        self, socket: web.WebSocketResponse, desk: Desk, access: Access, visitor: SaikiVisitor
    ) -> None:
        self._socket = socket
        self._desk = desk
        self._access = access
        self._visitor = visitor
        self._shown: dict[str, str] = {}

    async def relay(self, events: AsyncIterator[AuditEvent]) -> None:
        """Show what waits, then whatever happens, until the person is signed out."""
        coming = asyncio.ensure_future(anext(events))
        try:
            await self._show_pending()
            while await self._access.is_signed_in(self._visitor):
                # `wait`, not `timeout`: cancelling would end the iterator.
                await asyncio.wait({coming}, timeout=BEAT_SECONDS)
                if coming.done():
                    event = coming.result()
                    coming = asyncio.ensure_future(anext(events))
                    if event.request_id:
                        await self._look(event.request_id)
        finally:
            await cancel_and_wait(coming)

    async def listen(self) -> None:
        """Take answers until the connection closes."""
        async for frame in self._socket:
            try:
                if frame.type is not WSMsgType.TEXT:
                    raise CallRefused(422, "send text")
                await self._answer(frame.data)
            except CallRefused as refusal:
                await self._send(ERROR, {"error": refusal.why, **_name(frame.data)})

    async def _answer(self, text: str) -> None:
        try:
            frame = parse_json(text.encode())
        except GatewayError as error:
            raise CallRefused(422, str(error)) from None
        if not isinstance(frame, dict) or frame.get("type") != RESPONSE:
            raise CallRefused(422, f"a frame is {{type: '{RESPONSE}', data}}")
        answer = read_answer(frame.get("data"))
        if not await self._access.is_signed_in(self._visitor):
            raise CallRefused(401, "you are not signed in any more")
        await finish(decide(self._desk, self._visitor, answer))

    async def _show_pending(self) -> None:
        query = Query(followers=False)
        while True:
            page = await self._desk.requests.page(query)
            for record in page.items:
                await self._show(record)
            if page.next is None:
                return
            query = Query(followers=False, after=page.next)

    async def _look(self, request_id: str) -> None:
        """Show a request as it is now, or take it away."""
        with suppress(NotFound):
            await self._show(await self._desk.requests.get(request_id))

    async def _show(self, record: Record) -> None:
        known = self._shown.get(record.id)
        now = execution_id(record)
        if known is not None and (record.final or known != now):
            del self._shown[record.id]
            await self._send(RESPONSE, build_response(known, record))
            known = None
        if known is not None or not is_offered(record):
            return
        if await self._desk.requests.may_decide(self._visitor.identity, record) is None:
            self._shown[record.id] = now
            await self._send(REQUEST, await draw(lambda: build_request(record), *weigh(record)))

    async def _send(self, kind: str, data: JsonObject) -> None:
        async with asyncio.timeout(BEAT_SECONDS):
            await self._socket.send_str(json.dumps({"type": kind, "data": data}))


def _name(text: Any) -> JsonObject:
    """Return the `executionId` that a refused frame names, if it can be read."""
    try:
        named = parse_json(text.encode())["data"]["executionId"]
    except (AttributeError, GatewayError, LookupError, TypeError):
        return {}
    return {"executionId": named} if isinstance(named, str) else {}
