"""The queue as one person sees it: soonest deadline first, and theirs apart from others'."""

from __future__ import annotations

from collections.abc import AsyncIterator

from gateway.approvals.writer import Writer
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Identity, Page, Query, Record
from gateway.domain.store import Store
from gateway.errors import Unauthorized
from gateway.policy.authorization import approver, who_may_approve
from gateway.ports.lists import QueueCounts, Side

_MOST = 1_000  # of what waits, for one page or one count
_AT_ONCE = 100


class QueueDesk:
    """A `gateway.ports.QueueCalls`."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    async def page(
        self, identity: Identity, side: Side, *, after: str | None = None, limit: int = 50
    ) -> Page:
        """Return one page of a side of the queue, the soonest deadline first."""
        policy = await self._writer.policy()
        found: list[Record] = []
        last, looked = after, 0
        async for record in self._read(after):
            looked += 1
            last = f"{record.deadline}-{record.id}"
            if side is Side.ALL or is_mine(policy, record, identity) is (side is Side.MINE):
                found.append(record.copy_with(approvers=who_may_approve(policy, record)))
            if len(found) == limit or looked == _MOST:
                return Page(items=tuple(found), next=last)
        return Page(items=tuple(found))

    async def count(self, identity: Identity, *, since: int = 0) -> QueueCounts:
        """Return how much waits on each side, of the soonest thousand, and what is new since."""
        policy = await self._writer.policy()
        asked: list[int] = []  # when, for each of theirs
        looked, more = 0, False
        async for record in self._read(None):
            if more := looked == _MOST:
                break
            looked += 1
            if is_mine(policy, record, identity):
                asked.append(record.created)
        return QueueCounts(
            mine=len(asked),
            others=looked - len(asked),
            more=more,
            fresh=sum(one > since for one in asked),
            newest=max(asked, default=0),
        )

    async def is_mine(self, record: Record, identity: Identity) -> bool:
        """Whether a request waits for this person."""
        return not record.final and is_mine(await self._writer.policy(), record, identity)

    async def _read(self, after: str | None) -> AsyncIterator[Record]:
        """Yield what waits and has a card of its own, by deadline."""
        while True:
            query = Query(soonest=True, followers=False, after=after, limit=_AT_ONCE)
            page = await self._store.page(query)
            for record in page.items:
                if not record.unreviewed:
                    yield record
            if (after := page.next) is None:
                return


def is_mine(policy: PolicyDocument, record: Record, identity: Identity) -> bool:
    """Whether a waiting request waits for this person: they may decide it, and have not voted."""
    try:
        name = approver(policy, record, identity).name
    except Unauthorized:
        return False
    return all(vote.person != name for vote in record.votes)
