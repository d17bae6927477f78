"""Works through a queue of requests that changed: the loop behind cards and reminders."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

from gateway.domain.records import OVERFLOW_MARK, AuditEvent
from gateway.domain.store import Store
from gateway.domain.time_and_tasks import Clock, cancel_and_wait
from gateway.errors import Unreachable
from gateway.ports.outgoing import Copy, CopyState, Outbox, OutboxFigures, Task, is_grant

log = logging.getLogger("gateway.delivery")

LOOK_SECONDS = 27.0
_GATHER_SECONDS = 0.02  # a burst is looked at together, and not while its answers are on their way
# What changes no request, and yet asks for the next step: notes about copies, and of grants.
_NEWS = (
    *("undelivered", "delivery_uncertain", "copy_gone"),
    *("policy_applied", "grant_", "breaker_", "push_", "signed_out"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How patient those are who keep cards true.

    What a killed replica was looking at waits for `lease` seconds at most. An idle worker looks at
    its queue every `idle` seconds, and when what it put off for less than `soon` is due; what
    failed is looked at again after `retry`, what somebody is looking at after `busy`. So many
    requests are looked at `at_once`. Whoever leaves waits for
    `finish` seconds for what is on its way to a platform. Whoever is slow keeps the next request
    waiting for `line` seconds, and the next copy for `copy`; a `call` to an adapter that takes
    longer is given up. A copy says another number every `count_ms`, and is given up after
    `most_refusals` of an edit. Where the platform does not tell of deleted cards, it is
    asked about each that waits every `check` seconds.
    """

    lease: float = 6.0
    idle: float = 2.0
    retry: float = 5.0
    busy: float = 0.2
    soon: float = 60.0
    finish: float = 3.0
    line: float = 1.0
    copy: float = 1.0
    call: float = 25.0
    at_once: int = 64
    count_ms: int = 5000
    most_refusals: int = 24
    check: float = 300.0


TIMINGS = Timings()

Look = Callable[[str], Awaitable[float | None]]
"""Looks at a request; returns in how many seconds to look again, or None."""
Changes = Callable[[], AbstractAsyncContextManager[AsyncIterator[AuditEvent]]]


class OrderedLock:
    """Lets looks at requests pass a point in the order in which they began.

    Whoever is slow keeps others waiting for `patience` seconds at most.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._last = asyncio.Event()
        self._last.set()

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Stand in line from here on; yields what waits until those ahead have passed or left."""
        ahead, mine = self._last, asyncio.Event()
        self._last = mine

        async def wait_turn() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await ahead.wait()
            mine.set()

        try:
            yield wait_turn
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
        timings: Timings = TIMINGS,
    ) -> None:
        self._timings = timings
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
        async with asyncio.TaskGroup() as group:
            # If one of them fails all do, and whoever runs this begins anew: deaf or without
            # leases it would only seem to work.
            group.create_task(self._listen(), name=f"{self._queue} outbox bell")
            group.create_task(self._renew(), name=f"{self._queue} leases")
            while True:
                self._bell.clear()
                if not await self.begin():
                    await self._rest()
                    await asyncio.sleep(_GATHER_SECONDS)

    async def begin(self) -> int:
        """Begin to look at what is due now, as far as there is room; return how much it was."""
        free = self._timings.at_once - len(self._looks)
        if not free:
            return 0
        lease_ms = _ms(self._timings.lease)
        tasks = await self._outbox.lease_due(self._queue, limit=free, lease_ms=lease_ms)
        for task in tasks:
            if task.request_id in self._held:
                # It changed while it is looked at: the look after that one sees it.
                await self._outbox.ack(self._queue, task, again_ms=_ms(self._timings.busy))
                self._ring_in(self._timings.busy)
                continue
            self._held[task.request_id] = task
            look = asyncio.create_task(self._settle(task.request_id), name=f"{self._queue} look")
            self._looks.add(look)
            look.add_done_callback(self._finish_look)
        return len(tasks)

    async def finish(self) -> None:
        """Wait for the looks that were begun. One that hangs is given up, and its lease ends."""
        if self._looks:
            _, hanging = await asyncio.wait(self._looks, timeout=self._timings.finish)
            await cancel_and_wait(*hanging)

    def _finish_look(self, look: asyncio.Task[None]) -> None:
        if len(self._looks) == self._timings.at_once:
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
                again = self._timings.retry
            again_ms = None if again is None else max(1, _ms(again))
            async with self._turn:
                task = self._held[request_id]
                settled = await self._outbox.ack(self._queue, task, again_ms=again_ms)
            if not settled:
                self._bell.set()  # it changed meanwhile, and perhaps no event says so
            elif again is not None and again < self._timings.soon:
                # A turn under a platform's limit is not to be missed by an idle worker.
                self._ring_in(again)
        except Exception:
            # Then it is looked at again when its lease ends.
            log.exception("lease not settled", extra={"event": "outbox_lease_failed"})
        finally:
            del self._held[request_id]

    def _ring_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._bell.set)

    async def _renew(self) -> None:
        """Keep the leases of what is being looked at, however long that takes."""
        while True:
            await asyncio.sleep(self._timings.lease / 3)
            try:
                async with self._turn:
                    for task in list(self._held.values()):
                        lease_ms = _ms(self._timings.lease)
                        renewed = await self._outbox.renew(self._queue, task, lease_ms=lease_ms)
                        self._held[task.request_id] = renewed or task
            except Exception:
                # Then somebody else may look at them too, which does no harm.
                log.exception("leases not renewed", extra={"event": "outbox_lease_failed"})

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._timings.idle):
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


# How true the posted cards of one adapter are at this moment, for the metrics.

_MOST = 1000  # what is behind more than this is behind
_SOON_MS = 30_000  # the longest wait for a turn under a platform's limit; what is later is a check


async def measure_outbox(adapter: str, store: Store, outbox: Outbox, clock: Clock) -> OutboxFigures:
    """Return the figures of an adapter's queue: what is on it is what may be untrue."""
    queued = await outbox.queued(adapter, limit=_MOST)
    now = clock.now_ms()
    ids = [one for one, _ in queued if not is_grant(one) and not one.startswith(OVERFLOW_MARK)]
    ended, armed = list[int](), 0
    for record in await store.load_many(ids) if ids else ():
        if record is None or not record.final:
            continue
        copies = (await outbox.copies(record.id)).values()
        if count := sum(_is_armed(copy, adapter) for copy in copies):
            armed += count
            ended.append(record.decision.decided_at if record.decision else now)
    return OutboxFigures(
        adapter=adapter,
        waiting=sum(due <= now + _SOON_MS for _, due in queued),
        overdue=max(0, max((now - due for _, due in queued), default=0)) / 1000,
        stale=armed,
        oldest_stale=max((now - at for at in ended), default=0) / 1000,
    )


def _is_armed(copy: Copy, adapter: str) -> bool:
    stands = copy.ref is not None and copy.state in (CopyState.POSTED, CopyState.STUCK)
    ours = copy.target.startswith(f"{adapter}:") and not copy.outcome
    return stands and ours and not copy.disarmed
