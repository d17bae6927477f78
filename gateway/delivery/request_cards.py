"""Keeps every posted copy of a request's or grant's card true at one adapter.

It looks at the request as it is now, never at a message about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial

from gateway.approvals.core import Core
from gateway.approvals.grant_lifecycle import GrantView
from gateway.cards.blocks import draw, weight_of
from gateway.cards.card import Card, card_of, discreet_summary, leads_to_inbox
from gateway.delivery.outbox_worker import TIMINGS, OrderedLock, Timings
from gateway.delivery.overflow_cards import DigestCards
from gateway.delivery.posting_and_editing import (
    LONGEST_DOUBT_SECONDS,
    CardSource,
    PostedMessages,
)
from gateway.domain.policy_document import REQUESTER, PolicyDocument, Route
from gateway.domain.records import GROUP_MARK, MessageRef, Record
from gateway.domain.time_and_tasks import Clock
from gateway.errors import NotFound
from gateway.ports.desk import address_of
from gateway.ports.outgoing import (
    GRANT,
    Copy,
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    Notice,
    NoticeKind,
    Posts,
    PostsGrants,
    RetryLater,
)

_TELLING_SECONDS = 30.0  # by then a telling has ended, or whoever did it
_MOST_TELLINGS = 2


class RequestCopies:
    """Looks at one request at a time for one adapter that posts. `inbox` is the address of the
    inbox as people open it, empty without one."""

    def __init__(
        self,
        adapter: Posts,
        core: Core,
        clock: Clock,
        timings: Timings = TIMINGS,
        *,
        inbox: str = "",
    ) -> None:
        self._timings = timings
        self._adapter = adapter
        self._requests = core.requests
        self._writer = core.writer
        self._posted = core.copies
        self._outbox = core.outbox
        self._sizes = core.sizes
        self._proofs = core.proofs
        self._clock = clock
        self._copies = PostedMessages(
            adapter.name,
            core.outbox,
            clock,
            repeatable=adapter.repeatable,
            timings=timings,
            queues=adapter,
            checks=adapter,
        )
        self._order = OrderedLock(timings.line)
        self._inbox = inbox
        self._crowds = DigestCards(adapter, core, clock, self._copies, inbox=inbox)

    async def look(self, request_id: str) -> float | None:
        """Make the copies of a request true; return in how many seconds to look again, or None."""
        if request_id.startswith(GROUP_MARK):
            return await self._crowds.look(request_id.removeprefix(GROUP_MARK))
        # Cards come to a channel as they were asked for, however long each takes to be read.
        async with self._order.standing() as passed:
            return await self._show(request_id, passed)

    async def _show(self, request_id: str, passed: Callable[[], Awaitable[None]]) -> float | None:
        try:
            record = await self._requests.get(request_id)
        except NotFound:
            return None
        policy = await self._writer.policy()
        route = policy.ruling_on(record.request).route_at(record)
        copies = await self._outbox.copies(request_id)
        subject = self._subject(record, policy, route)
        places = () if record.behind else route.places(record.tier)
        await passed()
        waits = await self._copies.look(subject, places, copies)
        if record.final and not record.follows:
            informed = self._list_informed(record, policy, route)
            waits += await self._copies.take(
                self._inform(record, target, copies) for target in informed
            )
        return min(waits) if waits else None

    def _subject(self, record: Record, policy: PolicyDocument, route: Route) -> CardSource:
        adapter = self._adapter
        called = mentions(policy, route, adapter.name) if route.mention else ()

        async def card() -> Card:
            drawn = await self._card(record, discreet=route.discreet)
            return replace(drawn, calls=() if record.final else called)

        async def deliver(target: str, nonce: str) -> MessageRef:
            return await adapter.deliver(target, await card(), nonce)

        async def update(ref: MessageRef, copy: Copy) -> None:
            disarms = record.final and not copy.disarmed
            await adapter.update(ref, replace(await card(), disarms=disarms), copy.nonce)

        async def remind(copy: Copy) -> None:
            if record.final:
                await self._copies.withdraw(copy)
                return
            reminder = replace(
                _make_reminder(copy),
                mentions=mentions(policy, route, adapter.name),
                discreet=route.discreet,
            )
            await adapter.tell(reminder, await self._card(record, discreet=route.discreet))

        return CardSource(
            id=record.id,
            revision=record.revision,
            reminders=record.reminders,
            final=record.final,
            count=None if record.final else record.alike,
            deliver=deliver,
            update=update,
            remind=remind,
            noted=partial(self._note, record),
            stands=partial(self._posted.remember_place, record.id),
        )

    def _list_informed(self, record: Record, policy: PolicyDocument, route: Route) -> Iterable[str]:
        """Return where the outcome is told on this platform."""
        owner = next((one for one in policy.people if one.name == record.owner), None)
        targets = [target for target in route.notify if target != REQUESTER]
        if REQUESTER in route.notify and owner is not None:
            targets += owner.identities
        return [target for target in dict.fromkeys(targets) if self._copies.is_ours(target)]

    async def _inform(self, record: Record, target: str, copies: dict[str, Copy]) -> float | None:
        new = self._copies.new(target, outcome=True)
        known = copies.get(new.key)
        if known is None or known.state is CopyState.DUE:
            return await self._tell(record, known or new, known=known)
        if known.state is not CopyState.INTENDED:
            return None
        # Somebody tells it now, or died over it, or got no answer: nobody knows.
        left = _TELLING_SECONDS - (self._clock.now_ms() - known.at) / 1000
        if left > 0 and not self._adapter.repeatable:
            return left
        if known.tries < _MOST_TELLINGS or self._adapter.repeatable:
            return await self._tell(record, known, known=known)
        await self._untold(record, known, known.why or "nobody knows whether it was told")
        return None

    async def _tell(self, record: Record, due: Copy, *, known: Copy | None) -> float | None:
        intent = replace(
            due, state=CopyState.INTENDED, at=self._clock.now_ms(), tries=due.tries + 1
        )
        if not await self._outbox.put_copy(record.id, intent, before=known):
            return self._timings.retry
        discreet = (await self._writer.policy()).ruling_on(record.request).route.discreet
        notice = Notice(
            kind=NoticeKind.OUTCOME, target=due.target, nonce=due.nonce, discreet=discreet
        )
        try:
            card = await self._card(record, discreet=discreet)
            await self._copies.ask(self._adapter.tell(notice, card))
        except RetryLater as wait:
            # Nothing was sent now; what was sent before may be there all the same.
            await self._copies.keep(record.id, replace(due, at=intent.at), intent)
            return wait.seconds
        except DeliveryUncertain as doubt:
            await self._copies.keep(record.id, replace(intent, why=str(doubt)), intent)
            return self._copies.pause_after(intent.tries, LONGEST_DOUBT_SECONDS)
        except DeliveryFailed as failure:
            await self._untold(record, intent, str(failure))
        else:
            await self._copies.keep(record.id, replace(intent, state=CopyState.POSTED), intent)
        return None

    async def _untold(self, record: Record, copy: Copy, why: str) -> None:
        failed = replace(copy, state=CopyState.FAILED, why=why)
        await self._copies.keep(record.id, failed, copy)
        await self._note(record, "undelivered", failed, why)

    async def _note(self, record: Record, event: str, copy: Copy, why: str) -> None:
        about = {"request_id": record.id}
        await self._posted.note(event, record.request.agent, about, copy, why)

    async def _card(self, record: Record, *, discreet: bool = False) -> Card:
        lines, chars = self._adapter.card_lines, self._adapter.card_chars
        card = await draw(
            lambda: card_of(record, lines=lines, chars=chars, proofs=self._proofs),
            *weight_of(record),
        )
        self._sizes.remember_fit(record, lines, chars, card.complete)
        deciders = await self._requests.deciders(record, self._adapter.name)
        summary = discreet_summary(record) if discreet else card.summary
        leads = address_of(self._inbox, record.id) if leads_to_inbox(card) else ""
        return replace(card, deciders=deciders, summary=summary, inbox=leads)


def mentions(policy: PolicyDocument, route: Route, platform: str) -> tuple[str, ...]:
    """Return who may decide on a route, as a platform's identities and groups."""
    prefix = f"{platform}:"
    people = {person.name: person.identities for person in policy.people}
    written = [one for name in route.approvers for one in (people.get(name) or (name,))]
    return tuple(one.removeprefix(prefix) for one in written if one.startswith(prefix))


