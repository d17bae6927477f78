"""Draws what may be large beside the event loop, which would stand still: taps are answered in time
while a megabyte becomes a card."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from gateway.domain.records import Record
from gateway.wire.codec import plain

HEAVY_CHARS = 50_000

T = TypeVar("T")


async def draw(make: Callable[[], T], *values: Any) -> T:
    """Return what `make` returns, in a thread when the values it renders are large."""
    return await asyncio.to_thread(make) if heavy(*values) else make()


def heavy(*values: Any) -> bool:
    """Whether values hold more text than the event loop should wait for."""
    left, waiting = HEAVY_CHARS, list(values)
    while waiting and left > 0:
        value = waiting.pop()
        left -= 1
        if isinstance(value, str):
            left -= len(value)
        elif isinstance(value, dict):
            waiting += value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return left <= 0


def weight_of(record: Record) -> tuple[Any, ...]:
    """Return the parts of a request that may be large."""
    request, decision = record.request, record.decision
    runs = (request.arguments, record.edited, request.payload, request.schema)
    said = (request.preview, request.questions, request.context, request.origin, record.risk)
    ended = (decision.message, decision.answers, decision.result) if decision else ()
    return (*runs, request.hint, plain(said), *ended)
