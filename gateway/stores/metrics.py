"""Measures the store for the metrics."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.domain.health_and_metrics import StoreFigures
from gateway.stores.connect import each
from gateway.stores.ingress import REPLICA_LEASE_MS
from gateway.stores.requests import RedisGroups, RedisStore


async def measure_store(store: RedisStore) -> StoreFigures:
    """Return the figures of a namespace and of the servers that hold it."""
    now, keys = await store.now(), store.keys
    heard = await each(store.redis, _memory)
    memory, room = max(heard.answers.values(), key=_fullness)
    sealed = await store.redis.hget(keys.meta, "sealed")
    unsealed = await store.redis.xrange(keys.events, min=f"({sealed}" if sealed else "-", count=1)
    messages, oldest = await _measure_intake(store, now)
    unarchived, archived = await _measure_archive(store, now)
    return StoreFigures(
        stopped=await store.is_stopped() is not False,
        paused_agents=len(await RedisGroups(store).list_paused()),
        replicas=int(await store.redis.zcount(keys.replicas, f"({now}", "+inf")),
        memory=memory,
        room=room,
        unsealed=_age(unsealed, now),
        intake=oldest,
        intake_messages=messages,
        lease=await _measure_lease(store, now),
        unarchived=unarchived,
        archive_bytes=archived,
    )


async def _measure_lease(store: RedisStore, now: int) -> float:
    """Return how long ago the leader took its lease, in seconds; as long as a lease without one."""
    leader = await store.redis.hget(store.keys.owners, "duty")
    end = await store.redis.zscore(store.keys.replicas, leader or "")
    return max(0, now - int(end or now) + REPLICA_LEASE_MS) / 1000


async def _measure_archive(store: RedisStore, now: int) -> tuple[float, int]:
    """Return the age of the first event that is not in the archive, and the archive's size."""
    if store.archive is None:
        return 0.0, 0
    first = await store.redis.xrange(store.keys.events, count=1)
    return _age(first, now), await asyncio.to_thread(store.archive.measure)


async def _measure_intake(store: RedisStore, now: int) -> tuple[int, float]:
    """Return how many messages of agents nobody has handled, and the age of the first of them."""
    pipeline = store.redis.pipeline(transaction=False)
    for agent in await store.agents():
        pipeline.xlen(store.keys.ingress(agent))
        pipeline.xrange(store.keys.ingress(agent), count=1)
    # A key that an agent made something else of is no stream, and hides no other.
    found = await pipeline.execute(raise_on_error=False)
    lengths = [one for one in found[::2] if isinstance(one, int)]
    ages = [_age(one, now) for one in found[1::2] if isinstance(one, list)]
    return sum(lengths), max(ages, default=0.0)


async def _memory(node: Any) -> tuple[int, int]:
    found = await node.info("memory")
    return int(found["used_memory"]), int(found["maxmemory"])


def _fullness(memory: tuple[int, int]) -> tuple[float, int]:
    used, room = memory
    return (used / room if room else 0.0), used


def _age(entries: list[tuple[str, Any]], now: int) -> float:
    """Return the age of the first entry, 0 without one. Agents may make up ids of their own."""
    return max(0, now - int(entries[0][0].partition("-")[0])) / 1000 if entries else 0.0
