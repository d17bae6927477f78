"""Remembered decisions in Redis. Each is written by one script, and ended by another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from gateway.grants.grant import ANY_TOOL, Grant, Shape
from gateway.masking import masked
from gateway.stores.codec import dumps
from gateway.stores.scripts import Script
from gateway.stores.store import RedisStore
from gateway.wire import build, plain

# Patterns of one agent for one tool are tried one after the other; exact grants are looked up.
MOST_PATTERNS = 200
_GONE_MS = 24 * 3_600_000  # so long a retried click finds that its grant was taken back


class RedisGrants:
    """A `gateway.book.GrantStore` beside a store of requests."""

    def __init__(self, store: RedisStore) -> None:
        self._redis, self._keys = store.redis, store.keys
        self._add = Script("grant_add", store.at)
        self._drop = Script("grant_drop", store.at)

    async def add(self, grant: Grant) -> str:
        """Write a grant and its event, durably, before it decides anything."""
        exact = grant.match.shape is Shape.EXACT
        outcome = await self._add.run(
            self._redis,
            self._touched(grant),
            [
                grant.id,
                grant.agent,
                dumps(plain(grant)),
                "" if grant.expires_at is None else grant.expires_at,
                "" if grant.max_uses is None else grant.max_uses,
                "" if grant.session is None else "1",
                "" if exact else MOST_PATTERNS,
                dumps(masked({"grant": plain(grant)})),
            ],
        )
        return str(outcome)

    async def end(self, grant: Grant, data: dict[str, object], *, only_spent: bool = False) -> bool:
        """Take a grant back; return whether it was there."""
        return bool(
            await self._drop.run(
                self._redis,
                self._touched(grant),
                [
                    grant.id,
                    grant.agent,
                    dumps(masked({"grant": grant.id, **data})),
                    "1" if only_spent else "",
                    _GONE_MS,
                ],
            )
        )

    async def get(self, grant_id: str) -> Grant | None:
        """Return a grant with its uses, or None."""
        return next(iter(await self._load([grant_id])), None)

    async def about(self, agent: str, tool: str, digest: str) -> tuple[int, list[Grant]]:
        """Return what may cover such a request, in one round trip, and the generation it is of."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hget(self._keys.meta, "generation")
        pipeline.hvals(self._keys.grants_exact(digest))
        pipeline.hvals(self._keys.grants_on(agent, tool))
        pipeline.hvals(self._keys.grants_on(agent, ANY_TOOL))
        generation, *found = await pipeline.execute()
        return int(generation or 0), [_grant(body) for bodies in found for body in bodies]

    async def count(self) -> tuple[int, int]:
        """Return the generation, and how many grants there are in it."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hget(self._keys.meta, "generation")
        pipeline.zcard(self._keys.grants)
        generation, count = await pipeline.execute()
        return int(generation or 0), int(count)

    async def page(self, *, after: str | None, limit: int) -> tuple[list[Grant], str | None]:
        """Return one page of grants, the newest first, and the cursor of the next."""
        rank = 0
        if after is not None:
            found = await self._redis.zrevrank(self._keys.grants, after)
            rank = 0 if found is None else int(found) + 1
        ids = await self._redis.zrange(self._keys.grants, rank, rank + limit - 1, desc=True)
        return await self._load(ids), ids[-1] if len(ids) == limit else None

    async def of_session(self, agent: str, session: str) -> list[Grant]:
        """Return the grants that end with a session."""
        return await self._load(await self._redis.smembers(self._keys.grants_in(agent, session)))

    async def expired(self, limit: int) -> list[Grant]:
        """Return grants whose time is over by the server's clock."""
        seconds, micros = await self._redis.time()
        now = int(seconds) * 1000 + int(micros) // 1000
        return await self._load(
            await self._redis.zrange(
                self._keys.grants_due, "-inf", now, byscore=True, offset=0, num=limit
            )
        )

    async def _load(self, ids: Iterable[str]) -> list[Grant]:
        pipeline = self._redis.pipeline(transaction=False)
        wanted = list(ids)
        for grant_id in wanted:
            pipeline.hmget(self._keys.grant(grant_id), "body", "used", "last")
        rows = await pipeline.execute() if wanted else []
        return [
            replace(_grant(body), used=int(used), last_used=int(last) if last else None)
            for body, used, last in rows
            if body is not None
        ]

    def _touched(self, grant: Grant) -> list[str]:
        keys, match = self._keys, grant.match
        return [
            keys.grant(grant.id),
            keys.grants,
            keys.grants_exact(match.digest)
            if match.digest is not None
            else keys.grants_on(grant.agent, match.tool),
            keys.grants_in(grant.agent, grant.session or ""),
            keys.grants_due,
            keys.events,
            keys.meta,
        ]


def _grant(body: str) -> Grant:
    return build(Grant, json.loads(body))
