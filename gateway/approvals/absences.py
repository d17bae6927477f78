"""Who is away, and who is asked instead of them: `Absences`. It changes nobody's rights.

`gateway.policy.authorization.with_absences` decides which absences count for a request.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

from gateway.approvals.request_writer import Writer
from gateway.domain.absences import Absence
from gateway.domain.policy_document import PolicyDocument, Ruling
from gateway.domain.records import Identity, Person, Query, StoredRequest
from gateway.domain.store import ChangeKind, Store, Transition
from gateway.errors import InvalidRequest
from gateway.policy.authorization import refuse_unknown, who_may_approve, with_absences
from gateway.ports.outgoing import AdapterStorage
from gateway.wire.codec import build, plain
from gateway.wire.outcome_text import join_names

_FRESH_SECONDS = 1.0
_MOST_DAYS = 60
_MOST_SHOWN = 1000  # pending requests whose cards are edited at once


class Absences:
    """An `AwayCalls`. `notes` hold each absence until it ends, and are read once a second."""

    def __init__(self, store: Store, notes: AdapterStorage, writer: Writer) -> None:
        self._store = store
        self._notes = notes
        self._writer = writer
        self._known: dict[str, tuple[float, Absence | None]] = {}

    async def add_approvers(self, record: StoredRequest, ruling: Ruling) -> StoredRequest:
        """Return a pending request with those who may approve it, and who of them is away."""
        may = who_may_approve(ruling, record)
        found = [one for name in may.names if (one := await self._of(name))]
        return record.copy_with(approvers=with_absences(ruling, record, may, found))

    async def find(self, identity: Identity) -> tuple[Absence | None, tuple[str, ...]]:
        """Return the person's absence, and the people whom they may name."""
        policy, me = await self._find_person(identity)
        names = tuple(one.name for one in policy.people if _list_shared(policy, me, one))
        return await self._of(me.name), names

    async def leave(self, identity: Identity, delegate: str, until: int, zone: str) -> str:
        """Have a delegate asked instead of this person until a time."""
        policy, me = await self._find_person(identity)
        left = (until - self._writer.now()) / 1000
        if not 0 < left <= _MOST_DAYS * 86_400:
            raise InvalidRequest(f"that time is not within the next {_MOST_DAYS} days")
        one = next((p for p in policy.people if delegate in (p.name, *p.identities)), me)
        if not (routes := _list_shared(policy, me, one)):
            raise InvalidRequest(
                f'"{delegate}" may approve nothing that you may; a delegate gets no new right'
            )
        if other := await self._of(one.name):
            raise InvalidRequest(f"{other}: name somebody else")
        absence = Absence(person=me.name, delegate=one.name, until=until, zone=zone)
        if absence != await self._of(me.name):
            told = {"person": me.name, "delegate": one.name, "until_at": until}
            await self._store.note("away_begun", data=told)
            await self._notes.put(f"away {me.name}", json.dumps(plain(absence)), seconds=left)
            await self._show(me.name)
        return f"{absence} on {join_names(routes, 'and')}. You can still decide."

    async def come_back(self, identity: Identity) -> str:
        """End the person's absence."""
        _, me = await self._find_person(identity)
        if await self._of(me.name) is None:
            return "You are not away."
        await self._store.note("away_ended", data={"person": me.name})
        await self._notes.delete(f"away {me.name}")
        await self._show(me.name)
        return "You are back: requests ask you again."

    async def _find_person(self, identity: Identity) -> tuple[PolicyDocument, Person]:
        policy = await self._writer.fresh_policy()
        refuse_unknown(policy, identity)
        self._known.clear()
        return policy, next(one for one in policy.people if identity.written in one.identities)

    async def _of(self, person: str) -> Absence | None:
        """Return the absence of a person that is not over."""
        at, found = self._known.get(person, (float("-inf"), None))
        if time.monotonic() - at > _FRESH_SECONDS:
            at, text = time.monotonic(), await self._notes.get(f"away {person}")
            found = build(Absence, json.loads(text)) if text else None
            self._known[person] = at, found
        return found if found and found.until > self._writer.now() else None

    async def _show(self, person: str) -> None:
        """Have the cards of pending requests that this person may approve edited."""
        self._known.clear()
        policy = await self._writer.policy()
        page = await self._store.page(Query(soonest=True, followers=False, limit=_MOST_SHOWN))
        for record in page.items:
            may = who_may_approve(policy.ruling_on(record.request), record).names
            if person in may and not record.unreviewed:
                moved, told = replace(record, revision=record.revision + 1), {"person": person}
                step = Transition(record, moved, "reassigned", ChangeKind.STEP, told)
                await self._writer.apply(step)


def _list_shared(policy: PolicyDocument, one: Person, two: Person) -> tuple[str, ...]:
    """Return the routes on which two different people may approve at the same risk."""
    mine, theirs = ({person.name, *person.identities} for person in (one, two))
    levels = ((route.name, {*at.approvers}) for route in policy.routes for _, at in route.levels())
    shared = (name for name, may in levels if one != two and may & mine and may & theirs)
    return tuple(dict.fromkeys(shared))
