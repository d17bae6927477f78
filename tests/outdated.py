"""Remembered approvals whose tools were declared otherwise since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.domain.records import StoredRequest
from gateway.domain.time_and_tasks import SystemClock
from gateway.models import new_id
from gateway.policy.grants.grant import Effect, Grant, GrantVoter, Shape
from gateway.policy.grants.offers import offers
from gateway.stores.grants import RedisGrants
from gateway.stores.requests import RedisStore


async def outdated(store: RedisStore, record: StoredRequest, **how: Any) -> Grant:
    """Write what ann remembered of a request under other declarations; return it."""
    wide = [one for one in offers(record) if one.match.shape is Shape.PATTERN][-1]
    values: dict[str, Any] = {
        "id": new_id(),
        "effect": Effect.ALLOW,
        "agent": record.request.agent,
        "match": replace(wide.match, fingerprint="of other declarations"),
        "made_by": "ann",
        "made_at": SystemClock().now_ms(),
        "from_request": record.id,
        "words": wide.words,
        "backers": (GrantVoter(person="ann", via=("ann",)),),
        "queues": ("rec",),
    }
    grant = Grant(**{**values, **how})
    assert await RedisGrants(store).add(grant) == "ok"
    return grant
