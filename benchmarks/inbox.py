"""The inbox: from an approval in the browser to the waiter, a long queue, rendering rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from time import monotonic_ns

from adapters.web.cards import build_row
from benchmarks.children import Child, child
from benchmarks.stage import APPROVER, ARGUMENT, ASK_TOOL, Stage, stage
from benchmarks.table import Row, p50, percentile
from benchmarks.wake import agent, one_waiter, time_to_wake, wake
from gateway.domain.records import StoredRequest
from gateway.domain.store import MessageContext
from gateway.models import ApprovalRequest, digest_of, new_id

_ROUNDS = 300
_WARM_UP = 30
_WAITING = 10_000
_AT_ONCE = 50
_LOOKS = 20
_ROWS = 1_000
_US, _MS, _S = 1_000, 1_000_000, 1_000_000_000


async def inbox() -> list[Row]:
    """Measure the inbox."""
    async with stage() as scene, browser(scene) as visitor, agent(scene) as waiting:
        woken = await _click_to_wake(scene, visitor, waiting)
    async with stage() as scene:
        records = await _queue(scene)
        async with browser(scene) as visitor:
            listed = await _first_page(visitor)
    return [woken, listed, _measure_rows(records[-1])]


@asynccontextmanager
async def browser(scene: Stage) -> AsyncIterator[Child]:
    """Run a signed-in browser's process."""
    code = await scene.gateway.backend.logins.invite(APPROVER)
    async with child("benchmarks.browser", scene.gateway.url, code) as process:
        yield process


async def _click_to_wake(scene: Stage, visitor: Child, waiting: Child) -> Row:
    """Time an approval in the browser and one in the gateway's own process, in turns."""
    pressed, direct = [], []
    for _ in range(_WARM_UP + _ROUNDS):
        direct.append(await wake(scene, waiting, await one_waiter(scene, waiting)))
        request_id = await one_waiter(scene, waiting)
        began = (await visitor.call("press", request_id=request_id))["began"]
        pressed.append(await time_to_wake(waiting, began))
    pressed, direct = pressed[_WARM_UP:], direct[_WARM_UP:]
    slow = percentile(pressed, 99)
    return Row(
        name="inbox_click_to_wake_ratio",
        value=p50(pressed) / p50(direct),
        unit="of click",
        target="<= 2",
        p99=slow / p50(direct),
        samples={
            "count": len(pressed),
            "p50_us": p50(pressed) / _US,
            "p99_us": slow / _US,
            "click_p50_us": p50(direct) / _US,
        },
    )


async def _queue(scene: Stage) -> list[StoredRequest]:
    """Submit many requests; return them."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def ask(number: int) -> StoredRequest:
        arguments = {"command": f"{number} {ARGUMENT}"}
        name = f"agent-{number % 100}"
        draft = ApprovalRequest(
            id=new_id(), agent=name, tool=ASK_TOOL, arguments=arguments, digest="0" * 64
        )
        request = replace(draft, digest=digest_of(draft))
        async with limit:
            record, _ = await scene.gateway.core.approvals.submit(
                request, MessageContext(agent=name)
            )
            return record

    return await asyncio.gather(*(ask(number) for number in range(_WAITING)))


async def _first_page(visitor: Child) -> Row:
    """Time the first page of a long queue, as the browser sees it."""
    looks = [await visitor.call("list") for _ in range(_LOOKS + 2)][2:]
    times = [look["ns"] for look in looks]
    return Row(
        name="inbox_first_page_ms",
        value=p50(times) / _MS,
        unit="ms",
        target="< 300",
        samples={
            "waiting": _WAITING,
            "rows": looks[-1]["rows"],
            "kb": looks[-1]["bytes"] / 1000,
            "p99_ms": percentile(times, 99) / _MS,
        },
    )


def _measure_rows(record: StoredRequest) -> Row:
    """Return how many rows of a usual request are rendered in a second."""
    began = monotonic_ns()
    for _ in range(_ROWS):
        build_row(record)
    took = monotonic_ns() - began
    return Row(name="inbox_rows_per_second", value=_ROWS * _S / took, unit="rows/s")
