"""Works through a queue of requests that changed: the loop that couriers and followups share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from gateway.delivery import Outbox, Task
from gateway.errors import Unreachable
from gateway.records import Event
from gateway.tasks import ended

log = logging.getLogger("gateway.outbox")

LEASE_SECONDS = 6.0  # what a killed replica was looking at waits no longer than this
LOOK_SECONDS = 27.0
IDLE_SECONDS = 2.0
_GATHER_SECONDS = 0.02  # a burst is looked at together, and not while its answers are on their way
RETRY_SECONDS = 5.0
# What changes no request, and yet asks for the next step: notes about copies, and of grants.
_NEWS = ("undelivered", "delivery_uncertain", "copy_gone", "grant_")
_BATCH = 64
_AT_ONCE = 16

Look = Callable[[str], Awaitable[float | None]]
"""Looks at a request; returns in how many seconds to look again, or None."""
Changes = Callable[[], AbstractAsyncContextManager[AsyncIterator[Event]]]


class Worker:
    """Takes what is due off one queue and looks at it, until nothing is doubtful any more.

    What fails, times out or is overtaken stays on the queue and is looked at again, by any replica.
    """

    def __init__(self, queue: str, outbox: Outbox, look: Look, changes: Changes) -> None:
        self._queue = queue
        self._outbox = outbox
        self._look = look
        self._changes = changes
        self._bell = asyncio.Event()
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Work until cancelled. Begins with what was left by whoever worked before."""
        listening = asyncio.create_task(self._listen(), name=f"{self._queue} outbox bell")
        try:
            while True:
                self._bell.clear()
                if not await self.sweep():
                    await self._rest()
                    await asyncio.sleep(_GATHER_SECONDS)
        finally:
            await ended(listening)

    async def sweep(self) -> int:
        """Look at what is due now; return how much it was."""
        tasks = await self._outbox.take(self._queue, limit=_BATCH, lease_ms=_lease_ms())
        if tasks:
            held, turn = {task.request_id: task for task in tasks}, asyncio.Lock()
            renewing = asyncio.create_task(self._renew(held, turn), name=f"{self._queue} leases")
            try:
                await asyncio.gather(*(self._settle(one, held, turn) for one in list(held)))
            finally:
                await ended(renewing)
        return len(tasks)

    async def _settle(self, request_id: str, held: dict[str, Task], turn: asyncio.Lock) -> None:
        async with self._at_once:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    again = await self._look(request_id)
            except Exception:
                # Whatever it was, the card may be untrue, and the others must go on.
                log.exception(
                    "not settled", extra={"event": "outbox_failed", "request_id": request_id}
                )
                again = RETRY_SECONDS
            again_ms = None if again is None else max(1, int(again * 1000))
            async with turn:
                await self._outbox.settle(self._queue, held.pop(request_id), again_ms=again_ms)

    async def _renew(self, held: dict[str, Task], turn: asyncio.Lock) -> None:
        """Keep the leases of what is being looked at, however long that takes."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                async with turn:
                    for task in list(held.values()):
                        renewed = await self._outbox.renew(self._queue, task, lease_ms=_lease_ms())
                        held[task.request_id] = renewed or task
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


def _lease_ms() -> int:
    return int(LEASE_SECONDS * 1000)
