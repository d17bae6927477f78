"""Ten thousand waiters in one process: how fast they wake, what they weigh, what they cost idle."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from benchmarks.children import Child
from benchmarks.floor import raw
from benchmarks.stage import ARGUMENT, Stage, stage
from benchmarks.table import Row, p50
from benchmarks.wake import agent, fill, floor_wake, wake

_LEVELS = (1, 100, 1000, 10_000)
_WAKES = 100
_IDLE_SECONDS = 12
_SETTLE_SECONDS = 1.0


async def crowd() -> list[Row]:
    """Fill one agent process with waiters, level by level."""
    async with stage() as scene, agent(scene) as asking:
        await asking.call("listen")
        sender = raw(scene.redis_url)
        wakes: dict[str, float] = {}
        weights = {}
        for level in _LEVELS:
            await fill(scene, asking, level)
            weights[level] = await _weigh(sender, asking)
            wakes |= await _wakes(scene, asking, sender, level)
        idle = await _idle(sender)
        await sender.aclose()
        await asking.call("leave")
    return [_wake_row(wakes), *_weight_rows(weights), idle]


async def _wakes(scene: Stage, asking: Child, sender: Any, level: int) -> dict[str, float]:
    """Return the p50 of waking one of `level` waiters, and of the floor in between, in µs."""
    waiting = await _pending(scene)
    product, floor = [], []
    for _ in range(_WAKES):
        chosen = waiting.pop(random.randrange(len(waiting)))
        product.append(await wake(scene, asking, chosen))
        floor.append(await floor_wake(sender, asking))
        waiting += await fill(scene, asking, level)
    return {f"p50_us_{level}": p50(product) / 1000, f"floor_p50_us_{level}": p50(floor) / 1000}


async def _pending(scene: Stage) -> list[str]:
    store = scene.gateway.backend.store
    ids: list[str] = await store.redis.zrange(store.keys.pending, 0, -1)
    return ids


async def _weigh(sender: Any, asking: Child) -> tuple[int, int]:
    """Return the bytes of the server and of the agent process."""
    await asyncio.sleep(_SETTLE_SECONDS)
    server = (await sender.info("memory"))["used_memory"]
    return server, (await asking.call("memory"))["bytes"]


async def _idle(sender: Any) -> Row:
    before = await commands(sender)
    await asyncio.sleep(_IDLE_SECONDS)
    calls = await commands(sender) - before - 1
    return Row(
        name="idle_commands_per_second",
        value=calls / _IDLE_SECONDS,
        unit="commands/s",
        target="< 20",
        samples={"pending": _LEVELS[-1], "seconds": _IDLE_SECONDS, "commands": calls},
    )


async def commands(sender: Any) -> int:
    """Return how many commands the server has run, those inside scripts included."""
    return sum(entry["calls"] for entry in (await sender.info("commandstats")).values())


def _wake_row(wakes: dict[str, float]) -> Row:
    return Row(
        name="wake_10000_over_100",
        value=wakes["p50_us_10000"] / wakes["p50_us_100"],
        unit="ratio",
        target="<= 1.3",
        samples={"count": _WAKES, **wakes},
    )


def _weight_rows(weights: dict[int, tuple[int, int]]) -> list[Row]:
    few, many = _LEVELS[-2:]
    server, client = (
        (after - before) / (many - few)
        for before, after in zip(weights[few], weights[many], strict=True)
    )
    samples = {"from": few, "to": many, "argument_bytes": len(ARGUMENT) + len('{"command":""}')}
    return [
        Row(name="bytes_per_waiter", value=client, unit="bytes (RSS)", samples=samples),
        Row(name="bytes_per_pending_sdk", value=server, unit="bytes (Redis)", samples=samples),
    ]
