"""Posts and edits the copies of one thing, a request or a remembered decision, at one adapter.

What was posted is written down before and after, so that lost, doubled and late messages do no
harm; whoever was killed in between leaves nothing that the next look does not settle.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from gateway.approvals.writer import FOLLOWUPS
from gateway.delivery.outbox_worker import TIMINGS, Timings
from gateway.domain.records import MessageRef
from gateway.domain.redaction import start_of
from gateway.domain.time_and_tasks import Clock
from gateway.ports.outgoing import (
    ChecksCopies,
    Copy,
    CopyGone,
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    Outbox,
    Queues,
    RetryLater,
)

log = logging.getLogger("gateway.courier")

AT_ONCE = 0.001
_NONCE_BYTES = 11  # 22 hex digits: the shortest limit of a platform's nonce is 25
# Edits that were refused are made again after 5, 10, 20 … seconds, and more seldom once that went
# on for most of an hour: what was refused may be allowed again. Those that got no answer are made
# again as often as before, until there is one.
LONGEST_DOUBT_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 120.0
_STUCK_SECONDS = 600.0
_MOST_REPOSTS = 2  # somebody who deletes a card again and again does not want it there

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSource:
    """What copies show at this moment.

    `id` is what queues and copies call it. A copy that shows an older `revision` is edited; one
    with fewer `reminders` is reminded, through `remind`. One that says another `count` is edited
    too, but not every moment: a flood makes no flood of edits. Once it is `final`, nothing new is
    posted. The calls are the adapter's, for this subject; `noted` writes an event about a copy.
    """

    id: str
    revision: int
    reminders: int
    final: bool
    count: int | None = None
    deliver: Callable[[str, str], Awaitable[MessageRef]]
    update: Callable[[MessageRef, Copy], Awaitable[None]]
    remind: Callable[[Copy], Awaitable[None]]
    noted: Callable[[str, Copy, str], Awaitable[None]]
    stands: Callable[[Copy], None]


class PostedMessages:
    """The copies at one adapter. `repeatable` as in `gateway.ports.outgoing.Posts`; `queues` is the
    adapter if its cards stand in line, `checks` if it is to be asked about deleted ones."""

    def __init__(
        self,
        adapter: str,
        outbox: Outbox,
        clock: Clock,
        *,
        repeatable: bool,
        timings: Timings = TIMINGS,
        queues: object = None,
        checks: object = None,
    ) -> None:
        self._checks = checks if isinstance(checks, ChecksCopies) else None
        self._queues = queues if isinstance(queues, Queues) else None
        self._timings = timings
        self._adapter = adapter
        self._outbox = outbox
        self._clock = clock
        self._repeatable = repeatable

    async def look(
        self, subject: CardSource, places: Collection[str], copies: dict[str, Copy]
    ) -> list[float]:
        """Post what is missing and edit what is old; return in how many seconds to look again."""
        posting = (
            self._post(subject, copy, known=copies.get(copy.key))
            for copy in self._list_missing(subject, places, copies)
        )
        ours = [one for one in copies.values() if self.is_ours(one.target) and not one.outcome]
        leaving = (
            self._leave(subject, copy)
            for copy in ours
            if copy.state is CopyState.DUE and (subject.final or copy.target not in places)
        )
        refreshing = (self._refresh(subject, copy) for copy in ours)
        return await self.take(chain(leaving, posting, refreshing))

    def is_ours(self, target: str) -> bool:
        """Whether a target is a place of this adapter."""
        return target.startswith(f"{self._adapter}:")

    def new(self, target: str, *, outcome: bool = False) -> Copy:
        """Return a copy that was not sent yet."""
        return Copy(
            target=target,
            nonce=secrets.token_hex(_NONCE_BYTES),
            state=CopyState.DUE,
            at=self._clock.now_ms(),
            outcome=outcome,
        )

    async def keep(self, subject_id: str, copy: Copy, before: Copy) -> None:
        """Write down what became of a copy.

        When somebody else wrote meanwhile, two of us may have changed the message in either order:
        then what it shows is unknown, and it is looked at again.
        """
        if await self._outbox.put_copy(subject_id, copy, before=before):
            return
        now = (await self._outbox.copies(subject_id)).get(copy.key)
        if now is not None:
            ref = now.ref or copy.ref
            state = copy.state if now.state is CopyState.INTENDED else now.state
            doubtful = replace(now, state=state, ref=ref, revision=0, disarmed=False)
            await self._outbox.put_copy(subject_id, doubtful, before=now)
        await self._outbox.mark(self._adapter, subject_id)

    def _list_missing(
        self, subject: CardSource, places: Collection[str], copies: dict[str, Copy]
    ) -> list[Copy]:
        """Return the copies to post: new targets, what was put off, and what may be repeated."""
        fresh = [self.new(target) for target in places if target not in copies]
        again = {CopyState.DUE, CopyState.INTENDED} if self._repeatable else {CopyState.DUE}
        if subject.final:
            # Only what may stand there already, from before a crash: it must come to show the end.
            fresh, again = [], again - {CopyState.DUE}
        known = (
            copy
            for copy in copies.values()
            # What was never sent to a place is not sent once the policy no longer names it.
            if copy.state in again
            and not copy.outcome
            and (copy.state is not CopyState.DUE or copy.target in places)
        )
        return [copy for copy in (*fresh, *known) if self.is_ours(copy.target)]

    async def _leave(self, subject: CardSource, copy: Copy) -> float:
        """Forget a copy that is not to be posted any more. The next look comes soon, so that the
        worker also finds who stood behind it."""
        await self.withdraw(copy)
        await self._outbox.forget(subject.id, copy)
        return self._timings.busy

    async def withdraw(self, copy: Copy) -> None:
        """Take what waits to be posted of a copy out of the line of its place."""
        if self._queues is not None:
            await self.ask(self._queues.withdraw(copy.target, copy.nonce))

    async def _post(self, subject: CardSource, due: Copy, *, known: Copy | None) -> float | None:
        repeated = known is not None and known.state is CopyState.INTENDED
        intent = replace(due, state=CopyState.INTENDED, at=self._clock.now_ms())
        if not await self._outbox.put_copy(subject.id, intent, before=known):
            return self._timings.retry
        try:
            ref = await self.ask(subject.deliver(due.target, due.nonce))
        except RetryLater as wait:
            # Nothing was sent now; what was sent before may be there all the same.
            later = intent if repeated else replace(intent, state=CopyState.DUE)
            await self.keep(subject.id, later, intent)
            return wait.seconds
        except DeliveryUncertain as doubt:
            await self.keep(subject.id, replace(intent, why=str(doubt)), intent)
            await subject.noted("delivery_uncertain", intent, str(doubt))
            await self._outbox.mark(FOLLOWUPS, subject.id)
            return self._timings.retry if self._repeatable else None
        except DeliveryFailed as failure:
            failed = replace(intent, state=CopyState.FAILED, why=str(failure))
            await self.keep(subject.id, failed, intent)
            await subject.noted("undelivered", intent, str(failure))
            await self._outbox.mark(FOLLOWUPS, subject.id)
            return None
        # What was posted before a crash shows what was true then.
        revision = 0 if repeated else subject.revision
        posted = replace(intent, state=CopyState.POSTED, ref=ref, revision=revision)
        posted = self._set_count(subject, posted)
        await self.keep(subject.id, posted, intent)
        subject.stands(posted)
        await subject.noted("delivered", posted, "")
        if repeated:
            return AT_ONCE
        return None if self._checks is None else self._timings.check

    async def _refresh(self, subject: CardSource, copy: Copy) -> float | None:
        if copy.ref is None or (left := self._pause(subject, copy)) is None:
            return None
        if left > 0:
            return left
        recount = subject.count not in (None, copy.count)
        rest = self._rest(copy) if recount and copy.revision >= subject.revision else None
        try:
            if copy.revision < subject.revision or (recount and rest is None):
                await self.ask(subject.update(copy.ref, copy))
                shown = self._set_count(
                    subject,
                    replace(
                        copy,
                        state=CopyState.POSTED,
                        at=self._clock.now_ms(),
                        revision=subject.revision,
                        tries=0,
                        why="",
                        disarmed=subject.final,
                        away=False,
                    ),
                )
                await self.keep(subject.id, shown, copy)
                copy = shown
            if copy.reminders < subject.reminders:
                await self._remind(subject, copy)
                reminded = replace(copy, reminders=subject.reminders)
                await self.keep(subject.id, reminded, copy)
                copy = reminded
            if rest is None:
                rest = await self._check(subject, copy)
        except RetryLater as wait:
            return wait.seconds
        except CopyGone as gone:
            return await self._give_up(subject, copy, gone)
        except DeliveryFailed as failure:
            return await self._postpone_edit(subject, copy, failure)
        return rest

    async def _check(self, subject: CardSource, copy: Copy) -> float | None:
        """Ask whether a copy that waits is still there, unless an edit or a check showed it within
        the last minutes; return in how many seconds to look again. Raises CopyGone, RetryLater."""
        if self._checks is None or copy.ref is None or subject.final or copy.tries:
            return None
        now, every = self._clock.now_ms(), self._timings.check
        left = every - (now - copy.at) / 1000
        if 0 < left <= every:
            return left
        try:
            await self.ask(self._checks.check_copy(copy.ref))
        except (CopyGone, RetryLater):
            raise
        except DeliveryFailed as unknown:
            log.info("a card is not checked: %s", unknown, extra={"event": "check_failed"})
        await self.keep(subject.id, replace(copy, at=now), copy)
        return every

    async def _give_up(self, subject: CardSource, copy: Copy, gone: CopyGone) -> float | None:
        """Write down that a copy is gone. One that was deleted is posted again while it matters."""
        await subject.noted("copy_gone", copy, str(gone))
        if gone.deleted and not subject.final and copy.reposts < _MOST_REPOSTS:
            again = replace(self.new(copy.target), reposts=copy.reposts + 1)
            await self.keep(subject.id, again, copy)
            return AT_ONCE
        await self.keep(subject.id, replace(copy, state=CopyState.GONE, why=str(gone)), copy)
        await self._outbox.mark(FOLLOWUPS, subject.id)
        return None

    def _set_count(self, subject: CardSource, copy: Copy) -> Copy:
        """Return a copy that says the subject's number from now on."""
        if subject.count is None:
            return copy
        return replace(copy, count=subject.count, counted=self._clock.now_ms())

    def _rest(self, copy: Copy) -> float | None:
        """Return in how many seconds a copy may say another number."""
        rest = copy.counted + self._timings.count_ms - self._clock.now_ms()
        return rest / 1000 if 0 < rest <= self._timings.count_ms else None

    def _pause(self, subject: CardSource, copy: Copy) -> float | None:
        """Return for how many seconds to let a copy be, None when nothing can be done for it."""
        if copy.state not in (CopyState.POSTED, CopyState.STUCK):
            return None
        if not copy.tries or copy.tried != subject.revision:
            return 0.0
        return (copy.at - self._clock.now_ms()) / 1000

    async def _postpone_edit(
        self, subject: CardSource, copy: Copy, failure: DeliveryFailed
    ) -> float | None:
        """Put off an edit that failed; that of the next revision begins anew."""
        log.warning("card not updated: %s", failure, extra={"event": "update_failed"})
        doubtful = isinstance(failure, DeliveryUncertain)
        tries = copy.tries + 1 if copy.tried == subject.revision else 1
        longest = LONGEST_DOUBT_SECONDS if doubtful else _LONGEST_PAUSE_SECONDS
        seconds = self.pause_after(tries, longest)
        stuck = tries >= self._timings.most_refusals and not doubtful
        if stuck:
            seconds = _STUCK_SECONDS
        after = replace(
            copy,
            state=CopyState.STUCK if stuck else CopyState.POSTED,
            why=str(failure),
            at=self._clock.now_ms() + int(seconds * 1000),
            tries=tries,
            tried=subject.revision,
        )
        await self.keep(subject.id, after, copy)
        if stuck and tries == self._timings.most_refusals:
            await subject.noted("copy_stuck", after, str(failure))
        return seconds

    async def _remind(self, subject: CardSource, copy: Copy) -> None:
        try:
            await self.ask(subject.remind(copy))
        except DeliveryUncertain as doubt:
            if self._repeatable:
                raise
            # It may be there. One that is missing is better than one every few seconds.
            log.warning("reminder uncertain: %s", doubt, extra={"event": "reminder_uncertain"})
        except (RetryLater, CopyGone):
            raise
        except DeliveryFailed as failure:
            # The card stands, and the next reminder may be taken.
            log.warning("reminder refused: %s", failure, extra={"event": "reminder_refused"})

    async def take(self, steps: Iterable[Awaitable[float | None]]) -> list[float]:
        """Take steps, each for one copy; return in how many seconds to look again.

        One begins after the other, so that a crash leaves one copy in doubt and not all of them;
        but one that hangs keeps no other from beginning, and whatever one raises, the others go on.
        """
        going: list[asyncio.Task[float | None]] = []
        async with asyncio.TaskGroup() as group:
            for step in steps:
                going.append(group.create_task(self._apart(step)))
                await asyncio.wait(going[-1:], timeout=self._timings.copy)
        return [seconds for one in going if (seconds := one.result()) is not None]

    async def _apart(self, step: Awaitable[float | None]) -> float | None:
        try:
            return await step
        except Exception:
            # Whatever it was, the other copies go on, and this one is looked at again.
            log.exception("a copy is not settled", extra={"event": "copy_failed"})
            return self._timings.retry

    def pause_after(self, tries: int, longest: float) -> float:
        """Return the pause after so many vain tries: twice as long each time, up to the longest."""
        return min(self._timings.retry * 2.0 ** min(tries - 1, 10), longest)

    async def ask(self, call: Awaitable[T]) -> T:
        """Have an adapter do something. When it hangs, or has a bug, nobody knows what it did.

        Raises the failures of `gateway.ports.outgoing`, and no others.
        """
        try:
            async with asyncio.timeout(self._timings.call):
                return await call
        except DeliveryFailed:
            raise
        except TimeoutError as late:
            raise DeliveryUncertain("no answer in time") from late
        except Exception as bug:
            # An adapter is anybody's code, and it may have posted before it failed.
            log.exception("an adapter failed", extra={"event": "adapter_failed"})
            raise DeliveryUncertain(start_of(f"{type(bug).__name__}: {bug}", 500)) from bug
