"""Process a queue of changed requests, to keep cards and reminders up to date; start with
`Worker`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

from gateway.domain.log_context import log_about
from gateway.domain.records import OVERFLOW_MARK, AuditEvent
from gateway.domain.store import Store
from gateway.domain.time_and_tasks import Clock, cancel_and_wait
from gateway.errors import Unreachable
from gateway.ports.outgoing import GRANT, Copy, CopyState, Outbox, OutboxFigures, Task, is_grant

log = logging.getLogger("gateway.delivery")

LOOK_SECONDS = 27.0
_GATHER_SECONDS = 0.02  # handle a burst together, but after its responses
# Events that change no request but may need action: about posted cards, grants and devices.
_NEWS = (
    *("undelivered", "delivery_uncertain", "copy_gone"),
    *("policy_applied", "grant_", "breaker_", "push_", "signed_out"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Intervals and limits of delivery, in seconds unless stated.

    `lease`: until another replica takes over a killed replica's work. `idle`: between checks of the
    queue; entries postponed for less than `soon` are handled on time. `retry`: until the next try
    after a failure. `busy`: until the next try if a request is already being handled. `at_once`:
    how many requests are handled concurrently. `finish`: how long a shutdown waits for running
    calls. `line` and `copy`: how long a slow request or posted card delays the next one. `call`:
    how long a call to an adapter may take. `count_ms`: between two edits of the count on a card.
    `most_refusals`: rejected edits before a card is given up. `check`: between checks for deleted
    cards, if the platform does not report them.
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
"""Handles a request. Returns the seconds until the next look, or None."""
Changes = Callable[[], AbstractAsyncContextManager[AsyncIterator[AuditEvent]]]


class OrderedLock:
    """Lets tasks pass a point in the order in which they started.

    A slow task delays the others for at most `patience` seconds.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._last = asyncio.Event()
        self._last.set()

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Get a place in the order of tasks. Yields a function that waits until all earlier tasks
        have passed or ended."""
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
    """Handles the due entries of one queue by calling `look`.

    Many looks run concurrently, one per request, so a hanging look does not delay the others. After
    a failure, a timeout or a concurrent change, the request stays in the queue, and any replica
    handles it again. A look may take `seconds`, or any time if that is None because each step has a
    limit.
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
        self._turn = asyncio.Lock()  # so that a lease is never renewed and settled at once

    async def run(self) -> None:
        """Handle entries until cancelled. Starts with entries that an earlier worker did not
        finish."""
        async with asyncio.TaskGroup() as group:
            # If one task fails, all fail and the caller restarts: a worker without events or leases
            # would only seem to work.
            group.create_task(self._listen(), name=f"{self._queue} outbox bell")
            group.create_task(self._renew(), name=f"{self._queue} leases")
            while True:
                self._bell.clear()
                if not await self.begin():
                    await self._rest()
                    await asyncio.sleep(_GATHER_SECONDS)

    async def begin(self) -> int:
        """Start looks for due entries, up to the limit. Return how many entries were due."""
        free = self._timings.at_once - len(self._looks)
        if not free:
            return 0
        lease_ms = _ms(self._timings.lease)
        tasks = await self._outbox.lease_due(self._queue, limit=free, lease_ms=lease_ms)
        for task in tasks:
            if task.request_id in self._held:
                # It changed during its look; a look after that handles the change.
                await self._outbox.ack(self._queue, task, again_ms=_ms(self._timings.busy))
                self._ring_in(self._timings.busy)
                continue
            self._held[task.request_id] = task
            look = asyncio.create_task(self._settle(task.request_id), name=f"{self._queue} look")
            self._looks.add(look)
            look.add_done_callback(self._finish_look)
        return len(tasks)

    async def finish(self) -> None:
        """Wait for running looks. Cancel those that hang; their leases expire."""
        if self._looks:
            _, hanging = await asyncio.wait(self._looks, timeout=self._timings.finish)
            await cancel_and_wait(*hanging)

    def _finish_look(self, look: asyncio.Task[None]) -> None:
        if len(self._looks) == self._timings.at_once:
            self._bell.set()
        self._looks.discard(look)

    async def _settle(self, request_id: str) -> None:
        with log_about(**_ids_of(request_id)):
            await self._settle_entry(request_id)

    async def _settle_entry(self, request_id: str) -> None:
        try:
            try:
                async with asyncio.timeout(self._seconds):
                    again = await self._look(request_id)
            except Exception:
                # After any error, the card may be outdated, and other requests must continue.
                log.exception("not settled", extra={"event": "outbox_failed"})
                again = self._timings.retry
            again_ms = None if again is None else max(1, _ms(again))
            async with self._turn:
                task = self._held[request_id]
                settled = await self._outbox.ack(self._queue, task, again_ms=again_ms)
            if not settled:
                self._bell.set()  # it changed meanwhile, perhaps without an event
            elif again is not None and again < self._timings.soon:
                # An idle worker must not miss a turn under a platform's rate limit.
                self._ring_in(again)
        except Exception:
            # The entry is handled again when its lease expires.
            log.exception(
                "could not settle a lease of the outbox", extra={"event": "outbox_lease_failed"}
            )
        finally:
            del self._held[request_id]

    def _ring_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._bell.set)

    async def _renew(self) -> None:
        """Renew the leases of all running looks."""
        while True:
            await asyncio.sleep(self._timings.lease / 3)
            try:
                async with self._turn:
                    for task in list(self._held.values()):
                        lease_ms = _ms(self._timings.lease)
                        renewed = await self._outbox.renew(self._queue, task, lease_ms=lease_ms)
                        self._held[task.request_id] = renewed or task
            except Exception:
                # Another replica may then handle them too, which does no harm.
                log.exception(
                    "could not renew the leases of the outbox",
                    extra={"event": "outbox_lease_failed"},
                )

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
                log.info("the outbox missed events", extra={"event": "outbox_behind"})


def _ids_of(subject_id: str) -> dict[str, str]:
    """Return the ids for the log of an entry: of a request, a grant, or an agent's overflow."""
    if subject_id.startswith(OVERFLOW_MARK):
        return {"agent": subject_id.removeprefix(OVERFLOW_MARK)}
    if is_grant(subject_id):
        return {"grant": subject_id.removeprefix(GRANT)}
    return {"request": subject_id}


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


# Delivery metrics of one adapter.

_MOST = 1000  # an upper limit is enough for metrics
_SOON_MS = 30_000  # the longest wait for a turn under a platform's limit; later entries are checks


async def measure_outbox(adapter: str, store: Store, outbox: Outbox, clock: Clock) -> OutboxFigures:
    """Return the metrics of an adapter's queue. Requests in the queue may have outdated cards."""
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
