"""Outdated cards after an adapter was down: the time and commands until all are up to date."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import monotonic
from typing import Any

from benchmarks.floor import raw
from benchmarks.many_waiters import commands
from benchmarks.stage import ARGUMENT, ASK_TOOL, Stage, click, stage
from benchmarks.table import Row
from gateway.domain.store import MessageContext
from gateway.models import ApprovalRequest, digest_of, new_id
from gateway.server.background import adapter_api, serve_adapters
from tests.recording import RecordingAdapter

_COPIES = 3_000
_AT_ONCE = 50
_AGENT = "agent-1"
_LOOK_SECONDS = 0.05


async def convergence() -> list[Row]:
    """Post cards, decide all requests while the adapter is down, then start it."""
    async with stage() as scene:
        sender, adapter = raw(scene.redis_url), RecordingAdapter()
        policy = await scene.gateway.backend.store.policy()
        routes = tuple(replace(route, targets=("rec:cards",)) for route in policy.routes)
        await scene.gateway.backend.store.apply(replace(policy, routes=routes), by="bench")
        ids = await _each([_ask(scene, number) for number in range(_COPIES)])
        await _converge(scene, adapter, sender)
        await _each([_decide(scene, request_id) for request_id in ids])
        seconds, calls = await _converge(scene, adapter, sender)
        untrue = sum(message.card.word != "Approved" for message in adapter.messages.values())
        await sender.aclose()
    return [
        Row(
            name="convergence_seconds",
            value=seconds,
            unit="s",
            samples={
                "copies": len(adapter.messages),
                "untrue": untrue,
                "commands": calls,
                "commands_per_copy": calls / _COPIES,
                "copies_per_second": _COPIES / seconds,
            },
        )
    ]


async def _converge(scene: Stage, adapter: RecordingAdapter, sender: Any) -> tuple[float, int]:
    """Run the adapter until its queue is empty; return the time and the number of server
    commands, those inside scripts included."""
    store, core = scene.gateway.backend.store, scene.gateway.core
    before, began, looks = await commands(sender), monotonic(), 1
    async with serve_adapters(adapter, adapter_api(adapter.name, core, store), core):
        while await store.redis.zcard(store.keys.dirty(adapter.name)):
            looks += 1
            await asyncio.sleep(_LOOK_SECONDS)
        took = monotonic() - began
    return took, await commands(sender) - before - looks


async def _each(work: list[Any]) -> list[Any]:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(step: Any) -> Any:
        async with limit:
            return await step

    return await asyncio.gather(*(one(step) for step in work))


async def _ask(scene: Stage, number: int) -> str:
    arguments = {"command": f"{number} {ARGUMENT}"}
    draft = ApprovalRequest(
        id=new_id(), agent=_AGENT, tool=ASK_TOOL, arguments=arguments, digest="0" * 64
    )
    request = replace(draft, digest=digest_of(draft))
    await scene.gateway.core.approvals.submit(request, MessageContext(agent=_AGENT))
    return request.id


async def _decide(scene: Stage, request_id: str) -> None:
    await scene.gateway.core.requests.decide(click(request_id))
