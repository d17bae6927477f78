"""Stream audit events to approvers as server-sent events, without gaps after a reconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

from aiohttp import web

from gateway.api.api_call import ApiCall, end_on_shutdown, operation
from gateway.api.messages import (
    EVENT_ID,
    check_match,
)
from gateway.api.problems import TooMany, Unauthenticated
from gateway.domain.records import AuditEvent, place_of
from gateway.domain.time_and_tasks import check_wanted
from gateway.errors import Unreachable
from gateway.wire.codec import plain

_PAGE = 200


@operation("events.stream", {200: "text/event-stream"})
async def stream(call: ApiCall) -> web.StreamResponse:
    """Stream events as they happen, starting after Last-Event-ID or now."""
    last = call.request.headers.get("Last-Event-ID") or None
    check_match(EVENT_ID, "Last-Event-ID", last)
    if call.services.streams.locked():
        raise TooMany("too many event streams are open; close one first")
    with end_on_shutdown(call):
        async with call.services.streams, call.core.feed.changes() as live:
            answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await answer.prepare(call.request)
            try:
                await _send(call, answer, live, last)
            except (Unreachable, Unauthenticated, TimeoutError, ConnectionResetError):
                pass  # the client is too slow, revoked or gone; it may resume from its last id
            finally:
                _hang_up(call.request)
    return answer


def _hang_up(request: web.Request) -> None:
    # A graceful close would wait for a client that does not read.
    if request.transport is not None:
        request.transport.abort()


async def _send(
    call: ApiCall,
    answer: web.StreamResponse,
    live: AsyncIterator[AuditEvent],
    last: str | None,
) -> None:
    if last is not None:
        last = await _replay(call, answer, last)
    patience = call.services.limits.heartbeat_seconds
    coming = asyncio.ensure_future(anext(live))
    try:
        while True:
            check_wanted()
            # `wait` instead of `timeout`, because cancelling the iterator would end it.
            done, _ = await asyncio.wait({coming}, timeout=patience)
            if not done:
                await call.services.access.check_unchanged(call.request, call.caller)
                await _write(call, answer, b": still here\n\n")
                continue
            event = coming.result()
            coming = asyncio.ensure_future(anext(live))
            if last is None or place_of(event.id) > place_of(last):
                if not event.request_id:  # it may name people: check the token again
                    await call.services.access.check_unchanged(call.request, call.caller)
                await _write(call, answer, _frame(event))
    finally:
        coming.cancel()


async def _replay(call: ApiCall, answer: web.StreamResponse, last: str) -> str | None:
    """Send the events after `last`; return the id of the last one, or None."""
    sent: str | None = None
    while events := await call.services.reads.history(sent or last, _PAGE):
        for event in events:
            await _write(call, answer, _frame(event))
        sent = events[-1].id
    return sent


async def _write(call: ApiCall, answer: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(call.services.limits.heartbeat_seconds):
        await answer.write(data)


def _frame(event: AuditEvent) -> bytes:
    # The results of shadow rules are for the audit only.
    told = {name: value for name, value in event.data.items() if name != "shadow"}
    event = replace(event, data=told)
    data = json.dumps(plain(event), separators=(",", ":"), allow_nan=False)
    return f"id: {event.id}\nevent: {event.type}\ndata: {data}\n\n".encode()
