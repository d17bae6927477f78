"""Reads the audit page by page for a report."""

from __future__ import annotations

import asyncio

from gateway.approvals.writer import Writer
from gateway.domain.statistics import EventTally, PeriodReport
from gateway.domain.store import Store
from gateway.errors import InvalidRequest

DAY_MS = 86_400_000
DEFAULT_DAYS = 30

_PAGE = 500
_LAST = 2**64 - 1  # the greatest number of an event within a millisecond


class ReportQuery:
    """Counts what the event stream holds of a period."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    async def read(self, *, since: int | None = None, until: int | None = None) -> PeriodReport:
        """Return the report of a period, of the last 30 days where none is given.

        Raises InvalidRequest when it ends before it begins.
        """
        # What happens in this very millisecond has happened.
        until = self._writer.now() + 1 if until is None else until
        since = max(1, until - DEFAULT_DAYS * DAY_MS) if since is None else since
        if not 0 < since <= until:
            raise InvalidRequest("the period ends before it begins")
        tally, cursor = EventTally(), f"{since - 1}-{_LAST}"
        while events := await self._store.history(cursor, _PAGE):
            for event in events:
                if event.at >= until:
                    return tally.report(since, until)
                tally.take(event)
            cursor = events[-1].id
            await asyncio.sleep(0)  # a long report must not hold up somebody's click
        return tally.report(since, until)
