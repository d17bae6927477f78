"""What a person's plain denial costs, compared with an approval: both in turns, in one run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from time import monotonic_ns

from benchmarks.bare import AGENT
from benchmarks.children import Child, child
from benchmarks.intake import spent_ns
from benchmarks.stage import Stage, click, stage, until_pending
from benchmarks.table import Row, p50
from gateway.models import Action

_ROUNDS = 14
_BURST = 100
_OTHERS = 200
_SETTLE_SECONDS = 0.1
"""What follows an answer in the background is counted, too."""
_US = 1000


@dataclass(slots=True)
class Cost:
    """The time per answer of one kind, in ns."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


async def denials() -> list[Row]:
    """Answer bursts of one agent's requests, first alone and then beside others that wait."""
    async with stage() as scene, child("benchmarks.flood", scene.redis_url) as writer:
        await scene.gateway.backend.credentials.add_agent(AGENT)
        alone = await _compare(scene, writer)
        await _ask(scene, writer, _OTHERS)
        return [
            _row("denial_ratio", alone),
            _row("denial_beside_200", await _compare(scene, writer)),
        ]


async def _compare(scene: Stage, writer: Child) -> dict[Action, Cost]:
    costs = {Action.APPROVE: Cost(), Action.DENY: Cost()}
    for number in range(-1, _ROUNDS):
        for action in (*costs,) if number % 2 else (*reversed(costs),):
            ids = await _ask(scene, writer, _BURST)
            clicks = [replace(click(one), action=action) for one in ids]
            await asyncio.sleep(_SETTLE_SECONDS)
            cpu, began = await spent_ns(scene), monotonic_ns()
            for one in clicks:
                await scene.gateway.core.requests.decide(one)
            wall = monotonic_ns() - began
            await asyncio.sleep(_SETTLE_SECONDS)
            if number >= 0:
                costs[action].wall.append(wall / _BURST)
                costs[action].cpu.append((await spent_ns(scene) - cpu) / _BURST)
    return costs


async def _ask(scene: Stage, writer: Child, count: int) -> list[str]:
    store = scene.gateway.backend.store
    wanted = await store.count_pending() + count
    found = await writer.call("submit", namespace="gw", agents=[AGENT], count=count)
    await until_pending(store, wanted)
    ids: list[str] = found["ids"]
    return ids


def _row(name: str, costs: dict[Action, Cost]) -> Row:
    """Return the median of the rounds: within one, both met the same machine."""
    approval, denial = costs[Action.APPROVE], costs[Action.DENY]
    cpu, wall = (
        p50(b / a for a, b in zip(*times, strict=True))
        for times in ((approval.cpu, denial.cpu), (approval.wall, denial.wall))
    )
    return Row(
        name=name,
        value=cpu,
        unit="ratio of CPU",
        target="<= 1.1",
        samples={
            "denials": _ROUNDS * _BURST,
            "denial_us": p50(denial.cpu) / _US,
            "approval_us": p50(approval.cpu) / _US,
            "wall_ratio": wall,
        },
    )
