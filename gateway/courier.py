"""Keeps every posted copy of a request true at one adapter, reminds, and tells the outcome.

It looks at the request as it is now, never at a message about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from gateway.cards import Card, card_of
from gateway.clock import Clock
from gateway.copies import Copies, Subject, apart
from gateway.delivery import (
    Copy,
    CopyState,
    DeliveryFailed,
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


class Courier:
    """Looks at one request at a time for one adapter that posts."""

    def __init__(self, adapter: Posts, desk: FrontDesk, outbox: Outbox, clock: Clock) -> None:
        self._adapter = adapter
        self._desk = desk
        self._outbox = outbox
        self._copies = Copies(adapter.name, outbox, clock, repeatable=adapter.repeatable)

    async def look(self, request_id: str) -> float | None:
        """Make the copies of a request true; return in how many seconds to look again, or None."""
        try:
            record = await self._desk.get(request_id)
        except NotFound:
            return None
        policy = await self._desk.policy()
        route = policy.route_for(record.request.agent, record.request.tool)
        copies = await self._outbox.copies(request_id)
        subject = self._subject(record, policy, route)
        waits = await self._copies.look(subject, route.places(record.tier), copies)
        if record.final:
            for target in self._informed(record, policy, route):
                wait = await apart(self._inform(record, target, copies))
                waits += [] if wait is None else [wait]
        return min(waits) if waits else None

    def _subject(self, record: Record, policy: PolicyDocument, route: Route) -> Subject:
        adapter = self._adapter
        called = mentions(policy, route, adapter.name) if route.mention else ()

        def card() -> Card:
            return replace(self._card(record), calls=() if record.final else called)

        return Subject(
            id=record.id,
            revision=record.revision,
            reminders=0 if record.final else record.reminders,
            final=record.final,
            deliver=lambda target, nonce: adapter.deliver(target, card(), nonce),
            update=lambda ref, nonce: adapter.update(ref, card(), nonce),
            remind=lambda copy: adapter.tell(
                self._reminder(copy, policy, route), self._card(record)
            ),
            noted=partial(self._noted, record),
            stands=partial(self._desk.stands, record.id),
        )

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
        return [target for target in dict.fromkeys(targets) if self._copies.is_ours(target)]

    async def _inform(self, record: Record, target: str, copies: dict[str, Copy]) -> float | None:
        new = self._copies.new(target, outcome=True)
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
            await self._copies.keep(record.id, replace(intent, state=CopyState.DUE), intent)
            return wait.seconds
        except DeliveryFailed as failure:
            failed = replace(intent, state=CopyState.FAILED, why=str(failure))
            await self._copies.keep(record.id, failed, intent)
            await self._noted(record, "undelivered", failed, str(failure))
            return None
        await self._copies.keep(record.id, replace(intent, state=CopyState.POSTED), intent)
        return None

    async def _noted(self, record: Record, event: str, copy: Copy, why: str) -> None:
        about = {"request_id": record.id}
        await self._desk.note(event, record.request.agent, about, copy, why)

    def _card(self, record: Record) -> Card:
        return card_of(record, lines=self._adapter.card_lines, chars=self._adapter.card_chars)


def mentions(policy: PolicyDocument, route: Route, platform: str) -> tuple[str, ...]:
    """Return who may decide on a route, as a platform's identities and groups."""
    prefix = f"{platform}:"
    people = {person.name: person.identities for person in policy.people}
    written = [one for name in route.approvers for one in (people.get(name) or (name,))]
    return tuple(one.removeprefix(prefix) for one in written if one.startswith(prefix))
