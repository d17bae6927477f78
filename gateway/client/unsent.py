"""What the gateway must still be told: what was given up, and what became of an action."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from gateway.client.reach import GatewayReach
from gateway.client.transport import Transport
from gateway.errors import GatewayError
from gateway.models import Execution, Reason, Report, State, Status

log = logging.getLogger("gateway.client")

GOODBYE_SECONDS = 1.0
"""So long a caller waits for what is sent on its way out; it is sent on in the background."""

_REPORT_SECONDS = 3.0  # a report holds up an action, or a process that ends after it
_GRACE_SECONDS = 30.0  # what is on its way to the gateway may begin its time that much later


class Withdrawal:
    """One request that is withdrawn. `sent` is set once the gateway has been told, or nobody tries
    any more; `task` returns how the request ended, None where the gateway does not say."""

    def __init__(self, sent: asyncio.Event, task: asyncio.Task[State | None]) -> None:
        self.sent = sent
        self.task = task


class Unsent:
    """Sends it in the background, as soon as the gateway can be reached."""

    def __init__(self, transport: Transport, reach: GatewayReach) -> None:
        self._transport = transport
        self._reach = reach
        self._withdrawals: dict[str, Withdrawal] = {}
        self._reports: set[asyncio.Task[None]] = set()

    def withdraw(self, request_id: str, until: float) -> Withdrawal:
        """Withdraw a request, whose time ends at `until`. An approval that nobody took is reported
        as refused, since it comes too late."""
        known = self._withdrawals.get(request_id)
        if known is not None:
            return known
        sent = asyncio.Event()
        task = asyncio.create_task(self._withdraw(request_id, until, sent))
        made = self._withdrawals[request_id] = Withdrawal(sent, task)
        task.add_done_callback(lambda _: self._withdrawals.pop(request_id, None))
        return made

    async def report(self, request_id: str, report: Report, until: float) -> None:
        """Report what became of an action. Returns when that is done, or soon, and goes on in the
        background; raises GatewayError when it is refused, or until then could not be sent."""
        send = partial(self._transport.report, request_id, report)
        task = asyncio.create_task(self._reach.repeat(send, until=until))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)
        done: set[asyncio.Task[None]] = set()
        try:
            done, _ = await asyncio.wait({task}, timeout=_REPORT_SECONDS)
        finally:
            if not done:
                task.add_done_callback(_log_report)
        if done:
            task.result()

    async def close(self, waiting: Iterable[str]) -> None:
        """Withdraw what still waits, and send what can be sent within a moment."""
        now = asyncio.get_running_loop().time()
        for request_id in waiting:
            self.withdraw(request_id, now)
        leaving = [asyncio.create_task(one.sent.wait()) for one in self._withdrawals.values()]
        if leaving or self._reports:
            await asyncio.wait({*leaving, *self._reports}, timeout=GOODBYE_SECONDS)
        looks = [one.task for one in self._withdrawals.values()]
        late = [name for name, one in self._withdrawals.items() if not one.sent.is_set()]
        for task in (*leaving, *self._reports, *looks):
            task.cancel()
        await asyncio.gather(*leaving, *self._reports, *looks, return_exceptions=True)
        if late:
            log.warning(
                "not withdrawn, since the gateway does not answer: %s",
                ", ".join(late),
                extra={"event": "abandon_failed"},
            )

    async def _withdraw(self, request_id: str, until: float, sent: asyncio.Event) -> State | None:
        loop, wait = asyncio.get_running_loop(), self._transport.wait
        cancel = partial(self._transport.cancel, request_id, reason=Reason.ABANDONED, message="")
        try:
            until = max(until, loop.time()) + _GRACE_SECONDS
            await self._reach.repeat(cancel, until=until, patient=True)
            sent.set()
            # As long as it may be reported: a connection that comes back takes a while.
            state = await wait(request_id, until=max(until, loop.time() + GOODBYE_SECONDS))
            await self._refuse_late(state)
        except GatewayError as error:
            log.info("not withdrawn: %s", error, extra={"event": "abandon_failed"})
            return None
        except TimeoutError:
            return None
        finally:
            sent.set()
        return state

    async def _refuse_late(self, state: State) -> None:
        """Report an approval that came after it was given up, unless somebody took it."""
        if state.status is not Status.APPROVED or state.decision is None or state.may_have_run:
            return
        if self._transport.process.take(state.id):
            await self._transport.report(state.id, Report(execution=Execution.REFUSED_LATE))


def _log_report(task: asyncio.Task[None]) -> None:
    """Log a report that was not sent, which nobody waits for any more."""
    error = "the client was closed" if task.cancelled() else task.exception()
    if error:
        log.warning("not reported: %s", error, extra={"event": "report_failed"})
