"""Decisions per second of one gateway process, compared with bare Redis writes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare import AGENT
from benchmarks.children import Child, child
from benchmarks.floor import raw
from benchmarks.stage import until_pending
from benchmarks.table import Row, p50
from gateway.stores.embedded_server import running_engine
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from gateway.wire.codec import JsonObject

_NAMESPACE = "gw"
_ROUNDS = 6
_DECISIONS = 600
_DEPTH = 32
_SETTLE_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The server, and the processes that write to it."""

    store: RedisStore
    writer: Child
    bare: Child

    async def add_pending(self, count: int) -> list[str]:
        """Submit requests through the gateway's intake; return their ids once all are pending."""
        details = {"namespace": _NAMESPACE, "agents": [AGENT], "count": count}
        submitted = await self.writer.call("submit", **details)
        await until_pending(self.store, count)
        await asyncio.sleep(_SETTLE_SECONDS)
        ids: list[str] = submitted["ids"]
        return ids


async def throughput() -> list[Row]:
    """Measure one gateway and the floor in turns."""
    with tempfile.TemporaryDirectory(prefix="agw-bench-") as folder:
        async with (
            running_engine(Path(folder)) as engine,
            child("benchmarks.flood", engine.url) as writer,
            child("benchmarks.bare", engine.url) as bare,
            child("benchmarks.replica", engine.url, _NAMESPACE, "first") as first,
        ):
            store = RedisStore(raw(engine.url), Keys(_NAMESPACE))
            scene = Scene(store=store, writer=writer, bare=bare)
            await first.call("register", agent=AGENT)
            values = await _values(scene, first)
            one, floor, batched = await _alone(scene, first, values)
            await store.redis.aclose()
    return _rows(one, floor, batched)


async def _values(scene: Scene, replica: Child) -> JsonObject:
    """Return what a real decision writes, for the bare writer to repeat."""
    keys, client = scene.store.keys, scene.store.redis
    [one] = await scene.add_pending(1)
    before = await client.hgetall(keys.record(one))
    await replica.call("decide", ids=[one], depth=1)
    after = await client.hgetall(keys.record(one))
    process = before["attached"]
    [(_, event)] = await client.xrevrange(keys.events, count=1)
    [(_, reply)] = await client.xrevrange(keys.replies(AGENT, process), count=1)
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return {"pending": before, "changed": changed, "event": event, "reply": reply}


async def _alone(
    scene: Scene, replica: Child, values: JsonObject
) -> tuple[list[float], list[float], list[float]]:
    one, floor, batched = [], [], []
    for _ in range(_ROUNDS + 1):
        ids = await scene.add_pending(_DECISIONS)
        one.append(_rate([await replica.call("decide", ids=ids, depth=_DEPTH)]))
        details = {"count": _DECISIONS, "values": values}
        floor.append(_rate([await scene.bare.call("run", batch=1, depth=_DEPTH, **details)]))
        batched.append(_rate([await scene.bare.call("run", batch=_DEPTH, depth=1, **details)]))
    return one[1:], floor[1:], batched[1:]


def _rate(spans: Sequence[JsonObject]) -> float:
    """Return decisions per second over processes that worked at the same time."""
    elapsed: int = max(span["ended"] for span in spans) - min(span["began"] for span in spans)
    return _DECISIONS / elapsed * 1e9


def _rows(one: list[float], floor: list[float], batched: list[float]) -> list[Row]:
    counts = {"rounds": len(one), "decisions": _DECISIONS, "depth": _DEPTH}
    return [
        Row(
            name="decisions_per_second_ratio",
            value=p50(one) / p50(floor),
            unit="of floor",
            target=">= 0.5",
            samples={**counts, "per_second": p50(one), "floor_per_second": p50(floor)},
        ),
        Row(
            name="decisions_over_one_batch",
            value=p50(one) / p50(batched),
            unit="of floor",
            samples={**counts, "floor_per_second": p50(batched)},
        ),
    ]
