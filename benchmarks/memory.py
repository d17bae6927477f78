"""The memory of one pending request in Redis, everything counted."""

from __future__ import annotations

import asyncio

from benchmarks.children import child
from benchmarks.flood import submission
from benchmarks.stage import stage, until_pending
from benchmarks.table import Row, p50

BODY_BYTES = 400
_FEW, _MANY = 1000, 10_000
_SETTLE_SECONDS = 1.0
_SERVERS = 5
_AGENT = "bench"


async def memory() -> list[Row]:
    """Submit requests of 400 bytes of JSON to fresh servers; measure how their memory grows.

    Servers of the same contents differ by a few per cent, so the value is the median of several.
    """
    grown = sorted([await _growth() for _ in range(_SERVERS)])
    return [
        Row(
            name="bytes_per_pending",
            value=p50(grown),
            unit="bytes (Redis)",
            target="<= 2000",
            samples={
                "servers": _SERVERS,
                "least": grown[0],
                "most": grown[-1],
                "from": _FEW,
                "to": _MANY,
                "request_bytes": BODY_BYTES,
            },
        )
    ]


async def _growth() -> float:
    """Return by how many bytes one server grows for each request."""
    letters = BODY_BYTES - len(submission(_AGENT, "", 0)[1]["body"])
    used = []
    async with stage() as scene, child("benchmarks.flood", scene.redis_url) as writer:
        store = scene.gateway.backend.store
        await scene.gateway.backend.credentials.add_agent(_AGENT)
        for count, total in ((_FEW, _FEW), (_MANY - _FEW, _MANY)):
            details = {"namespace": "gw", "agents": [_AGENT], "count": count, "letters": letters}
            await writer.call("submit", **details)
            await until_pending(store, total)
            await asyncio.sleep(_SETTLE_SECONDS)
            used.append((await store.redis.info("memory"))["used_memory"])
    growth: float = (used[1] - used[0]) / (_MANY - _FEW)
    return growth
