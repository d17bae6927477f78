"""The cost of a decision on a request that another gateway took in, and the rate of two gateways.

The processor time of each process decides; the rates also depend on the load of the machine.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.children import Child, child
from benchmarks.floor import raw
from benchmarks.stage import until_pending
from benchmarks.table import Row, p50
from gateway.stores.embedded_server import running_engine
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from gateway.wire.codec import JsonObject

_ALONE, _PAIR = "alone", "pair"
_AGENTS = ("agent-0", "agent-1")
_ROUNDS = 8
_DECISIONS = 400
_DEPTH = 32
_SPREAD_SECONDS = 30
_LOOK_SECONDS = 0.1
_SETTLE_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One gateway in one namespace, two gateways in another, and the agents of both."""

    writer: Child
    alone: Child
    two: tuple[Child, Child]
    stores: dict[str, RedisStore]

    async def add_pending(self, namespace: str) -> list[str]:
        """Submit requests of both agents in turn; return their ids once all are pending."""
        store = self.stores[namespace]
        details = {"namespace": namespace, "agents": _AGENTS, "count": _DECISIONS}
        submitted = await self.writer.call("submit", **details)
        await until_pending(store, _DECISIONS)
        await asyncio.sleep(_SETTLE_SECONDS)
        ids: list[str] = submitted["ids"]
        return ids

    async def taken_in(self, ids: Sequence[str]) -> list[list[str]]:
        """Return the requests that each of the two gateways took in."""
        return [(await one.call("taken_in", ids=ids))["ids"] for one in self.two]

    async def server_seconds(self) -> float:
        """Return the processor time of Redis."""
        found = await self.stores[_PAIR].redis.info("cpu")
        return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])


async def pair() -> list[Row]:
    """Compare own and foreign decisions, then one gateway and two, in turns."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="agw-bench-"))
        engine = await stack.enter_async_context(running_engine(Path(folder)))

        async def start(module: str, *words: str) -> Child:
            return await stack.enter_async_context(child(module, engine.url, *words))

        client = raw(engine.url)
        stack.push_async_callback(client.aclose)
        scene = Scene(
            writer=await start("benchmarks.flood"),
            alone=await start("benchmarks.replica", _ALONE, "first"),
            two=(
                await start("benchmarks.replica", _PAIR, "first"),
                await start("benchmarks.replica", _PAIR),
            ),
            stores={name: RedisStore(client, Keys(name)) for name in (_ALONE, _PAIR)},
        )
        for agent in _AGENTS:
            await scene.alone.call("register", agent=agent)
            await scene.two[0].call("register", agent=agent)
        await _until_spread(scene)
        return [_foreign_row(await _by_intake(scene)), _rate_row(*await _by_count(scene))]


async def _until_spread(scene: Scene) -> None:
    """Wait until each of the two gateways takes in the requests of one agent."""
    async with asyncio.timeout(_SPREAD_SECONDS):
        while True:
            ids = await scene.add_pending(_PAIR)
            mine = await scene.taken_in(ids)
            await scene.two[0].call("decide", ids=ids, depth=_DEPTH)
            if all(mine):
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def _by_intake(scene: Scene) -> dict[str, list[float]]:
    """Return the processor time of decisions in µs, of own and foreign requests."""
    spent: dict[str, list[float]] = defaultdict(list)
    for number in range(_ROUNDS + 1):
        ids = await scene.taken_in(await scene.add_pending(_PAIR))
        halves = [(one[::2], one[1::2]) for one in ids]
        for who in (0, 1):
            works = {"own": halves[who][0], "foreign": halves[1 - who][1]}
            # The order changes, so that what the process does besides falls on both.
            for name in list(works)[:: 1 if number % 2 else -1]:
                server = await scene.server_seconds()
                done = await scene.two[who].call("decide", ids=works[name], depth=_DEPTH)
                server = await scene.server_seconds() - server
                if number:
                    count = len(works[name])
                    spent[name].append(done["cpu"] / count / 1e3)
                    spent[f"redis_{name}"].append(server / count * 1e6)
    return spent


async def _by_count(scene: Scene) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return the decisions per second of one gateway and of two, and the processor time in µs of
    one decision in all processes."""
    rates: dict[str, list[float]] = {"one": [], "two": []}
    used: dict[str, float] = defaultdict(float)
    for number in range(_ROUNDS + 1):
        for name, children in (("one", (scene.alone,)), ("two", scene.two)):
            ids = await scene.add_pending(_ALONE if name == "one" else _PAIR)
            server = await scene.server_seconds()
            # Neighbours in the list are of different agents, so each gateway gets both kinds.
            shares = [ids[2 * n :: 2 * len(children)] + ids[2 * n + 1 :: 2 * len(children)]
                      for n in range(len(children))]  # fmt: skip
            spans = await asyncio.gather(
                *(one.call("decide", ids=share, depth=_DEPTH)
                  for one, share in zip(children, shares, strict=True))
            )  # fmt: skip
            if number:
                rates[name].append(_rate(spans))
                gateways = sum(span["cpu"] for span in spans) / 1e3
                used[f"{name}_gateways_us"] += gateways / _DECISIONS / _ROUNDS
                redis = (await scene.server_seconds() - server) * 1e6
                used[f"{name}_redis_us"] += redis / _DECISIONS / _ROUNDS
    return rates, used


def _rate(spans: Sequence[JsonObject]) -> float:
    """Return decisions per second over processes that worked at the same time."""
    elapsed: int = max(span["ended"] for span in spans) - min(span["began"] for span in spans)
    return _DECISIONS / elapsed * 1e9


def _foreign_row(spent: dict[str, list[float]]) -> Row:
    ratios = [foreign / own for own, foreign in zip(spent["own"], spent["foreign"], strict=True)]
    return Row(
        name="foreign_decision_ratio",
        value=p50(ratios),
        unit="of own (CPU)",
        target="<= 1.3",
        samples={
            "with_redis_ratio": (p50(spent["foreign"]) + p50(spent["redis_foreign"]))
            / (p50(spent["own"]) + p50(spent["redis_own"])),
            **{f"{name}_us": p50(values) for name, values in sorted(spent.items())},
        },
    )


def _rate_row(rates: dict[str, list[float]], used: dict[str, float]) -> Row:
    ratios = [two / one for one, two in zip(rates["one"], rates["two"], strict=True)]
    return Row(
        name="two_gateways_ratio",
        value=p50(ratios),
        unit="of one",
        target=">= 0.75",
        samples={
            "one_per_second": p50(rates["one"]),
            "two_per_second": p50(rates["two"]),
            **used,
        },
    )
