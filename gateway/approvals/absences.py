"""Store which people are away and who decides instead (`Absences`). An absence changes no rights.

`find_absent` decides which absences count for a request. They are stored in the request.
"""

from __future__ import annotations

import asyncio
import json

from gateway.approvals.request_writer import FOLLOWUPS, Writer
from gateway.domain.absences import Absence, find_zone
from gateway.domain.policy_document import PolicyDocument, Ruling
from gateway.domain.records import Identity, Person, Query, StoredRequest
from gateway.domain.store import Store
from gateway.errors import InvalidRequest
from gateway.policy.authorization import find_absent, refuse_unknown, who_may_approve
from gateway.ports.outgoing import AdapterStorage, Outbox
from gateway.wire.codec import build, plain
from gateway.wire.outcome_text import join_names

_MOST_DAYS = 60
_MOST_SHOWN = 1000  # pending requests whose absences are renewed at once


class Absences:
    """Implements `AwayCalls`. `notes` stores each absence until it ends."""

    def __init__(self, store: Store, notes: AdapterStorage, outbox: Outbox, writer: Writer) -> None:
        self._store = store
        self._notes = notes
        self._outbox = outbox
        self._writer = writer

    async def renew(self, record: StoredRequest, ruling: Ruling) -> StoredRequest:
        """Return a pending request with the absences that count now. `Reminders` acts on them."""
        found = await asyncio.gather(*map(self._of, who_may_approve(ruling, record).names))
        away = find_absent(ruling, record, [one for one in found if one])
        more = (FOLLOWUPS,) if away and FOLLOWUPS not in record.queues else ()
        return record.copy_with(away=away, queues=(*record.queues, *more))

    async def find(self, identity: Identity) -> tuple[Absence | None, tuple[str, ...]]:
        """Return the person's absence, and the people whom they may name as their delegate."""
        policy, me = await self._find_person(identity)
        names = tuple(one.name for one in policy.people if _list_shared(policy, me, one))
        return await self._of(me.name), names

    async def leave(self, identity: Identity, delegate: str, until: int, zone: str) -> str:
        """Send this person's requests to a delegate until a given time."""
        policy, me = await self._find_person(identity)
        left = until - self._writer.now()
        if not 0 < left <= _MOST_DAYS * 86_400_000:
            raise InvalidRequest(f"that time is not within the next {_MOST_DAYS} days")
        one = next((p for p in policy.people if delegate in (p.name, *p.identities)), me)
        if not (routes := _list_shared(policy, me, one)):
            raise InvalidRequest(
                f'"{delegate}" may approve nothing that you may; a delegate gets no new right'
            )
        if other := await self._of(one.name):
            raise InvalidRequest(f"{other}: name somebody else")
        zone = zone if find_zone(zone) else ""
        absence = Absence(person=me.name, delegate=one.name, until=until, zone=zone)
        if absence != await self._of(me.name):
            told = {"person": me.name, "delegate": one.name, "until_at": until}
            text = json.dumps(plain(absence))
            await self._store.note("away_begun", data=told)
            await self._notes.put(f"away {me.name}", text, seconds=left / 1000)
            await self._renew_all()
        return f"{absence} on {join_names(routes, 'and')}. You can still decide."

    async def come_back(self, identity: Identity) -> str:
        """End the person's absence."""
        _, me = await self._find_person(identity)
        if await self._of(me.name) is None:
            return "You are not away."
        await self._store.note("away_ended", data={"person": me.name})
        await self._notes.delete(f"away {me.name}")
        await self._renew_all()
        return "You are back: requests ask you again."

    async def _find_person(self, identity: Identity) -> tuple[PolicyDocument, Person]:
        policy = await self._writer.fresh_policy()
        refuse_unknown(policy, identity)
        return policy, next(one for one in policy.people if identity.written in one.identities)

    async def _of(self, person: str) -> Absence | None:
        """Return a person's absence if it has not ended."""
        text = await self._notes.get(f"away {person}")
        found = build(Absence, json.loads(text)) if text else None
        return found if found and found.until > self._writer.now() else None

    async def _renew_all(self) -> None:
        """Make the gateway look up the absences of all pending requests again."""
        page = await self._store.page(Query(soonest=True, followers=False, limit=_MOST_SHOWN))
        for record in page.items:
            await self._outbox.mark(FOLLOWUPS, record.id)


def _list_shared(policy: PolicyDocument, one: Person, two: Person) -> tuple[str, ...]:
    """Return the routes on which two different people may approve at the same risk."""
    mine, theirs = ({person.name, *person.identities} for person in (one, two))
    levels = ((route.name, {*at.approvers}) for route in policy.routes for _, at in route.levels())
    shared = (name for name, may in levels if one != two and may & mine and may & theirs)
    return tuple(dict.fromkeys(shared))
