"""The cost of remembered decisions per request, and the time until a revocation takes effect."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import monotonic_ns
from typing import Any

from benchmarks.stage import ASK_TOOL, RULE_TOOL, Stage, stage
from benchmarks.table import Row, p50, percentile
from gateway.domain.records import Identity
from gateway.domain.store import MessageContext
from gateway.models import ApprovalRequest, Status, digest_of, new_id
from gateway.policy.grants.grant import Effect, Grant, Match, Shape
from gateway.stores.grants import RedisGrants

_AGENT = "bench"
_SIZES = (10, 1_000, 100_000)
_ROUNDS = 300
_WARM_UP = 30
_BATCH = 200
_US, _MS = 1_000, 1_000_000
_REVOCATIONS = 100


async def grants() -> list[Row]:
    """Time requests that a grant decides, among few and many, in turns with a rule's elsewhere."""
    async with (
        stage() as scene,
        stage(scene.redis_url, first=False) as other,
        stage(scene.redis_url, "without") as without,
    ):
        for one in (scene, without):
            await one.gateway.backend.credentials.add_agent(_AGENT)
        rows, made = [], 0
        for size in _SIZES:
            await _fill(scene, made, size)
            made = size
            rule, found = [], []
            for number in range(_WARM_UP + _ROUNDS):
                asked = number * size // (_WARM_UP + _ROUNDS)
                rule.append(await _time_request(without, RULE_TOOL, asked))
                found.append(await _time_request(scene, ASK_TOOL, asked))
            rows.append(_ratio(size, found[_WARM_UP:], rule[_WARM_UP:]))
        return [*rows, await _measure_revocation(scene, other)]


async def _fill(scene: Stage, made: int, size: int) -> None:
    """Remember so many different requests, in batches."""
    store = RedisGrants(scene.gateway.backend.store)
    for begin in range(made, size, _BATCH):
        numbers = range(begin, min(begin + _BATCH, size))
        await asyncio.gather(*(store.add(_grant(number)) for number in numbers))
    scene.gateway.core.writer.forget_policy()


async def _time_request(scene: Stage, tool: str, number: int) -> int:
    """Submit a request that is decided at once; return what it took, in ns."""
    request = _request(tool, number)
    began = monotonic_ns()
    record, _ = await scene.gateway.core.approvals.submit(request, _origin())
    took = monotonic_ns() - began
    if record.status is not Status.APPROVED:
        raise RuntimeError(f"{tool} was not decided by what it should")
    return took


async def _measure_revocation(scene: Stage, other: Stage) -> Row:
    """Time from the call to revoke until neither replica approves."""
    granted = scene.gateway.core.grant_service
    store = RedisGrants(scene.gateway.backend.store)
    took = []
    for number in range(_REVOCATIONS):
        grant = replace(_grant(-1 - number), id=new_id())
        await store.add(grant)
        for replica in (scene, other):
            await replica.gateway.core.approvals.submit(_request(ASK_TOOL, -1 - number), _origin())
        began = monotonic_ns()
        await granted.revoke(grant.id, Identity(platform="token", id=grant.made_by))
        for replica in (scene, other):
            request = _request(ASK_TOOL, -1 - number)
            record, _ = await replica.gateway.core.approvals.submit(request, _origin())
            if record.status is not Status.PENDING:
                raise RuntimeError("a revoked grant approved")
        took.append(monotonic_ns() - began)
    return Row(
        name="revocation_to_effect_ms",
        value=percentile(took, 99) / _MS,
        unit="ms, p99",
        target="< 1000",
        samples={"count": len(took), "p50_ms": p50(took) / _MS},
    )


def _request(tool: str, number: int) -> ApprovalRequest:
    arguments: dict[str, Any] = {"number": number}
    draft = ApprovalRequest(
        id=new_id(), agent=_AGENT, tool=tool, arguments=arguments, digest="0" * 64
    )
    return replace(draft, digest=digest_of(draft))


def _grant(number: int) -> Grant:
    request = _request(ASK_TOOL, number)
    return Grant(
        id=new_id(),
        effect=Effect.ALLOW,
        agent=_AGENT,
        match=Match(shape=Shape.EXACT, tool=ASK_TOOL, digest=request.digest),
        made_by="ann",
        made_at=0,
    )


def _origin() -> MessageContext:
    return MessageContext(agent=_AGENT, process="p" * 16, verb="submit")


def _ratio(size: int, found: list[int], rule: list[int]) -> Row:
    return Row(
        name=f"grants_{size}_ratio",
        value=p50(found) / p50(rule),
        unit="of a rule's",
        target="<= 1.5" if size == _SIZES[-1] else "",
        p99=percentile(found, 99) / p50(rule),
        samples={
            "count": len(found),
            "p50_us": p50(found) / _US,
            "rule_p50_us": p50(rule) / _US,
        },
    )
