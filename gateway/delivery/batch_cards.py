"""Cards that show several requests of one group: who stands on one, and keeping it true.

The card is the copy of its first request, the leader, which names all of them for good before
anything is posted. Each of the others has a copy that says within whose card it stands, so that
clicks, reminders and fail-over find it as any other. One request is on one card at a place: whoever
writes its copy first has it. What was never posted, and what a platform refuses, comes apart into a
card for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakValueDictionary

from gateway.approvals.core import Core
from gateway.approvals.writer import FOLLOWUPS
from gateway.cards.batch_cards import (
    MOST_TOGETHER,
    GroupCard,
    is_groupable,
    is_of_group,
    posted_group_of,
)
from gateway.cards.card import Card
from gateway.delivery.outbox_worker import Timings
from gateway.delivery.posting_and_editing import Copies, Subject
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import MessageRef, Query, Record
from gateway.domain.time_and_tasks import Clock
from gateway.errors import NotFound
from gateway.ports.outgoing import (
    Copy,
    CopyGone,
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    PostsGroups,
    RetryLater,
)

_MOST = 50  # of a session are looked through for those of a group
_SKEW_MS = 1000  # the server's clock, by which requests are dated, may be so far ahead of ours

Draw = Callable[[Record], Awaitable[Card]]
"""Returns the card of a request for many readers, as the adapter has room for it."""
Called = Callable[[PolicyDocument, Route], tuple[str, ...]]
"""Says who may decide on a route, as the adapter's identities and groups."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What stands on a group's card: its requests, in their order, and the copies of all but the
    leader."""

    leader: str
    target: str
    records: tuple[Record, ...]
    copies: dict[str, Copy | None]

    def within(self) -> list[tuple[Record, Copy]]:
        """Return those that have a copy within this card."""
        found = ((one, self.copies.get(one.id)) for one in self.records)
        return [(one, copy) for one, copy in found if copy and copy.within == self.leader]


class GroupCopies:
    """Looks at the group cards of one request at a time, for one adapter that posts such cards."""

    def __init__(
        self,
        adapter: PostsGroups,
        core: Core,
        clock: Clock,
        copies: Copies,
        timings: Timings,
        *,
        draw: Draw,
        called: Called,
    ) -> None:
        self._adapter = adapter
        self._requests = core.requests
        self._writer = core.writer
        self._posted = core.copies
        self._outbox = core.outbox
        self._clock = clock
        self._copies = copies
        self._timings = timings
        self._draw = draw
        self._called = called
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def look(
        self, record: Record, places: Collection[str], copies: Mapping[str, Copy]
    ) -> tuple[list[float], set[str]]:
        """Make the cards true on which a request stands, or should, with others of its group;
        return in how many seconds to look again, and the targets that are taken care of here."""
        waits: list[float] = []
        taken: set[str] = set()
        own = [one.target for one in copies.values() if not one.outcome]
        for target in filter(self._copies.is_ours, dict.fromkeys((*places, *own))):
            copy = copies.get(target)
            found: str | float | None = _leader_by(record.id, copy)
            if copy is None and target in places and _may_join(record):
                found = await self._find_leader(record, target)
            if found is None:
                continue
            taken.add(target)
            if isinstance(found, float):
                waits.append(found)
            else:
                waits += await self._settle(found, target, record)
        return waits, taken

    # ---------------------------------------------------------------- who stands on one

    async def _find_leader(self, record: Record, target: str) -> str | float | None:
        """Return the leader of the card on which a request is to stand; in how many seconds that is
        known, or None when it gets a card of its own."""
        request = record.request
        about = f"{request.agent} {request.session} {request.group} {target}"
        async with self._lock(about):
            copy = (await self._outbox.copies(record.id)).get(target)
            if copy is not None:  # another look was faster
                return _leader_by(record.id, copy)
            return await self._form(record, target)

    async def _form(self, record: Record, target: str) -> str | float | None:
        policy, free = await self._writer.policy(), list[Record]()
        for one in await self._list_waiting(record):
            copy = (await self._outbox.copies(one.id)).get(target)
            if copy is None and target in policy.route_of(one).places(one.tier):
                free.append(one)
            elif copy and copy.state is CopyState.DUE and record.id in copy.members:
                return one.id  # whoever made it up has not come to this one yet
        rest = max(one.created for one in (record, *free)) + self._timings.gather_ms
        rest -= self._clock.now_ms()
        if 0 < rest <= self._timings.gather_ms + _SKEW_MS:
            return min(rest, self._timings.gather_ms) / 1000
        drawn = [(one, await self._draw(one)) for one in free]
        fit = [(one, card) for one, card in drawn if is_groupable(card)]
        ids = self._adapter.list_fitting(posted_group_of(fit)) if len(fit) > 1 else ()
        ids = ids[:MOST_TOGETHER]
        if len(ids) < 2 or record.id not in ids:  # noqa: PLR2004 (one alone is no group)
            return None
        copy = self._copies.new(target, members=ids)
        stored = await self._outbox.put_copy(ids[0], copy, before=None)
        return ids[0] if stored else self._timings.busy

    async def _list_waiting(self, record: Record) -> list[Record]:
        """Return what waits of a request's group, the oldest first."""
        request = record.request
        query = Query(agent=request.agent, session=request.session, followers=False, limit=_MOST)
        found = {one.id: one for one in (await self._requests.page(query)).items}
        waiting = [one for one in found.values() if is_of_group(record, one) and _may_join(one)]
        return sorted(waiting, key=lambda one: (one.created, one.id))

    # ---------------------------------------------------------------- keeping it true

    async def _settle(self, leader: str, target: str, record: Record) -> list[float]:
        lock = self._lock(f"{leader} {target}")
        if lock.locked():  # it may have been drawn before this request changed
            return [self._timings.busy]
        async with lock:
            known = (await self._outbox.copies(leader)).get(target)
            if known is None or not _names(known, record.id, leader):
                return await self._leave(record, target)
            shown = await self._load(leader, target, known)
            if known.state is CopyState.DUE:
                return await self._post(shown, known)
            return await self._refresh(shown, known)

    async def _load(self, leader: str, target: str, known: Copy) -> _Shown:
        records = []
        for one in known.members:
            try:
                records.append(await self._requests.get(one))
            except NotFound:  # forgotten: it ended long ago
                continue
        rest = [one.id for one in records if one.id != leader]
        copies = {one: (await self._outbox.copies(one)).get(target) for one in rest}
        return _Shown(leader, target, tuple(records), copies)

    async def _leave(self, record: Record, target: str) -> list[float]:
        """Have a request whose card does not know it, or is gone, get one of its own."""
        copy = (await self._outbox.copies(record.id)).get(target)
        if copy is None or not copy.within:
            return [self._timings.busy]
        await self._outbox.forget(record.id, copy)
        return [] if record.final else [self._timings.busy]

    async def _post(self, shown: _Shown, known: Copy) -> list[float]:
        """Post a card of those that still wait and have no other; without two of them, none."""
        waiting = [one for one in shown.records if not one.final]
        staying = [one for one in waiting if await self._claim(shown, known, one)]
        ids = tuple(one.id for one in staying)
        gone = [one.id for one, _ in shown.within() if one.id not in ids]
        if len(ids) < 2:  # noqa: PLR2004 (one alone is no group)
            return await self._part(shown, known)
        if ids != known.members:
            fewer = replace(known, members=ids)
            if not await self._outbox.put_copy(shown.leader, fewer, before=known):
                return [self._timings.busy]
            known = fewer
            for one in gone:
                await self._outbox.mark(self._adapter.name, one)
        shown = replace(shown, records=tuple(staying))
        return await self._refresh(shown, known)

    async def _claim(self, shown: _Shown, known: Copy, record: Record) -> bool:
        """Write down within which card a request stands, unless it has another there. What is
        pressed on the card is known by its nonce, also when nobody wrote down where it stands."""
        if record.id == shown.leader:
            return True
        copy = shown.copies[record.id]
        if copy is not None and copy.within != shown.leader:
            return False
        claimed = replace(known, members=(), within=shown.leader)
        if copy != claimed and not await self._outbox.put_copy(record.id, claimed, before=copy):
            now = (await self._outbox.copies(record.id)).get(shown.target)
            if now != claimed:  # by another replica, for the same card
                return False
        shown.copies[record.id] = claimed
        return True

    async def _part(self, shown: _Shown, known: Copy) -> list[float]:
        """Have each of a card that does not stand get one of its own."""
        await self._copies.withdraw(known)
        for one, copy in shown.within():
            await self._outbox.put_copy(one.id, self._copies.new(shown.target), before=copy)
            await self._outbox.mark(self._adapter.name, one.id)
        await self._outbox.put_copy(shown.leader, self._copies.new(shown.target), before=known)
        await self._outbox.mark(self._adapter.name, shown.leader)
        return [self._timings.busy]

    async def _refresh(self, shown: _Shown, known: Copy) -> list[float]:
        mended = _mend(shown, known)
        if mended != known:
            if not await self._outbox.put_copy(shown.leader, mended, before=known):
                return [self._timings.busy]
            known = mended
        refused = asyncio.Event()
        subject = self._subject(shown, await self._writer.policy(), refused)
        waits = await self._copies.look(subject, (shown.target,), {shown.target: known})
        now = (await self._outbox.copies(shown.leader)).get(shown.target)
        if now is None or now.members != known.members:  # another replica took it apart
            return [self._timings.busy]
        if refused.is_set() and now.state is CopyState.DUE:
            return await self._part(shown, now)
        for one, copy in shown.within():
            await self._follow(one, copy, now, true=now.revision >= subject.revision)
        return waits

    async def _follow(self, record: Record, copy: Copy, now: Copy, *, true: bool) -> None:
        """Have the copy of a request say what became of the card on which it stands; `true` says
        that the card shows the request as it is."""
        after = replace(copy, nonce=now.nonce, state=now.state, ref=now.ref, why=now.why)
        if true:
            after = replace(after, revision=record.revision, disarmed=record.final, away=now.away)
        if after == copy:
            return
        if not await self._outbox.put_copy(record.id, after, before=copy):
            await self._outbox.mark(self._adapter.name, record.id)
        if after.state is not copy.state:
            await self._outbox.mark(FOLLOWUPS, record.id)

    def _subject(self, shown: _Shown, policy: PolicyDocument, refused: asyncio.Event) -> Subject:
        adapter, records = self._adapter, shown.records
        waiting = [one for one in records if not one.final]
        route = policy.route_of((waiting or records)[0])
        called = self._called(policy, route)

        async def card() -> GroupCard:
            calls = called if route.mention and waiting else ()
            return await self._draw_group(shown, calls, discreet=route.discreet)

        async def deliver(target: str, nonce: str) -> MessageRef:
            try:
                return await adapter.deliver_group(target, await card(), nonce)
            except (CopyGone, DeliveryUncertain, RetryLater):
                raise
            except DeliveryFailed as failure:
                # It may take each of them alone; else that says why not.
                refused.set()
                raise RetryLater(self._timings.busy, str(failure)) from failure

        async def update(ref: MessageRef, copy: Copy) -> None:
            await adapter.update_group(ref, await card(), copy.nonce)

        async def remind(copy: Copy) -> None:
            if not waiting:
                await self._copies.withdraw(copy)
                return
            group = await card()
            first = replace(group.waiting[0], tool=group.title)
            reminder = replace(self._copies.reminder(copy, called), discreet=route.discreet)
            await adapter.tell(reminder, replace(first, summary=group.summary))

        return Subject(
            id=shown.leader,
            revision=sum(one.revision for one in records),
            reminders=max(one.reminders for one in waiting or records),
            final=not waiting,
            count=sum(one.alike for one in waiting) if waiting else None,
            deliver=deliver,
            update=update,
            remind=remind,
            noted=partial(self._note, records),
            stands=partial(self._remember_place, records),
        )

    async def _draw_group(
        self, shown: _Shown, calls: tuple[str, ...], *, discreet: bool
    ) -> GroupCard:
        drawn = [(one, await self._draw(one)) for one in shown.records]
        armed = [one for one, copy in shown.within() if one.final and not copy.disarmed]
        return posted_group_of(drawn, calls=calls, discreet=discreet, disarms=bool(armed))

    async def _note(self, records: Sequence[Record], event: str, copy: Copy, why: str) -> None:
        for one in records:
            await self._posted.note(event, one.holder, {"request_id": one.id}, copy, why)

    def _remember_place(self, records: Sequence[Record], copy: Copy) -> None:
        for one in records:
            self._posted.remember_place(one.id, copy)

    def _lock(self, about: str) -> asyncio.Lock:
        return self._locks.setdefault(about, asyncio.Lock())


def _leader_by(request_id: str, copy: Copy | None) -> str | None:
    """Return the leader of the group card that a request's copy is, or stands within."""
    if copy is None:
        return None
    return request_id if copy.members else copy.within or None


def _names(copy: Copy, request_id: str, leader: str) -> bool:
    """Whether a leader's copy is a group's card on which a request stands; the leader's own counts
    for it also where it ended before that was posted."""
    return bool(copy.members) and request_id in (leader, *copy.members)


def _may_join(record: Record) -> bool:
    waits = not record.final and not record.behind and not record.canary
    return waits and record.request.group is not None


def _mend(shown: _Shown, known: Copy) -> Copy:
    """Return the leader's copy with what the copies within its card know better: where it stands,
    told by a click after a crash, and that nobody knows what it shows."""
    copies = [copy for _, copy in shown.within() if copy.nonce == known.nonce]
    if known.ref is None:
        placed = next((copy.ref for copy in copies if copy.ref is not None), None)
        if placed is None:
            return known
        return replace(known, state=CopyState.POSTED, ref=placed, revision=0)
    if known.revision and any(copy.ref == known.ref and not copy.revision for copy in copies):
        return replace(known, revision=0, tries=0)
    return known
