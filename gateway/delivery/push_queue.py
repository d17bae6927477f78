"""Puts on the push outbox what devices may have to be told of: whatever the event stream names, and
all that waits whenever somebody begins to listen. So nothing is lost in between, no script and no
record knows of devices, and where nobody has one nothing is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gateway.domain.devices import PUSH, DeviceStore
from gateway.domain.records import AuditEvent, Query
from gateway.errors import Unreachable
from gateway.ports.desk import Feed, RequestCalls
from gateway.ports.outgoing import Outbox

DEVICE_ADDED, DEVICE_REMOVED, QUIET_CHANGED = "push_added", "push_removed", "push_quiet"
_ALL = (DEVICE_ADDED, DEVICE_REMOVED, QUIET_CHANGED, "policy_applied", "signed_out")
_PAGE = 200
_MOST = 100_000
_AGAIN_SECONDS = 1.0  # before listening again to a store that did not answer


class PushQueue:
    """The changes that the outbox's worker listens to. `tidy` forgets devices that are nobody's any
    more; `store_errors` are raised by a store that does not answer."""

    def __init__(
        self,
        feed: Feed,
        requests: RequestCalls,
        outbox: Outbox,
        devices: DeviceStore,
        *,
        tidy: Callable[[], Awaitable[None]],
        store_errors: tuple[type[Exception], ...],
    ) -> None:
        self._feed = feed
        self._requests = requests
        self._outbox = outbox
        self._devices = devices
        self._tidy = tidy
        self._down = store_errors
        self._any = False

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[AuditEvent]]:
        """Follow the events, each after what it changes was put on the queue. Raises Unreachable
        when some may have been missed: whoever comes again has all looked at."""
        try:
            async with self._feed.changes() as events:
                await self._mark_all()
                yield self._mark_each(events)
        except self._down as error:
            await asyncio.sleep(_AGAIN_SECONDS)
            raise Unreachable("the push queue cannot be written") from error

    async def _mark_each(self, events: AsyncIterator[AuditEvent]) -> AsyncIterator[AuditEvent]:
        async for event in events:
            if event.type in _ALL:
                await self._mark_all()
            elif self._any and event.request_id:
                await self._outbox.mark(PUSH, event.request_id)
            else:
                continue
            yield event

    async def _mark_all(self) -> None:
        """Have everything looked at that waits, or that a notification may stand for."""
        await self._tidy()
        self._any = await self._devices.count() > 0
        if not self._any:
            return
        for request_id, _ in await self._outbox.queued(PUSH, limit=_MOST):
            await self._outbox.mark(PUSH, request_id)
        after = None
        while True:
            page = await self._requests.page(Query(after=after, limit=_PAGE))
            for record in page.items:
                await self._outbox.mark(PUSH, record.id)
            if (after := page.next) is None:
                return
