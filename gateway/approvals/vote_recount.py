"""Applies a new policy to waiting requests: votes under the older one are counted again."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

from gateway.approvals.writer import Overtaken, Writer
from gateway.domain.records import Record
from gateway.domain.store import Store, Transition
from gateway.errors import NotFound
from gateway.policy.authorization import with_valid_votes
from gateway.wire.codec import plain

log = logging.getLogger("gateway.recounting")


async def recount(writer: Writer, store: Store) -> None:
    """Take back, on every waiting request, the approvals of those who may not decide it any more.

    They count for nothing in any case: this is for the cards, which say how many have approved.
    """
    for request_id in await store.list_voted():
        try:
            await _recount(writer, request_id)
        except Exception:
            # One that cannot be read keeps neither the others nor the policy from being followed.
            about = {"event": "recount_failed", "request_id": request_id}
            log.exception("votes not counted again", extra=about)


async def _recount(writer: Writer, request_id: str) -> None:
    async def decide(record: Record) -> Transition | None:
        if record.final:
            return None
        policy = await writer.policy()
        counted = with_valid_votes(policy, policy.route_of(record), record)
        if counted == record:
            return None
        return Transition(
            before=record,
            after=replace(counted, revision=record.revision + 1),
            event="recounted",
            data={"votes": plain(counted.votes)},
            clock="before",
            generation=policy.generation,
        )

    with suppress(NotFound, Overtaken):
        await writer.update(request_id, decide)
