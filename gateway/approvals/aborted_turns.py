"""Stopping a turn ends what else of it waits."""

from __future__ import annotations

from contextlib import suppress

from gateway.approvals.writer import Overtaken, Writer
from gateway.domain.records import Record, outcome_of
from gateway.domain.store import Store, Transition
from gateway.errors import NotFound


async def end_siblings(store: Store, writer: Writer, aborted: Record) -> None:
    """Deny the other waiting requests of an aborted request's turn, in the name of who stopped it.

    A turn is known by agent, session and the agent's own name for it; without that name nothing
    else is ended. May be called again: what has ended stays as it is.
    """
    decision, one = aborted.decision, aborted.request
    if decision is None or decision.abort is None or not one.turn:
        return
    ending = outcome_of(decision)

    async def decide(record: Record) -> Transition | None:
        other = record.request
        same = (one.agent, one.session, one.turn) == (other.agent, other.session, other.turn)
        if record.final or not same or (aborted.holder, record.canary) != (record.holder, False):
            return None
        planned = writer.plan_end(record, ending)
        note = f"denied together with {aborted.id}, whose turn was stopped"
        return planned._replace(after=planned.after.copy_with(note=note), clock="before")

    for record in await store.load_many(await store.pending_of(aborted.holder)):
        if record is not None:
            with suppress(NotFound, Overtaken):
                await writer.update(record.id, decide, known=record)
