"""Remembered decisions in the form in which the version before numbered rules wrote them."""

from __future__ import annotations

import json
from typing import Any

from gateway.domain.time_and_tasks import SystemClock
from gateway.models import new_id
from gateway.policy.grants.grant import Effect, Grant, Match
from gateway.stores.grants import RedisGrants
from gateway.stores.requests import RedisStore
from gateway.wire.codec import plain
from tests.world import AGENT


async def stored(store: RedisStore, match: Match, **how: Any) -> Grant:
    """Write a grant of ann's as the version before did; return it."""
    values: dict[str, Any] = {
        "id": new_id(),
        "effect": Effect.ALLOW,
        "agent": AGENT,
        "match": match,
        "made_by": "ann",
        "made_at": SystemClock().now_ms(),
        "words": "what it covers",
        "queues": ("rec",),
    }
    grant = Grant(**{**values, **how})
    assert await RedisGrants(store).add(grant) == "ok"
    await older(store, grant)
    return grant


async def older(store: RedisStore, grant: Grant) -> None:
    """Have a grant stand in the store so that its body says nothing of rules."""
    keys, redis, match = store.keys, store.redis, grant.match
    body = json.dumps({name: value for name, value in plain(grant).items() if name != "reading"})
    on = (
        keys.grants_exact(match.digest) if match.digest else keys.grants_on(grant.agent, match.tool)
    )
    await redis.hset(keys.grant(grant.id), "body", body)
    await redis.hset(on, grant.id, body)
    await redis.hincrby(keys.meta, "generation", 1)
