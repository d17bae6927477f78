"""Post and edit the copies (posted cards) of one subject (a request, a grant, an overflow) at one
adapter.

The state is stored before and after each step, so that lost, duplicate and late messages do no
harm. After a crash, the next look completes the unfinished steps. Start with `CardCopies.look`.
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
from gateway.domain.log_context import log_also
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
_NONCE_BYTES = 11  # 22 hex digits; the strictest platform allows 25
# A rejected edit is tried again after 5, 10, 20 … seconds, and less often after most of an hour,
# because it may be allowed later. An edit without a response is tried again at the same rate until
# there is one.
_LONGEST_DOUBT_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 120.0
_STUCK_SECONDS = 600.0
_MOST_REPOSTS = 2  # a person who keeps deleting a card does not want it there
_TELLING_SECONDS = 30.0  # by then a notice was sent, or its replica died
_MOST_TELLINGS = 2

T = TypeVar("T")


class CardSource:
    """The current content of a subject's copies. Each kind of subject has a subclass.

    `id` names the subject in queues and copies. Events about its copies contain `agent` and
    `about`. A copy with an older `revision` is edited; one with fewer `reminders` gets a reminder.
    A copy with a different `count` is edited too, but at a limited rate, so that many requests do
    not cause many edits. If `final`, nothing new is posted. If `checked`, the adapter polls for
    deleted messages. If `discreet`, notices show only the summary.
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
        """Return the card to post, or the card for the edit if a `copy` is given."""
        raise NotImplementedError

    async def remind(self, copy: Copy) -> tuple[Notice, Shown] | None:
        """Return the reminder for a copy and its card, or None if nobody needs a reminder."""
        raise NotImplementedError


class PostedMessages:
    """Handles the stored state of the copies in one queue, and makes guarded calls to the
    adapter."""

    def __init__(
        self, queue: str, outbox: Outbox, clock: Clock, timings: Timings = TIMINGS
    ) -> None:
        self._queue = queue
        self._outbox = outbox
        self._clock = clock
        self._timings = timings

    def is_ours(self, target: str) -> bool:
        """Return whether a target belongs to this queue."""
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
        """Save the result for a copy.

        If another worker saved meanwhile, both may have edited the message in either order. The
        message's content is then unknown, so the copy is handled again.
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
        """Run steps, each for one copy. Return the seconds until each next look.

        Steps start one after the other, so that a crash leaves only one copy in doubt. A hanging
        step does not keep the next step from starting, and an exception does not stop the other
        steps.
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
            # After any error, the other copies continue, and this one is tried again.
            log.exception("a posted card could not be updated", extra={"event": "copy_failed"})
            return self._timings.retry

    def pause_after(self, tries: int, longest: float) -> float:
        """Return the pause after this many failures: doubled each time, up to `longest`."""
        return min(self._timings.retry * 2.0 ** min(tries - 1, 10), longest)

    async def ask(self, call: Awaitable[T]) -> T:
        """Call an adapter. After a timeout or an unexpected exception, the result counts as
        unknown.

        Raises only the errors of `gateway.ports.outgoing`.
        """
        try:
            async with asyncio.timeout(self._timings.call):
                return await call
        except DeliveryFailed:
            raise
        except TimeoutError as late:
            raise DeliveryUncertain("the platform did not respond in time") from late
        except Exception as bug:
            # Adapters may be third-party code, and may have posted before they failed.
            log.exception("an adapter failed", extra={"event": "adapter_failed"})
            raise DeliveryUncertain(start_of(f"{type(bug).__name__}: {bug}", 500)) from bug


