"""Redis store for grants (`RedisGrants`). One script writes a grant, another ends it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from gateway.policy.grants.denials import denial_of
from gateway.policy.grants.grant import ANY_TOOL, Effect, End, Grant, Outdated, Shape
from gateway.ports.outgoing import GRANT
from gateway.stores.record_codec import GRANT_OVERLAY, body_of_grant, dumps, event_of_grant
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import MOST_PATTERNS, Script
from gateway.wire.codec import build

_FIELDS = (
    *("body", "was", "used", "last", "gen", "notices", "suspended", "why", "by", "ended"),
    "expires",
)
_MOST_DENIALS = 500


class RedisGrants:
    """Implements `gateway.policy.grant_book.GrantStore` in the namespace of a store of requests.

    Exact grants are found by their digest. Pattern grants of one agent for one tool are tried one
    after the other, so `most_patterns` limits their number.
    """

    def __init__(self, store: RedisStore, *, most_patterns: int = MOST_PATTERNS) -> None:
        self._most_patterns = most_patterns
        self._redis, self._keys = store.redis, store.keys
        self._store = store
        self._add = Script("grant_add", store.at)
        self._drop = Script("grant_drop", store.at)
        self._say = Script("grant_announce", store.at)
        self._mark_outdated = Script("mark_grant_outdated", store.at)

    async def add(self, grant: Grant) -> str:
        """Save a grant and its event durably before it decides anything."""
        exact = grant.match.shape is Shape.EXACT
        outcome = await self._add.run(
            self._redis,
            [*self._keys_of(grant), *self._outboxes(grant)],
            [
                grant.id,
                grant.agent,
                body_of_grant(grant),
                "" if grant.expires_at is None else grant.expires_at,
                "" if grant.max_uses is None else grant.max_uses,
                "" if grant.session is None else "1",
                "" if exact else self._most_patterns,
                event_of_grant(grant),
                "" if grant.announced_at is None else grant.announced_at,
                GRANT + grant.id,
                "1" if grant.effect is Effect.ALLOW else "",
            ],
        )
        return str(outcome)

    async def end(
        self,
        grant: Grant,
        *,
        why: str,
        by: str,
        only_spent: bool = False,
        announced: bool = False,
    ) -> bool:
        """End a grant. Return whether it was active.

        A denial that covers equal calls for a few minutes is not listed among the ended grants,
        unless a person revoked it. Then it is listed for the rest of those minutes.
        """
        keys = self._keys
        ended = keys.grants_passed if grant.told and why != "revoked" else keys.grants_ended
        return bool(
            await self._drop.run(
                self._redis,
                [*self._keys_of(grant), ended, *self._outboxes(grant)],
                [
                    grant.id,
                    grant.agent,
                    dumps({"grant": grant.id, "why": why, "by": by, "used": grant.used}),
                    "1" if only_spent else "",
                    why,
                    by,
                    "1" if announced else "",
                    GRANT + grant.id,
                ],
            )
        )

    async def say(
        self, grant: Grant, field: str, *, before: str, after: str, event: str, announced: bool
    ) -> bool:
        """Set a field of an active grant if the stored value is still `before`. Return whether it
        was set."""
        keys = self._keys
        return bool(
            await self._say.run(
                self._redis,
                [keys.grant(grant.id), keys.events, keys.grants_ending, *self._outboxes(grant)],
                [
                    grant.id,
                    grant.agent,
                    field,
                    before,
                    after,
                    event,
                    dumps({"grant": grant.id}),
                    "1" if announced else "",
                    GRANT + grant.id,
                ],
            )
        )

    async def mark_outdated(self, grant: Grant, outdated: Outdated | None) -> bool:
        """Suspend an active grant, or with None reactivate it, unless the grant changed since.
        Return whether this call changed it."""
        keys, was = self._keys, await self._redis.hget(self._keys.grant(grant.id), "body")
        if was is None or _grant(was) != replace(grant, **GRANT_OVERLAY):
            return False
        told = outdated or Outdated(why="confirmed after a restore", at=0)
        found = keys.grants_on(grant.agent, grant.match.tool)
        if grant.match.digest is not None:
            found = keys.grants_exact(grant.match.digest)
        return bool(
            await self._mark_outdated.run(
                self._redis,
                [
                    keys.grant(grant.id),
                    found,
                    keys.events,
                    keys.meta,
                    keys.grants_ending,
                    *self._outboxes(grant),
                ],
                [
                    grant.id,
                    grant.agent,
                    was,
                    body_of_grant(replace(grant, outdated=outdated)),
                    dumps({"grant": grant.id, "why": told.why, "used": grant.used}),
                    "1" if told.announced else "",
                    GRANT + grant.id,
                    "" if outdated else "1",
                ],
            )
        )

    async def erase(self, grant: Grant) -> None:
        """Replace the content of an ended grant with this content, and update its cards."""
        key = self._keys.grant(grant.id)
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hset(key, "was", body_of_grant(grant))
        pipeline.hincrby(key, "gen", 1)
        for outbox in self._outboxes(grant):
            pipeline.zadd(outbox, {GRANT + grant.id: 0})
        await pipeline.execute()

    async def get(self, grant_id: str) -> Grant | None:
        """Return an active grant with its number of uses, or None."""
        found = await self.find(grant_id)
        return found if found is not None and found.end is None else None

    async def find(self, grant_id: str) -> Grant | None:
        """Return a grant with its number of uses, even if it ended. None if there is no such
        grant."""
        return next(iter(await self._load([grant_id])), None)

    async def about(self, agent: str, tool: str, digest: str) -> tuple[int, list[Grant]]:
        """Return the policy generation and the grants that may cover such a request, in one round
        trip."""
        keys = self._keys
        indexes = keys.grants_exact(digest), keys.grants_on(agent, tool)
        everywhere = keys.grants_on(agent, ANY_TOOL)
        # Read the generation first: newer grants decide nothing under it, and older ones are all
        # listed.
        listed = (("HVALS", key) for key in (*indexes, everywhere))
        generation, *found = await self._store.together(("HGET", keys.meta, "generation"), *listed)
        return int(generation or 0), [_grant(body) for bodies in found for body in bodies]

    async def count(self) -> tuple[int, int]:
        """Return the policy generation and the number of grants."""
        # Read the generation first, as in `about`.
        generation, count = await self._store.together(
            ("HGET", self._keys.meta, "generation"), ("ZCARD", self._keys.grants)
        )
        return int(generation or 0), int(count)

    async def page(self, *, after: str | None, limit: int) -> tuple[list[Grant], str | None]:
        """Return one page of grants, newest first, and the cursor of the next page. The first page
        starts with the denials that cover equal calls for a few minutes."""
        rank, denials = 0, list[Grant]()
        if after is None:
            denials = await self._list_denials()
        if after is not None:
            found = await self._redis.zrevrank(self._keys.grants, after)
            rank = 0 if found is None else int(found) + 1
        ids = await self._redis.zrange(self._keys.grants, rank, rank + limit - 1, desc=True)
        return [*denials, *await self._load(ids)], ids[-1] if len(ids) == limit else None

    async def _list_denials(self) -> list[Grant]:
        """Return the denials that currently cover equal calls, latest first."""
        key, now = self._keys.grants_passed, await self._store.now()
        ids = await self._redis.zrange(
            key, "+inf", f"({now}", byscore=True, desc=True, offset=0, num=_MOST_DENIALS
        )
        return [one for one in await self._load(ids) if one.end is None]

    async def list_ended(self, limit: int) -> list[Grant]:
        """Return the grants that ended last, latest first."""
        last = await self._redis.zrange(self._keys.grants_ended, 0, limit - 1, desc=True)
        return await self._load(last)

    async def of_session(self, agent: str, session: str, *, denials: bool = True) -> list[Grant]:
        """Return the grants that end with a session, optionally with the denials that cover equal
        calls."""
        kept = await self._load(await self._redis.smembers(self._keys.grants_in(agent, session)))
        plain = await self._list_denials() if denials else []
        return [*kept, *(one for one in plain if (one.agent, one.session) == (agent, session))]

    async def due(self, now: int, limit: int) -> tuple[list[Grant], list[Grant]]:
        """Return the grants that expired by `now`, and those for which a notice of expiry is
        due."""
        pipeline = self._redis.pipeline(transaction=False)
        for key in (self._keys.grants_due, self._keys.grants_ending):
            pipeline.zrange(key, "-inf", now, byscore=True, offset=0, num=limit)
        over, ending = await pipeline.execute()
        return await self._load(over), await self._load(one for one in ending if one not in over)

    async def _load(self, ids: Iterable[str]) -> list[Grant]:
        pipeline = self._redis.pipeline(transaction=False)
        wanted = list(ids)
        for grant_id in wanted:
            pipeline.hmget(self._keys.grant(grant_id), *_FIELDS)
        rows = await pipeline.execute() if wanted else []
        found = list[Grant]()
        for grant_id, row in zip(wanted, rows, strict=True):
            body = row[0] or row[1]
            if body is not None and body.isdigit():  # the minutes of a short denial
                made = await self._read_denial(grant_id, int(body), row[_FIELDS.index("expires")])
            else:
                made = _grant(body) if body else None
            if made is not None:
                found.append(_overlay(made, dict(zip(_FIELDS, row, strict=True))))
        return found

    async def _read_denial(self, request_id: str, minutes: int, until: str) -> Grant | None:
        record = await self._store.load(request_id)
        return None if record is None else denial_of(record, minutes=minutes, until=int(until))

    def _keys_of(self, grant: Grant) -> list[str]:
        keys, match = self._keys, grant.match
        if match.digest is None:
            found = keys.grants_on(grant.agent, match.tool)
        elif grant.told and grant.id == grant.from_request:
            found = keys.same(grant.agent, grant.session or "", match.digest)
        else:
            found = keys.grants_exact(match.digest)
        return [
            keys.grant(grant.id),
            keys.grants_passed if grant.told and grant.id == grant.from_request else keys.grants,
            found,
            keys.grants_in(grant.agent, grant.session or ""),
            keys.grants_due,
            keys.events,
            keys.meta,
            keys.grants_ending,
        ]

    def _outboxes(self, grant: Grant) -> list[str]:
        return [self._keys.dirty(name) for name in grant.queues]


def _grant(body: str) -> Grant:
    return build(Grant, json.loads(body))


def _overlay(grant: Grant, fields: dict[str, str | None]) -> Grant:
    """Return a grant with the values of its separate hash fields."""
    last, ended = fields["last"], fields["ended"]
    by, why = fields["by"] or "", fields["why"] or ""
    return replace(
        grant,
        used=int(fields["used"] or 0),
        last_used=int(last) if last else None,
        generation=int(fields["gen"] or 1),
        notices=int(fields["notices"] or 0),
        suspended=bool(fields["suspended"]),
        end=End(why=why, by=by, at=int(ended)) if ended else None,
    )
