"""Keep all posted cards of requests, grants and overflows up to date at one adapter.

Cards are drawn from the current state, never from an old event. Start with `CardKeeper.look`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from gateway.approvals.grant_lifecycle import GrantView
from gateway.approvals.services import Core
from gateway.cards.card import Card, discreet_notification, leads_to_inbox
from gateway.cards.grant_cards import GrantCard
from gateway.cards.shared_texts import standing_of
from gateway.delivery.outbox_worker import TIMINGS, OrderedLock, Timings
from gateway.delivery.overflow_cards import OverflowCards
from gateway.delivery.posting_and_editing import CardCopies, CardSource
from gateway.domain.absences import Absence
from gateway.domain.policy_document import REQUESTER, PolicyDocument, Route
from gateway.domain.records import OVERFLOW_MARK, StoredRequest
from gateway.domain.time_and_tasks import Clock
from gateway.errors import NotFound
from gateway.ports import Adapter, AdapterApi
from gateway.ports.outgoing import GRANT, Copy, Notice, NoticeKind, is_grant


class CardKeeper:
    """Updates the cards of one subject at a time, for one adapter that posts cards."""

    def __init__(
        self,
        adapter: Adapter,
        api: AdapterApi,
        core: Core,
        clock: Clock,
        timings: Timings = TIMINGS,
    ) -> None:
        self._adapter = adapter
        self._api = api
        self._core = core
        self._copies = CardCopies(adapter, api.notes, core, clock, timings)
        self._order = OrderedLock(timings.line)
        self._overflows = OverflowCards(adapter, api, core, clock, self._copies)

    async def look(self, subject_id: str) -> float | None:
        """Update the posted cards of a subject. Return the seconds until the next look, or None."""
        if subject_id.startswith(OVERFLOW_MARK):
            waits = await self._overflows.look(subject_id.removeprefix(OVERFLOW_MARK))
        elif is_grant(subject_id):
            waits = await self._look_at_grant(subject_id)
        else:
            # Cards are posted in the order of the requests, even if some take longer to load.
            async with self._order.standing() as passed:
                waits = await self._look_at_request(subject_id, passed)
        return min(waits, default=None)

    async def _look_at_request(
        self, request_id: str, passed: Callable[[], Awaitable[None]]
    ) -> list[float]:
        try:
            record = await self._core.requests.get(request_id)
        except NotFound:
            return []
        policy = await self._core.writer.policy()
        ruling = policy.ruling_on(record.request)
        route = ruling.route_at(record)
        copies = await self._core.outbox.copies(request_id)
        subject = RequestSource(record, policy, route, self._adapter, self._api)
        places = () if record.behind else ruling.places(record)
        await passed()
        waits = await self._copies.look(subject, places, copies)
        if record.final and not record.follows:
            waits += await self._copies.take(
                self._copies.tell_outcome(subject, target, copies)
                for target in self._list_informed(record, policy, route)
            )
        return waits

    def _list_informed(
        self, record: StoredRequest, policy: PolicyDocument, route: Route
    ) -> Iterable[str]:
        """Return the targets on this platform to which the outcome is posted."""
        owner = next((one for one in policy.people if one.name == record.owner), None)
        targets = [target for target in route.notify if target != REQUESTER]
        if REQUESTER in route.notify and owner is not None:
            targets += owner.identities
        return [target for target in dict.fromkeys(targets) if self._copies.is_ours(target)]

    async def _look_at_grant(self, subject_id: str) -> list[float]:
        view = await self._core.grants.view(subject_id.removeprefix(GRANT))
        if view is None:
            return []
        copies = await self._core.outbox.copies(subject_id)
        return await self._copies.look(GrantSource(subject_id, view), view.places, copies)


class RequestSource(CardSource):
    """The content of the posted cards of a request."""

    def __init__(
        self,
        record: StoredRequest,
        policy: PolicyDocument,
        route: Route,
        adapter: Adapter,
        api: AdapterApi,
    ) -> None:
        self.id = record.id
        self.agent = record.request.agent
        self.about = {"request_id": record.id}
        self.revision = record.revision
        self.final = record.final
        self.reminders = record.reminders
        self.count = None if record.final else record.alike
        self.discreet = route.discreet
        self._record = record
        self._called = mentions(policy, route, adapter.name, record.away)
        self._calls = self._called if route.mention and not record.final else ()
        self._adapter = adapter
        self._api = api

    async def draw(self, copy: Copy | None = None) -> Card:
        """Return the request's card. An edit that removes buttons is marked as such."""
        record, adapter = self._record, self._adapter
        card = await self._api.requests.draw(
            record, adapter.name, lines=adapter.card_lines, chars=adapter.card_chars
        )
        return replace(
            card,
            notification=discreet_notification(record) if self.discreet else card.notification,
            inbox=self._api.address_of(record.id) if leads_to_inbox(card) else "",
            calls=self._calls,
            disarms=copy is not None and record.final and not copy.disarmed,
        )

    async def remind(self, copy: Copy) -> tuple[Notice, Card] | None:
        """Return the reminder for people who may decide, or None after the decision."""
        if self.final:
            return None
        record = self._record
        said = [standing_of(record).say_deciders(), *(f"{one}." for one in record.away)]
        reminder = replace(
            _reminder_of(copy),
            mentions=self._called,
            deciders=" ".join(said).strip(),
            discreet=self.discreet,
        )
        return reminder, await self.draw()


class GrantSource(CardSource):
    """The content of the posted cards of a grant."""

    checked = False

    def __init__(self, subject_id: str, view: GrantView) -> None:
        self.id = subject_id
        self.agent = view.grant.agent
        self.about = {"grant": view.grant.id}
        self.revision = view.card.revision
        self.final = view.card.ended
        self.reminders = view.grant.notices
        self._view = view

    async def draw(self, copy: Copy | None = None) -> GrantCard:
        """Return the grant's card."""
        return self._view.card

    async def remind(self, copy: Copy) -> tuple[Notice, GrantCard]:
        """Return the notice about the grant, even after the grant ended."""
        return _reminder_of(copy), self._view.news


def _reminder_of(copy: Copy) -> Notice:
    return Notice(kind=NoticeKind.REMINDER, target=copy.target, nonce=copy.nonce, ref=copy.ref)


def mentions(
    policy: PolicyDocument, route: Route, platform: str, away: Iterable[Absence] = ()
) -> tuple[str, ...]:
    """Return the approvers of a route as identities and groups of a platform. A person who is away
    is left out only if their delegate is mentioned in the same place."""
    prefix = f"{platform}:"
    people = {person.name: person.identities for person in policy.people}
    written = [one for name in route.approvers for one in (people.get(name) or (name,))]
    called = [one.removeprefix(prefix) for one in written if one.startswith(prefix)]
    for absence in away:
        gone, instead = (
            [one for one in called if f"{prefix}{one}" in people.get(name, ())]
            for name in (absence.person, absence.delegate)
        )
        there = {one.rpartition("/")[0] for one in instead}
        called = [one for one in called if one not in gone or one.rpartition("/")[0] not in there]
    return tuple(called)
