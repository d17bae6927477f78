"""Works through a queue of requests that changed: the loop that couriers and followups share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from gateway.domain.records import Event
from gateway.domain.tasks import cancel_and_wait
from gateway.errors import Unreachable
from gateway.ports.outgoing import Outbox, Task

log = logging.getLogger("gateway.outbox")

LEASE_SECONDS = 6.0  # what a killed replica was looking at waits no longer than this
LOOK_SECONDS = 27.0
IDLE_SECONDS = 2.0
_GATHER_SECONDS = 0.02  # a burst is looked at together, and not while its answers are on their way
RETRY_SECONDS = 5.0
FINISH_SECONDS = 3.0  # whoever leaves waits so long for what is on its way to a platform
_BUSY_SECONDS = 0.2
_PATIENCE_SECONDS = 1.0
# What changes no request, and yet asks for the next step: notes about copies, and of grants.
_NEWS = ("undelivered", "delivery_uncertain", "copy_gone", "policy_applied", "grant_", "breaker_")
_AT_ONCE = 64

Look = Callable[[str], Awaitable[float | None]]
"""Looks at a request; returns in how many seconds to look again, or None."""
Changes = Callable[[], AbstractAsyncContextManager[AsyncIterator[Event]]]


class InOrder:
    """Lets looks at requests pass a point in the order in which they began."""

    def __init__(self) -> None:
        self._last = asyncio.Event()
        self._last.set()

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Stand in line from here on; yields what waits until those ahead have passed or left.

        Whoever is slow keeps others waiting for a second at most.
        """
        ahead, mine = self._last, asyncio.Event()
        self._last = mine

        async def passed() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await ahead.wait()
            mine.set()

        try:
            yield passed
        finally:
            mine.set()


class Worker:
    """Takes what is due off one queue and looks at it, until nothing is doubtful any more.

    Many looks go on at once, each request in one of them: those that hang hold up no others. What
    fails, times out or is overtaken stays on the queue and is looked at again, by any replica. A
    look takes `seconds` at most, None where each of its steps has a limit of its own.
    """

    def __init__(
        self,
        queue: str,
        outbox: Outbox,
        look: Look,
        changes: Changes,
        *,
        seconds: float | None = LOOK_SECONDS,
    ) -> None:
        self._queue = queue
        self._seconds = seconds
        self._outbox = outbox
        self._look = look
        self._changes = changes
        self._bell = asyncio.Event()
        self._held: dict[str, Task] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()  # a lease is renewed or settled, not both

    async def run(self) -> None:
        """Work until cancelled. Begins with what was left by whoever worked before."""
        listening = asyncio.create_task(self._listen(), name=f"{self._queue} outbox bell")
        renewing = asyncio.create_task(self._renew(), name=f"{self._queue} leases")
        try:
            while True:
                self._bell.clear()
                if not await self.begin():
                    await self._rest()
                    await asyncio.sleep(_GATHER_SECONDS)
        finally:
            await cancel_and_wait(listening, renewing)

    async def begin(self) -> int:
        """Begin to look at what is due now, as far as there is room; return how much it was."""
        free = _AT_ONCE - len(self._looks)
        if not free:
            return 0
        tasks = await self._outbox.lease_due(self._queue, limit=free, lease_ms=_ms(LEASE_SECONDS))
        for task in tasks:
            if task.request_id in self._held:
                # It changed while it is looked at: the look after that one sees it.
                await self._outbox.ack(self._queue, task, again_ms=_ms(_BUSY_SECONDS))
                continue
            self._held[task.request_id] = task
            look = asyncio.create_task(self._settle(task.request_id), name=f"{self._queue} look")
            self._looks.add(look)
            look.add_done_callback(self._looked)
        return len(tasks)

    async def finish(self) -> None:
        """Wait for the looks that were begun. One that hangs is given up, and its lease ends."""
        if self._looks:
            _, hanging = await asyncio.wait(self._looks, timeout=FINISH_SECONDS)
            await cancel_and_wait(*hanging)

    def _looked(self, look: asyncio.Task[None]) -> None:
        if len(self._looks) == _AT_ONCE:
            self._bell.set()
        self._looks.discard(look)

    async def _settle(self, request_id: str) -> None:
        try:
            try:
                async with asyncio.timeout(self._seconds):
                    again = await self._look(request_id)
            except Exception:
                # Whatever it was, the card may be untrue, and the others must go on.
                log.exception(
                    "not settled", extra={"event": "outbox_failed", "request_id": request_id}
                )
                again = RETRY_SECONDS
            again_ms = None if again is None else max(1, _ms(again))
            async with self._turn:
                await self._outbox.ack(self._queue, self._held[request_id], again_ms=again_ms)
        except Exception:
            # Then it is looked at again when its lease ends.
            log.exception("lease not settled", extra={"event": "outbox_lease_failed"})
        finally:
            del self._held[request_id]

    async def _renew(self) -> None:
        """Keep the leases of what is being looked at, however long that takes."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                async with self._turn:
                    for task in list(self._held.values()):
                        lease_ms = _ms(LEASE_SECONDS)
                        renewed = await self._outbox.renew(self._queue, task, lease_ms=lease_ms)
                        self._held[task.request_id] = renewed or task
            except Exception:
                # Then somebody else may look at them too, which does no harm.
                log.exception("leases not renewed", extra={"event": "outbox_lease_failed"})

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._bell.wait()
        except TimeoutError:
            return

    async def _listen(self) -> None:
        while True:
            try:
                async with self._changes() as events:
                    self._bell.set()
                    async for event in events:
                        if event.request_id or event.type.startswith(_NEWS):
                            self._bell.set()
            except Unreachable:
                log.info("outbox fell behind the events", extra={"event": "outbox_behind"})


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
