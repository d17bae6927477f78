"""Ten thousand waiters in one process: time to wake, memory, and cost when idle."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.children import Child
from benchmarks.floor import raw
from benchmarks.stage import ARGUMENT, Stage, stage
from benchmarks.table import Row, p50
from benchmarks.wake import agent, fill, floor_wake, wake

_US = 1000
_FEW = 100
_LEVELS = (1, 1000, 10_000)
_WAKES = 100
_IDLE_SECONDS = 30  # many times what anything waits between two looks
_SETTLE_SECONDS = 1.0


async def many_waiters() -> list[Row]:
    """Fill one agent process with waiters, level by level; beside it another keeps a few.

    Each has a gateway and a server of its own, and they take turns: a machine that changes its
    speed meanwhile changes it for both.
    """
    async with (
        stage() as scene,
        agent(scene) as asking,
        stage() as aside,
        agent(aside) as calm,
    ):
        await asking.call("listen")
        sender = raw(scene.redis_url)
        await fill(aside, calm, _FEW)
        few, many = _Waiters(aside, calm, _FEW), _Waiters(scene, asking, 0)
        wakes: dict[str, float] = {}
        weights = {}
        for level in _LEVELS:
            many = replace(many, waiters=level)
            await fill(scene, asking, level)
            weights[level] = await _weigh(sender, asking)
            wakes |= await _wakes(few, many, sender)
        idle = await _idle(sender)
        await sender.aclose()
        for process in (asking, calm):
            await process.call("leave")
    return [_wake_row(wakes), *_weight_rows(weights), idle]


@dataclass(frozen=True, slots=True)
class _Waiters:
    """An agent process with this many waiters, and its gateway."""

    scene: Stage
    asking: Child
    waiters: int

    async def wake_one(self) -> int:
        """Wake any waiter and add another; return the ns that waking took."""
        store = self.scene.gateway.backend.store
        anyone = await store.redis.zrandmember(store.keys.pending)
        took = await wake(self.scene, self.asking, anyone)
        await fill(self.scene, self.asking, self.waiters)
        return took


async def _wakes(few: _Waiters, many: _Waiters, sender: Any) -> dict[str, float]:
    """Return the p50 of waking one of many, one of few, and of the floor, in turns, in µs."""
    crowded, calm, floor = [], [], []
    for _ in range(_WAKES):
        crowded.append(await many.wake_one())
        calm.append(await few.wake_one())
        floor.append(await floor_wake(sender, many.asking))
    level = many.waiters
    return {
        f"p50_us_{level}": p50(crowded) / _US,
        f"p50_us_{few.waiters}_beside_{level}": p50(calm) / _US,
        f"floor_p50_us_{level}": p50(floor) / _US,
    }


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
        value=wakes["p50_us_10000"] / wakes["p50_us_100_beside_10000"],
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
