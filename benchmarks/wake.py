"""From the click to the waiter, and from asking to a rule's answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic_ns
from typing import Any

from benchmarks.children import Child, child
from benchmarks.floor import echo_entries, hop, raw
from benchmarks.stage import Stage, click, stage, until_pending
from benchmarks.table import Row, p50, percentile

_ROUNDS = 400
_WARM_UP = 30
_PAUSE_SECONDS = 0.002
_US = 1000


async def click_to_wake() -> list[Row]:
    """Time a decision until the waiter in another process goes on, beside the floor."""
    async with stage() as scene, agent(scene) as plain, agent(scene, "pinned") as pinned:
        await plain.call("listen")
        sender = raw(scene.redis_url)
        floor, product, checked = [], [], []
        for _ in range(_WARM_UP + _ROUNDS):
            floor.append(await floor_wake(sender, plain))
            product.append(await wake(scene, plain, await one_waiter(scene, plain)))
            checked.append(await wake(scene, pinned, await one_waiter(scene, pinned)))
        await sender.aclose()
    floor, product, checked = floor[_WARM_UP:], product[_WARM_UP:], checked[_WARM_UP:]
    return [
        _ratio("click_to_wake_ratio", product, floor, "<= 2.5"),
        _ratio("click_to_wake_pinned_ratio", checked, floor, ""),
    ]


async def rule_round_trip() -> list[Row]:
    """Time a request that a rule decides, beside two hops of the floor."""
    async with stage() as scene, echo_entries(scene.redis_url), agent(scene) as asking:
        await asking.call("trips", count=_WARM_UP)
        found = await asking.call("trips", count=_ROUNDS)
    return [_ratio("rule_round_trip_ratio", found["product"], found["floor"], "<= 3")]


@asynccontextmanager
async def agent(scene: Stage, *words: str) -> AsyncIterator[Child]:
    """Run an agent process that finds the gateway by its folder."""
    where = {"GATEWAY_DATA_DIR": str(scene.folder)}
    async with child("benchmarks.agent", scene.redis_url, *words, **where) as process:
        yield process


async def one_waiter(scene: Stage, asking: Child) -> str:
    """Add one waiter, and let things settle; return its request's id."""
    ids = await fill(scene, asking, 1)
    return ids[0]


async def fill(scene: Stage, asking: Child, count: int) -> list[str]:
    """Have `count` coroutines of a process wait; return the new ids once all are pending."""
    ids: list[str] = (await asking.call("fill", count=count))["ids"]
    await until_pending(scene.gateway.backend.store, count)
    await asyncio.sleep(_PAUSE_SECONDS)
    return ids


async def wake(scene: Stage, asking: Child, request_id: str) -> int:
    """Decide a request; return the ns until its waiter went on."""
    tap = click(request_id)
    began = monotonic_ns()
    await scene.gateway.core.requests.decide(tap)
    return await time_to_wake(asking, began)


async def floor_wake(sender: Any, asking: Child) -> int:
    """Write a raw entry; return the ns until its reader went on."""
    began = monotonic_ns()
    await hop(sender)
    return await time_to_wake(asking, began)


async def time_to_wake(asking: Child, began: int) -> int:
    """Return the ns from `began` until the next waiter of a process went on."""
    took: int = (await asking.read())["at"] - began
    await asyncio.sleep(_PAUSE_SECONDS)
    return took


def _ratio(name: str, product: list[int], floor: list[int], target: str) -> Row:
    slow = percentile(product, 99)
    return Row(
        name=name,
        value=p50(product) / p50(floor),
        unit="of floor",
        target=target,
        p99=slow / p50(floor),
        samples={
            "count": len(product),
            "p50_us": p50(product) / _US,
            "p99_us": slow / _US,
            "floor_p50_us": p50(floor) / _US,
            "floor_p99_us": percentile(floor, 99) / _US,
        },
    )