# Keeps every posted copy of a remembered decision's card true at one adapter.


class GrantCopies:
    """Looks at one remembered decision at a time, as it is now."""

    def __init__(
        self, adapter: PostsGrants, core: Core, clock: Clock, timings: Timings = TIMINGS
    ) -> None:
        self._adapter = adapter
        self._grants = core.grants
        self._posted = core.copies
        self._outbox = core.outbox
        self._copies = PostedMessages(
            adapter.name,
            core.outbox,
            clock,
            repeatable=adapter.repeatable,
            timings=timings,
            queues=adapter,
        )

    async def look(self, subject_id: str) -> float | None:
        """Make the copies of a grant true; return in how many seconds to look again, or None."""
        shown = await self._grants.view(subject_id.removeprefix(GRANT))
        if shown is None:
            return None
        copies = await self._outbox.copies(subject_id)
        subject = self._subject(subject_id, shown)
        return min(await self._copies.look(subject, shown.places, copies), default=None)

    def _subject(self, subject_id: str, shown: GrantView) -> CardSource:
        adapter, grant, card = self._adapter, shown.grant, shown.card
        return CardSource(
            id=subject_id,
            revision=card.revision,
            reminders=grant.notices,
            final=card.ended,
            deliver=lambda target, nonce: adapter.deliver_grant(target, card, nonce),
            update=lambda ref, copy: adapter.update_grant(ref, card, copy.nonce),
            remind=lambda copy: adapter.tell_grant(_make_reminder(copy), shown.news),
            noted=partial(self._note, shown),
            stands=partial(self._posted.remember_place, subject_id),
        )

    async def _note(self, shown: GrantView, event: str, copy: Copy, why: str) -> None:
        await self._posted.note(event, shown.grant.agent, {"grant": shown.grant.id}, copy, why)


def _make_reminder(copy: Copy) -> Notice:
    return Notice(kind=NoticeKind.REMINDER, target=copy.target, nonce=copy.nonce, ref=copy.ref)
