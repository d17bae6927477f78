"""Asks slow deciders about requests that are stored already, before people see them.

A request that waits for its review stands on one outbox alone, so that no card is posted. The
replica that looks at it holds a lease: when it dies, another one asks anew.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from gateway.approvals.grant_lifecycle import GrantLifecycle
from gateway.approvals.grouping import GroupStore
from gateway.approvals.writer import Overtaken, Writer, posts, queues_of, raised_data
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import REVIEWS, Record, told_edits
from gateway.domain.store import Transition
from gateway.errors import NotFound
from gateway.models import Status
from gateway.policy.chain import Chain, judge


class HookReviews:
    """Looks at one request at a time. Looking twice does no harm: one of the answers is kept."""

    def __init__(self, chain: Chain, writer: Writer, granted: GrantLifecycle) -> None:
        self._chain = chain
        self._writer = writer
        self._granted = granted

    async def look(self, request_id: str, held: GroupStore) -> float | None:
        """Have the whole chain judge a request that waits for it, and store what comes of it."""

        async def decide(record: Record) -> Transition | None:
            if record.final or not record.unreviewed:
                return None
            policy = await self._writer.policy()
            after = await self._judge(record, policy)
            if not after.final:
                changed = after.digest != record.digest
                budget = policy.budget_for(after.request.agent)
                await held.place(after, budget, posts=posts(after, policy), alone=changed)
            return _step(record, after, policy)

        # Who is not there, or was ended by the clock or the kill switch, needs no review.
        with suppress(NotFound, Overtaken):
            after, changed = await self._writer.update(request_id, decide)
            if changed:
                await self._granted.retire_used(after)
        return None

    async def _judge(self, record: Record, policy: PolicyDocument) -> Record:
        route = policy.route_for(record.request.agent, record.request.tool)
        queues = tuple(one for one in record.queues if one != REVIEWS)
        named = queues_of(route, record.owner, policy)
        asked = replace(record, queues=tuple(dict.fromkeys((*named, *queues))))
        after, ending = await judge(self._chain, asked, policy)
        revision = record.revision + 1
        if ending is not None:
            return self._writer.close_record(after, ending, revision=revision)
        return replace(after, revision=revision, shown_since=revision)


def _step(record: Record, after: Record, policy: PolicyDocument) -> Transition:
    return Transition(
        before=record,
        after=after,
        event=after.status.value if after.final else "reviewed",
        data={}
        if after.final
        else {"digest": after.digest, **raised_data(after), **told_edits(after)},
        clock="before",
        generation=policy.generation,
        stoppable=after.status in (Status.PENDING, Status.APPROVED),
    )
