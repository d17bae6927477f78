"""Compares a tap in a chat with a direct decision, for all chats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from benchmarks.stage import APPROVER, Stage
from benchmarks.table import Row, p50, percentile
from gateway.domain.policy_document import Route
from gateway.domain.records import Person
from gateway.stores.outbox import RedisOutbox

_WARM_UP = 10
_US = 1000
_LOOK_SECONDS = 0.002


def compare(name: str, tapped: list[int], direct: list[int]) -> list[Row]:
    """Return the row of taps and decisions, each in ns until the waiter went on."""
    tapped, direct = tapped[_WARM_UP:], direct[_WARM_UP:]
    slow = percentile(tapped, 99)
    samples = {
        "count": len(tapped),
        "p50_us": p50(tapped) / _US,
        "p99_us": slow / _US,
        "direct_p50_us": p50(direct) / _US,
        "direct_p99_us": percentile(direct, 99) / _US,
    }
    return [
        Row(
            name=name,
            value=p50(tapped) / p50(direct),
            unit="of direct",
            target="<= 2",
            p99=slow / p50(direct),
            samples=samples,
        )
    ]


async def wait_until_recorded(scene: Stage, request_id: str) -> None:
    """Wait until the gateway has recorded where a card was posted."""
    outbox = RedisOutbox(scene.gateway.backend.store)
    known = False
    while not known:
        copies = await outbox.copies(request_id)
        known = bool(copies) and all(one.ref is not None for one in copies.values())
        await asyncio.sleep(_LOOK_SECONDS)


async def route_to(
    scene: Stage, identity: str, route: Route, beside: Callable[[Route], bool]
) -> None:
    """Put a route in force with the approver under this identity; keep the routes that match
    `beside`."""
    store = scene.gateway.backend.store
    policy = await store.policy()
    person = Person(name=APPROVER, identities=(f"token:{APPROVER}", identity))
    others = (one for one in policy.routes if beside(one) and one.name != route.name)
    await store.apply(replace(policy, people=(person,), routes=(*others, route)), by="bench")
    scene.gateway.core.writer.forget_policy()
