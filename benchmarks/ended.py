"""The memory of one request that has ended: right after its end, and once events are archived."""

from __future__ import annotations

import json

from benchmarks.flood import submission
from benchmarks.memory import BODY_BYTES
from benchmarks.stage import Stage, click, stage
from benchmarks.table import Row, p50
from gateway.domain.store import MessageContext
from gateway.models import ApprovalRequest
from gateway.stores.archiver import ArchivePace, Archiver, Trimming
from gateway.stores.audit import Sealer
from gateway.wire.codec import build

_FEW, _MANY = 500, 2500
_SERVERS = 3
_AGENT, _PROCESS = "bench", "p" * 32
_LETTERS = BODY_BYTES - len(submission(_AGENT, "", 0)[1]["body"])
_AT_ONCE = ArchivePace(settled_ms=-1000, longest_ms=0)


async def ended() -> list[Row]:
    """Let requests of 400 bytes of JSON be handed in as over HTTP, approved and taken, on fresh
    servers; measure how their memory grows, and what is left when events have moved."""
    grown = [await _growth() for _ in range(_SERVERS)]
    after, kept = ([one[place] for one in grown] for place in (0, 1))
    return [
        _row("bytes_per_ended", after, "<= 1600"),
        _row("bytes_per_archived", kept, "<= 900"),
    ]


def _row(name: str, values: list[float], target: str) -> Row:
    samples = {"servers": _SERVERS, "least": min(values), "most": max(values), "from": _FEW}
    return Row(
        name=name,
        value=p50(values),
        unit="bytes (Redis)",
        target=target,
        samples={**samples, "to": _MANY},
    )


async def _growth() -> tuple[float, float]:
    """Return by how many bytes one server grew for each request, before and after archiving."""
    async with stage() as scene:
        await scene.gateway.backend.credentials.add_agent(_AGENT)
        ends, left = [], []
        for count in (_FEW, _MANY - _FEW):
            for _ in range(count):
                await _live(scene)
            store = scene.gateway.backend.store
            # As when the process that asked has gone.
            await store.redis.delete(store.keys.waiting(_AGENT, _PROCESS))
            await Sealer(store, scene.gateway.core.feed).seal_all()
            ends.append(await _used(scene))
            await _archive(scene)
            left.append(await _used(scene))
    # What was archived of the first is no more in the second.
    return (ends[1] - left[0]) / (_MANY - _FEW), (left[1] - left[0]) / (_MANY - _FEW)


async def _live(scene: Stage) -> None:
    """Have one request handed in and approved."""
    _, entry = submission(_AGENT, _PROCESS, _LETTERS)
    request = build(ApprovalRequest, json.loads(entry["body"]))
    origin = MessageContext(agent=_AGENT, process=_PROCESS)
    await scene.gateway.core.approvals.submit(request, origin)
    await scene.gateway.core.requests.decide(click(request.id))


async def _archive(scene: Stage) -> None:
    """Move every event that is sealed."""
    store = scene.gateway.backend.store
    await store.redis.delete(store.keys.of("archive", "claim"))
    await Archiver(store, Trimming(store), _AT_ONCE).archive_all()


async def _used(scene: Stage) -> float:
    return float((await scene.gateway.backend.store.redis.info("memory"))["used_memory"])