class CardCopies(PostedMessages):
    """Handles the posted cards at one adapter. `notes` stores their places in the waiting lines of
    the rate limits."""

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
        """Post missing cards and edit outdated ones. Return the seconds until each next look."""
        log_also(agent=subject.agent)
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
        """Post the outcome at a target once. Return the seconds until the next look, or None."""
        new = self.new(target, outcome=True)
        known = copies.get(new.key)
        if known is None or known.state is CopyState.DUE:
            return await self._post(subject, known or new, known=known)
        if known.state is not CopyState.INTENDED:
            return None
        # Another worker is sending it, died, or got no response: the result is unknown.
        left = _TELLING_SECONDS - (self._clock.now_ms() - known.at) / 1000
        if left > 0 and not self._adapter.repeatable:
            return left
        if known.tries < _MOST_TELLINGS or self._adapter.repeatable:
            return await self._post(subject, known, known=known)
        await self._fail(subject, known, known.why or "it is unknown whether the message was sent")
        return None

    def is_in_doubt(self, copy: Copy) -> bool:
        """Return whether it is unknown if a copy was posted, so that posting again may create a
        duplicate."""
        return copy.state is CopyState.INTENDED and not self._adapter.repeatable

    def _list_missing(
        self, subject: CardSource, places: Collection[str], copies: dict[str, Copy]
    ) -> list[Copy]:
        """Return the copies to post: those for new targets, postponed ones, and those that are safe
        to post again."""
        fresh = [self.new(target) for target in places if target not in copies]
        again = {CopyState.DUE, CopyState.INTENDED} if self._adapter.repeatable else {CopyState.DUE}
        if subject.final:
            # Only copies that may exist from before a crash: they must show the final state.
            fresh, again = [], again - {CopyState.DUE}
        known = (
            copy
            for copy in copies.values()
            # A copy that was never sent is dropped if the policy no longer names its place.
            if copy.state in again
            and not copy.outcome
            and (copy.state is not CopyState.DUE or copy.target in places)
        )
        return [copy for copy in (*fresh, *known) if self.is_ours(copy.target)]

    async def _leave(self, subject: CardSource, copy: Copy) -> float:
        """Forget a copy that is no longer needed. The next look comes soon, so that the copies
        after it in the waiting line are handled."""
        await self._lines.leave(copy.nonce)
        await self._outbox.forget(subject.id, copy)
        return self._timings.busy

    async def _post(self, subject: CardSource, due: Copy, *, known: Copy | None) -> float | None:
        """Post a card or an outcome, and save the result."""
        repeated = known is not None and known.state is CopyState.INTENDED
        shown, now = await subject.draw(), self._clock.now_ms()
        intent = replace(due, state=CopyState.INTENDED, at=now, tries=due.tries + due.outcome)
        if not await self._outbox.put_copy(subject.id, intent, before=known):
            return self._timings.retry
        try:
            ref = await self.ask(self._send(subject, due, shown))
        except RetryLater as wait:
            # Nothing was sent now, but an earlier attempt may have been.
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
        """Save where a copy was posted. A copy from before a crash may show an older revision."""
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
        """Post a card and return its reference, or post an outcome."""
        if not due.outcome:
            return await self._adapter.deliver(due.target, shown, due.nonce)
        outcome, discreet = NoticeKind.OUTCOME, subject.discreet
        notice = Notice(kind=outcome, target=due.target, nonce=due.nonce, discreet=discreet)
        await self._adapter.tell(notice, shown)
        return None

    async def _doubt(self, subject: CardSource, intent: Copy, why: str) -> float | None:
        """Save that it is unknown whether a copy or an outcome was posted."""
        await self.keep(subject.id, replace(intent, why=why), intent)
        if intent.outcome:
            return self.pause_after(intent.tries, _LONGEST_DOUBT_SECONDS)
        await self._note(subject, "delivery_uncertain", intent, why)
        await self._outbox.mark(FOLLOWUPS, subject.id)
        return self._timings.retry if self._adapter.repeatable else None

    async def _fail(self, subject: CardSource, copy: Copy, why: str) -> None:
        """Save that the platform rejected a copy, or that it is unknown whether an outcome was
        posted."""
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
        """Check that a pending copy still exists, unless an edit or check confirmed it recently.
        Return the seconds until the next check. Raises CopyGone, RetryLater."""
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
            log.info("could not check a card: %s", unknown, extra={"event": "check_failed"})
        await self.keep(subject.id, replace(copy, at=now), copy)
        return every

    async def _give_up(self, subject: CardSource, copy: Copy, gone: CopyGone) -> float | None:
        """Save that a copy no longer exists. While the request is pending, a deleted copy is posted
        again."""
        await self._note(subject, "copy_gone", copy, str(gone))
        if gone.deleted and not subject.final and copy.reposts < _MOST_REPOSTS:
            again = replace(self.new(copy.target), reposts=copy.reposts + 1)
            await self.keep(subject.id, again, copy)
            return AT_ONCE
        await self.keep(subject.id, replace(copy, state=CopyState.GONE, why=str(gone)), copy)
        await self._outbox.mark(FOLLOWUPS, subject.id)
        return None

    def _set_count(self, subject: CardSource, copy: Copy) -> Copy:
        """Return a copy that shows the subject's current count."""
        if subject.count is None:
            return copy
        return replace(copy, count=subject.count, counted=self._clock.now_ms())

    def _rest(self, copy: Copy) -> float | None:
        """Return the seconds until the count on a copy may be edited again, or None if it need not
        change."""
        rest = copy.counted + self._timings.count_ms - self._clock.now_ms()
        return rest / 1000 if 0 < rest <= self._timings.count_ms else None

    def _pause(self, subject: CardSource, copy: Copy) -> float | None:
        """Return the seconds until the next try for a copy, or None if nothing can be done."""
        if copy.state not in (CopyState.POSTED, CopyState.STUCK):
            return None
        if not copy.tries or copy.tried != subject.revision:
            return 0.0
        return (copy.at - self._clock.now_ms()) / 1000

    async def _postpone_edit(
        self, subject: CardSource, copy: Copy, failure: DeliveryFailed
    ) -> float | None:
        """Postpone a failed edit. For the next revision, the count of tries starts again."""
        log.warning("could not update a card: %s", failure, extra={"event": "update_failed"})
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
            # It may exist. A missing reminder is better than one every few seconds.
            log.warning("reminder uncertain: %s", doubt, extra={"event": "reminder_uncertain"})
        except (RetryLater, CopyGone):
            raise
        except DeliveryFailed as failure:
            # The card exists, and the next reminder may succeed.
            log.warning("reminder refused: %s", failure, extra={"event": "reminder_refused"})

    async def _note(self, subject: CardSource, event: str, copy: Copy, why: str = "") -> None:
        await self._posted.note(event, subject.agent, subject.about, copy, why)
