"""Posts and edits the copies of one subject (a request, a grant, an overflow) at one adapter.

What was posted is written down before and after, so that lost, doubled and late messages do no
harm; whoever was killed in between leaves nothing that the next look does not settle. Start at
`CardCopies.look`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Collection, Iterable
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from gateway.approvals.request_writer import FOLLOWUPS
from gateway.approvals.services import Core
from gateway.delivery.outbox_worker import TIMINGS, Timings
from gateway.domain.records import MessageRef
from gateway.domain.redaction import start_of
from gateway.domain.time_and_tasks import Clock
from gateway.ports.adapters import Adapter
from gateway.ports.outgoing import (
    AdapterStorage,
    Copy,
    CopyGone,
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    Notice,
    NoticeKind,
    Outbox,
    RetryLater,
    Shown,
)
from gateway.ports.rate_limit import RateLimiter
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.delivery")

AT_ONCE = 0.001
_NONCE_BYTES = 11  # 22 hex digits: the shortest limit of a platform's nonce is 25
# Edits that were refused are made again after 5, 10, 20 … seconds, and more seldom once that went
# on for most of an hour: what was refused may be allowed again. Those that got no answer are made
# again as often as before, until there is one.
_LONGEST_DOUBT_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 120.0
_STUCK_SECONDS = 600.0
_MOST_REPOSTS = 2  # somebody who deletes a card again and again does not want it there
_TELLING_SECONDS = 30.0  # by then a telling has ended, or whoever did it
_MOST_TELLINGS = 2

T = TypeVar("T")


class CardSource:
    """What copies show at this moment. Each subject has a class of its own.

    `id` is what queues and copies call it; events about its copies name its `agent`, and what they
    are `about`. A copy that shows an older `revision` is edited; one with fewer `reminders` is
    reminded. One that says another `count` is edited too, but not every moment: a flood makes no
    flood of edits. Once it is `final`, nothing new is posted. Only where it is `checked`, a
    platform that does not tell of deletions is asked about them. Of a `discreet` one, notices say
    only its summary.
    """

    id: str
    agent: str
    about: JsonObject
    revision: int
    final: bool
    reminders: int = 0
    count: int | None = None
    checked: bool = True
    discreet: bool = False

    async def draw(self, copy: Copy | None = None) -> Shown:
        """Return the card to post, or with a `copy` the card to edit that one to."""
        raise NotImplementedError

    async def remind(self, copy: Copy) -> tuple[Notice, Shown] | None:
        """Return the reminder of a copy and the card it is about; None for nobody to remind."""
        raise NotImplementedError


class PostedMessages:
    """What is written down of the copies on one queue, and calls to whoever sends them."""

    def __init__(
        self, queue: str, outbox: Outbox, clock: Clock, timings: Timings = TIMINGS
    ) -> None:
        self._queue = queue
        self._outbox = outbox
        self._clock = clock
        self._timings = timings

    def is_ours(self, target: str) -> bool:
        """Whether a target is a place of this queue."""
        return target.startswith(f"{self._queue}:")

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
        await self._outbox.mark(self._queue, subject_id)

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


class CardCopies(PostedMessages):
    """The copies of cards at one adapter; its `notes` hold the lines that cards stand in."""

    def __init__(
        self,
        adapter: Adapter,
        notes: AdapterStorage,
        core: Core,
        clock: Clock,
        timings: Timings = TIMINGS,
    ) -> None:
        super().__init__(adapter.name, core.outbox, clock, timings)
        self._adapter = adapter
        self._lines = RateLimiter(notes)
        self._posted = core.copies

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

    async def tell_outcome(
        self, subject: CardSource, target: str, copies: dict[str, Copy]
    ) -> float | None:
        """Tell the outcome at a target, once; return in how many seconds to look again."""
        new = self.new(target, outcome=True)
        known = copies.get(new.key)
        if known is None or known.state is CopyState.DUE:
            return await self._post(subject, known or new, known=known)
        if known.state is not CopyState.INTENDED:
            return None
        # Somebody tells it now, or died over it, or got no answer: nobody knows.
        left = _TELLING_SECONDS - (self._clock.now_ms() - known.at) / 1000
        if left > 0 and not self._adapter.repeatable:
            return left
        if known.tries < _MOST_TELLINGS or self._adapter.repeatable:
            return await self._post(subject, known, known=known)
        await self._fail(subject, known, known.why or "nobody knows whether it was told")
        return None

    def is_in_doubt(self, copy: Copy) -> bool:
        """Whether nobody knows if a copy stands there, and posting it again may make a second."""
        return copy.state is CopyState.INTENDED and not self._adapter.repeatable

    def _list_missing(
        self, subject: CardSource, places: Collection[str], copies: dict[str, Copy]
    ) -> list[Copy]:
        """Return the copies to post: new targets, what was put off, and what may be repeated."""
        fresh = [self.new(target) for target in places if target not in copies]
        again = {CopyState.DUE, CopyState.INTENDED} if self._adapter.repeatable else {CopyState.DUE}
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
        await self._lines.leave(copy.nonce)
        await self._outbox.forget(subject.id, copy)
        return self._timings.busy

    async def _post(self, subject: CardSource, due: Copy, *, known: Copy | None) -> float | None:
        """Post a card, or tell an outcome, and write down what became of it."""
        repeated = known is not None and known.state is CopyState.INTENDED
        shown, now = await subject.draw(), self._clock.now_ms()
        intent = replace(due, state=CopyState.INTENDED, at=now, tries=due.tries + due.outcome)
        if not await self._outbox.put_copy(subject.id, intent, before=known):
            return self._timings.retry
        try:
            ref = await self.ask(self._send(subject, due, shown))
        except RetryLater as wait:
            # Nothing was sent now; what was sent before may be there all the same.
            await self.keep(subject.id, replace(due, at=now), intent)
            return wait.seconds
        except DeliveryUncertain as doubt:
            return await self._doubt(subject, intent, str(doubt))
        except DeliveryFailed as failure:
            await self._fail(subject, intent, str(failure))
        else:
            if ref is not None:
                return await self._note_place(subject, intent, ref, repeated=repeated)
            await self.keep(subject.id, replace(intent, state=CopyState.POSTED), intent)
        return None

    async def _note_place(
        self, subject: CardSource, intent: Copy, ref: MessageRef, *, repeated: bool
    ) -> float | None:
        """Write down where a copy stands. One posted before a crash shows what was true then."""
        revision = 0 if repeated else subject.revision
        posted = replace(intent, state=CopyState.POSTED, ref=ref, revision=revision)
        posted = self._set_count(subject, posted)
        await self.keep(subject.id, posted, intent)
        self._posted.remember_place(subject.id, posted)
        await self._note(subject, "delivered", posted)
        if repeated:
            return AT_ONCE
        return self._timings.check if self._is_checked(subject) else None

    async def _send(self, subject: CardSource, due: Copy, shown: Shown) -> MessageRef | None:
        """Have the adapter post a card, and return where it stands, or tell an outcome."""
        if not due.outcome:
            return await self._adapter.deliver(due.target, shown, due.nonce)
        outcome, discreet = NoticeKind.OUTCOME, subject.discreet
        notice = Notice(kind=outcome, target=due.target, nonce=due.nonce, discreet=discreet)
        await self._adapter.tell(notice, shown)
        return None

    async def _doubt(self, subject: CardSource, intent: Copy, why: str) -> float | None:
        """Write down that nobody knows whether a copy was posted, or an outcome told."""
        await self.keep(subject.id, replace(intent, why=why), intent)
        if intent.outcome:
            return self.pause_after(intent.tries, _LONGEST_DOUBT_SECONDS)
        await self._note(subject, "delivery_uncertain", intent, why)
        await self._outbox.mark(FOLLOWUPS, subject.id)
        return self._timings.retry if self._adapter.repeatable else None

    async def _fail(self, subject: CardSource, copy: Copy, why: str) -> None:
        """Write down that a platform refused a copy, or that nobody knows whether it was told."""
        failed = replace(copy, state=CopyState.FAILED, why=why)
        await self.keep(subject.id, failed, copy)
        await self._note(subject, "undelivered", failed, why)
        if not copy.outcome:
            await self._outbox.mark(FOLLOWUPS, subject.id)

    async def _refresh(self, subject: CardSource, copy: Copy) -> float | None:
        if copy.ref is None or (left := self._pause(subject, copy)) is None:
            return None
        if left > 0:
            return left
        recount = subject.count not in (None, copy.count)
        rest = self._rest(copy) if recount and copy.revision >= subject.revision else None
        try:
            if copy.revision < subject.revision or (recount and rest is None):
                card = await subject.draw(copy)
                await self.ask(self._adapter.update(copy.ref, card, copy.nonce))
                shown = replace(
                    copy,
                    state=CopyState.POSTED,
                    at=self._clock.now_ms(),
                    revision=subject.revision,
                    tries=0,
                    why="",
                    disarmed=subject.final,
                    away=False,
                )
                shown = self._set_count(subject, shown)
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

    def _is_checked(self, subject: CardSource) -> bool:
        return subject.checked and self._adapter.checks_copies

    async def _check(self, subject: CardSource, copy: Copy) -> float | None:
        """Ask whether a copy that waits is still there, unless an edit or a check showed it within
        the last minutes; return in how many seconds to look again. Raises CopyGone, RetryLater."""
        if not self._is_checked(subject) or copy.ref is None or subject.final or copy.tries:
            return None
        now, every = self._clock.now_ms(), self._timings.check
        left = every - (now - copy.at) / 1000
        if 0 < left <= every:
            return left
        try:
            await self.ask(self._adapter.check_copy(copy.ref))
        except (CopyGone, RetryLater):
            raise
        except DeliveryFailed as unknown:
            log.info("a card is not checked: %s", unknown, extra={"event": "check_failed"})
        await self.keep(subject.id, replace(copy, at=now), copy)
        return every

    async def _give_up(self, subject: CardSource, copy: Copy, gone: CopyGone) -> float | None:
        """Write down that a copy is gone. One that was deleted is posted again while it matters."""
        await self._note(subject, "copy_gone", copy, str(gone))
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
        longest = _LONGEST_DOUBT_SECONDS if doubtful else _LONGEST_PAUSE_SECONDS
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
            await self._note(subject, "copy_stuck", after, str(failure))
        return seconds

    async def _remind(self, subject: CardSource, copy: Copy) -> None:
        reminder = await subject.remind(copy)
        if reminder is None:
            await self._lines.leave(copy.nonce)
            return
        try:
            await self.ask(self._adapter.tell(*reminder))
        except DeliveryUncertain as doubt:
            if self._adapter.repeatable:
                raise
            # It may be there. One that is missing is better than one every few seconds.
            log.warning("reminder uncertain: %s", doubt, extra={"event": "reminder_uncertain"})
        except (RetryLater, CopyGone):
            raise
        except DeliveryFailed as failure:
            # The card stands, and the next reminder may be taken.
            log.warning("reminder refused: %s", failure, extra={"event": "reminder_refused"})

    async def _note(self, subject: CardSource, event: str, copy: Copy, why: str = "") -> None:
        await self._posted.note(event, subject.agent, subject.about, copy, why)
