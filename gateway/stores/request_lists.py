"""Lists of requests: pages, newest first or by deadline, that neither skip nor repeat while
requests end, and those that somebody has voted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gateway.domain.records import Page, Query, Record
from gateway.stores.keys import Keys

_SCAN_PAGES = 20
_AT_ONCE = 500


class ListSource(Protocol):
    """What a listing needs of the store."""

    @property
    def redis(self) -> Any:
        """The client."""

    @property
    def keys(self) -> Keys:
        """The names of its keys."""

    async def load_many(self, request_ids: Sequence[str]) -> list[Record | None]:
        """Return records."""


async def page_of(store: ListSource, query: Query) -> Page:
    """Return one page of requests, newest first. Scans a bounded stretch of the index."""
    index, newest_first = _index_of(store, query)
    found: list[Record] = []
    rank = await _rank_after(store, index, query.after, newest_first=newest_first)
    for _ in range(_SCAN_PAGES):
        rows = await store.redis.zrange(
            index, rank, rank + query.limit - 1, desc=newest_first, withscores=True
        )
        records = await store.load_many([request_id for request_id, _ in rows])
        for row, record in zip(rows, records, strict=True):
            if record and _fits(record, query):
                found.append(record)
            if len(found) == query.limit:
                return Page(items=tuple(found), next=_cursor(*row))
        if len(rows) < query.limit:
            return Page(items=tuple(found))
        rank += query.limit
    return Page(items=tuple(found), next=_cursor(*rows[-1]))


async def voted_of(store: ListSource) -> list[str]:
    """Return the ids of the waiting requests that have votes."""
    ids: list[str] = await store.redis.zrange(store.keys.pending, 0, -1)
    found: list[str] = []
    for begin in range(0, len(ids), _AT_ONCE):
        part, pipeline = ids[begin : begin + _AT_ONCE], store.redis.pipeline(transaction=False)
        for request_id in part:
            pipeline.hexists(store.keys.record(request_id), "votes")
        answers = await pipeline.execute()
        found += [one for one, has in zip(part, answers, strict=True) if has]
    return found


def _index_of(store: ListSource, query: Query) -> tuple[str, bool]:
    """Return the index that a listing reads, and whether it reads it from its end."""
    keys = store.keys
    if query.final:
        return keys.done, True
    if query.soonest:
        return keys.deadlines, False
    return (keys.pending_of(query.agent) if query.agent else keys.pending), True


async def _rank_after(
    store: ListSource, index: str, cursor: str | None, *, newest_first: bool
) -> int:
    if cursor is None:
        return 0
    redis = store.redis
    at, _, last = cursor.partition("-")
    rank = await (redis.zrevrank if newest_first else redis.zrank)(index, last)
    if rank is not None:
        return int(rank) + 1
    # The request has left this index since: go on where it stood, by time and then by id.
    beyond = (f"({at}", "+inf") if newest_first else ("-inf", f"({at}")
    passed = int(await redis.zcount(index, *beyond))
    same = await redis.zrange(index, at, at, byscore=True)
    return passed + sum(bool(one > last if newest_first else one < last) for one in same)


def _cursor(request_id: str, score: float) -> str:
    """Name a place in the index by its own score: the server's time, as no gateway's clock is."""
    return f"{score:.0f}-{request_id}"


def _fits(record: Record, query: Query) -> bool:
    return (
        (query.followers or not record.follows)
        # Among the deadlines stand approvals, too, that nobody has taken yet.
        and not (query.soonest and record.final)
        and query.status in (None, record.status)
        and query.agent in (None, record.holder)
        and query.session in (None, record.request.session)
    )
