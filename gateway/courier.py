"""Keeps every posted copy of one adapter true: posts what is missing, edits what is out of date.

It looks at the request as it is now, never at a message about it, so that lost, doubled and late
messages do no harm. What was posted is written down before and after.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Iterable
from dataclasses import replace

from gateway.cards import Card, card_of
from gateway.clock import Clock
from gateway.delivery import (
    Copy,
    CopyGone,
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    Notice,
    NoticeKind,
    Outbox,
    Posts,
    TryLater,
)
from gateway.desk import FrontDesk
from gateway.errors import NotFound
from gateway.outbox import RETRY_SECONDS
from gateway.records import Record
from gateway.rulebook import REQUESTER, PolicyDocument, Route
from gateway.writer import FOLLOWUPS

log = logging.getLogger("gateway.courier")

_AT_ONCE = 0.001
_EDIT_SECONDS = 12.0  # one edit that hangs must leave time for the other copies
_NONCE_BYTES = 11  # 22 hex digits: the shortest limit of a platform's nonce is 25


class Courier:
    """Looks at one request at a time for one adapter that posts."""

    def __init__(self, adapter: Posts, desk: FrontDesk, outbox: Outbox, clock: Clock) -> None:
        self._adapter = adapter
        self._desk = desk
        self._outbox = outbox
        self._clock = clock

    async def look(self, request_id: str) -> float | None:
        """Make the copies of a request true; return in how many seconds to look again, or None."""
        try:
            record = await self._desk.get(request_id)
        except NotFound:
            return None
        policy = await self._desk.policy()
        route = policy.route_for(record.request.agent, record.request.tool)
        copies = await self._outbox.copies(request_id)
        later = [
            await self._apart(self._post(record, copy, known=copies.get(copy.key)))
            for copy in self._missing(record, route, copies)
        ]
        for copy in copies.values():
            if self._is_ours(copy.target) and not copy.outcome:
                refreshing = self._refresh(record, copy, policy, route)
                later.append(await self._apart(refreshing, seconds=_EDIT_SECONDS))
        if record.final:
            for target in self._informed(record, policy, route):
                later.append(await self._apart(self._inform(record, target, copies)))
        waits = [seconds for seconds in later if seconds is not None]
        return min(waits) if waits else None

    async def _apart(
        self, step: Awaitable[float | None], *, seconds: float | None = None
    ) -> float | None:
        """Take a step for one copy; whatever it raises, the other copies go on."""
        try:
            async with asyncio.timeout(seconds):
                return await step
        except Exception:
            log.exception("a copy is not settled", extra={"event": "copy_failed"})
            return RETRY_SECONDS

    def _missing(self, record: Record, route: Route, copies: dict[str, Copy]) -> list[Copy]:
        """Return the copies to post: new targets, what was put off, and what may be repeated."""
        places = route.places(record.tier)
        fresh = [self._new(target) for target in places if target not in copies]
        again = {CopyState.DUE, CopyState.INTENDED} if self._adapter.repeatable else {CopyState.DUE}
        if record.final:
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
        return [copy for copy in (*fresh, *known) if self._is_ours(copy.target)]

    def _new(self, target: str, *, outcome: bool = False) -> Copy:
        return Copy(
            target=target,
            nonce=secrets.token_hex(_NONCE_BYTES),
            state=CopyState.DUE,
            at=self._clock.now_ms(),
            outcome=outcome,
        )

    async def _post(self, record: Record, due: Copy, *, known: Copy | None) -> float | None:
        repeated = known is not None and known.state is CopyState.INTENDED
        intent = replace(due, state=CopyState.INTENDED, at=self._clock.now_ms())
        if not await self._outbox.keep(record.id, intent, before=known):
            return RETRY_SECONDS
        try:
            ref = await self._adapter.deliver(due.target, self._card(record), due.nonce)
        except TryLater as wait:
            # Nothing was sent now; what was sent before may be there all the same.
            await self._keep(
                record, intent if repeated else replace(intent, state=CopyState.DUE), intent
            )
            return wait.seconds
        except DeliveryUncertain as doubt:
            await self._keep(record, replace(intent, why=str(doubt)), intent)
            await self._noted(record, "delivery_uncertain", intent, str(doubt))
            await self._outbox.mark(FOLLOWUPS, record.id)
            return RETRY_SECONDS if self._adapter.repeatable else None
        except DeliveryFailed as failure:
            failed = replace(intent, state=CopyState.FAILED, why=str(failure))
            await self._keep(record, failed, intent)
            await self._noted(record, "undelivered", intent, str(failure))
            await self._outbox.mark(FOLLOWUPS, record.id)
            return None
        # What was posted before a crash shows what was true then.
        revision = 0 if repeated else record.revision
        posted = replace(intent, state=CopyState.POSTED, ref=ref, revision=revision)
        await self._keep(record, posted, intent)
        self._desk.stands(record.id, posted)
        await self._noted(record, "delivered", posted, "")
        return _AT_ONCE if repeated else None

    async def _refresh(
        self, record: Record, copy: Copy, policy: PolicyDocument, route: Route
    ) -> float | None:
        if copy.state is not CopyState.POSTED or copy.ref is None:
            return None
        try:
            if copy.revision < record.revision:
                await self._adapter.update(copy.ref, self._card(record), copy.nonce)
                shown = replace(copy, revision=record.revision)
                await self._keep(record, shown, copy)
                copy = shown
            if copy.reminders < record.reminders and not record.final:
                await self._remind(self._reminder(copy, policy, route), self._card(record))
                await self._keep(record, replace(copy, reminders=record.reminders), copy)
        except TryLater as wait:
            return wait.seconds
        except CopyGone as gone:
            await self._keep(record, replace(copy, state=CopyState.GONE, why=str(gone)), copy)
            await self._noted(record, "copy_gone", copy, str(gone))
            await self._outbox.mark(FOLLOWUPS, record.id)
        except DeliveryFailed as failure:
            log.warning("card not updated: %s", failure, extra={"event": "update_failed"})
            return RETRY_SECONDS
        return None

    async def _remind(self, notice: Notice, card: Card) -> None:
        try:
            await self._adapter.tell(notice, card)
        except DeliveryUncertain as doubt:
            if self._adapter.repeatable:
                raise
            # It may be there. One that is missing is better than one every few seconds.
            log.warning("reminder uncertain: %s", doubt, extra={"event": "reminder_uncertain"})

    def _reminder(self, copy: Copy, policy: PolicyDocument, route: Route) -> Notice:
        return Notice(
            kind=NoticeKind.REMINDER,
            target=copy.target,
            nonce=copy.nonce,
            ref=copy.ref,
            mentions=mentions(policy, route, self._adapter.name),
        )

    def _informed(self, record: Record, policy: PolicyDocument, route: Route) -> Iterable[str]:
        """Return where the outcome is told on this platform."""
        owner = next((one for one in policy.people if one.name == record.owner), None)
        targets = [target for target in route.notify if target != REQUESTER]
        if REQUESTER in route.notify and owner is not None:
            targets += owner.identities
        return [target for target in dict.fromkeys(targets) if self._is_ours(target)]

    async def _inform(self, record: Record, target: str, copies: dict[str, Copy]) -> float | None:
        new = self._new(target, outcome=True)
        known = copies.get(new.key)
        if known is not None and known.state is not CopyState.DUE:
            return None
        intent = replace(known or new, state=CopyState.INTENDED)
        if not await self._outbox.keep(record.id, intent, before=known):
            return RETRY_SECONDS
        notice = Notice(kind=NoticeKind.OUTCOME, target=target, nonce=intent.nonce)
        try:
            await self._adapter.tell(notice, self._card(record))
        except TryLater as wait:
            await self._keep(record, replace(intent, state=CopyState.DUE), intent)
            return wait.seconds
        except DeliveryFailed as failure:
            failed = replace(intent, state=CopyState.FAILED, why=str(failure))
            await self._keep(record, failed, intent)
            await self._noted(record, "undelivered", failed, str(failure))
            return None
        await self._keep(record, replace(intent, state=CopyState.POSTED), intent)
        return None

    async def _keep(self, record: Record, copy: Copy, before: Copy) -> None:
        """Write down what became of a copy.

        When somebody else wrote meanwhile, two of us may have changed the message in either order:
        then what it shows is unknown, and it is looked at again.
        """
        if await self._outbox.keep(record.id, copy, before=before):
            return
        now = (await self._outbox.copies(record.id)).get(copy.key)
        if now is not None:
            ref = now.ref or copy.ref
            state = copy.state if now.state is CopyState.INTENDED else now.state
            doubtful = replace(now, state=state, ref=ref, revision=0)
            await self._outbox.keep(record.id, doubtful, before=now)
        await self._outbox.mark(self._adapter.name, record.id)

    async def _noted(self, record: Record, event: str, copy: Copy, why: str) -> None:
        data = {"target": copy.target}
        if copy.ref is not None:
            data["message"] = copy.ref.message
        if why:
            data["why"] = why[:500]
        await self._desk.note(event, record, data)

    def _card(self, record: Record) -> Card:
        return card_of(record, lines=self._adapter.card_lines, chars=self._adapter.card_chars)

    def _is_ours(self, target: str) -> bool:
        return target.startswith(f"{self._adapter.name}:")


def mentions(policy: PolicyDocument, route: Route, platform: str) -> tuple[str, ...]:
    """Return who may decide on a route, as a platform's identities and groups."""
    prefix = f"{platform}:"
    people = {person.name: person.identities for person in policy.people}
    written = [one for name in route.approvers for one in (people.get(name) or (name,))]
    return tuple(one.removeprefix(prefix) for one in written if one.startswith(prefix))
