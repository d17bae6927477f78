"""What waits that somebody may see, and what is remembered that they may take back."""

from __future__ import annotations

from collections.abc import AsyncIterator

from gateway.domain.records import Identity, Query, Record
from gateway.errors import InvalidRequest, NotFound
from gateway.policy.grants.grant import Grant
from gateway.ports.desk import Desk
from gateway.ports.group_cards import is_of_group
from gateway.wire.identifiers import REQUEST_ID

_LEAST_ID = 4
_PAGES = 10
_GROUP = 50


class Worklist:
    """Finds what a person may see, and nothing else."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def may_see(self, identity: Identity, record: Record) -> bool:
        """Tell whether they may decide it, or asked for it themselves, or are an admin."""
        involved = await self.is_involved(identity, record)
        return involved or await self._desk.requests.may_decide(identity, record) is None

    async def is_involved(self, identity: Identity, record: Record) -> bool:
        """Tell whether they asked for it themselves, or are an admin."""
        person = await self._desk.requests.person(identity)
        return person is not None and (person.admin or person.name == record.owner)

    async def list_waiting(self, identity: Identity) -> AsyncIterator[Record]:
        """Yield the waiting requests that this person may see, newest first."""
        after = None
        for _ in range(_PAGES):
            page = await self._desk.requests.page(Query(after=after, followers=False))
            for record in page.items:
                if not record.final and await self.may_see(identity, record):
                    yield record
            after = page.next
            if after is None:
                return

    async def list_group(self, identity: Identity, record: Record) -> list[Record]:
        """Return the waiting requests of a request's group that this person may decide, itself
        among them."""
        request = record.request
        own = Query(agent=request.agent, session=request.session, followers=False, limit=_GROUP)
        # Canaries are nobody's requests: they are looked for among all that wait.
        every = Query(followers=False, limit=_GROUP)
        pages = [await self._desk.requests.page(query) for query in (own, every)]
        found = {one.id: one for page in pages for one in page.items if is_of_group(record, one)}
        may = [
            one
            for one in found.values()
            if await self._desk.requests.may_decide(identity, one) is None
        ]
        return sorted(may, key=lambda one: (one.created, one.id))

    async def find(self, identity: Identity, start: str) -> Record:
        """Return the one waiting request, of those they may see, whose id begins so.

        A whole id names any request: whoever does something with it checks the right to, and audits
        a refusal. Raises InvalidRequest, NotFound.
        """
        start = _check_start(start)
        if REQUEST_ID.fullmatch(start):
            return await self._desk.requests.get(start)
        found = [one async for one in self.list_waiting(identity) if one.id.startswith(start)]
        if len(found) > 1:
            raise InvalidRequest("more than one request begins so; give more of the id")
        if not found:
            raise NotFound("nothing of that id waits for you")
        return found[0]

    async def grants(self, identity: Identity) -> list[Grant]:
        """Return the newest remembered decisions that this person may take back."""
        return await self._desk.grants.revocable(identity)

    async def grant_id(self, identity: Identity, start: str) -> str:
        """Return the whole id of the one of them whose id begins so; a whole id as it is.

        Raises InvalidRequest, NotFound.
        """
        start = _check_start(start)
        if REQUEST_ID.fullmatch(start):
            return start
        found = [one.id for one in await self.grants(identity) if one.id.startswith(start)]
        if len(found) != 1:
            raise NotFound("no remembered decision of yours, or more than one, begins so")
        return found[0]


def _check_start(start: str) -> str:
    if len(start.strip()) < _LEAST_ID:
        raise InvalidRequest(f"give at least {_LEAST_ID} characters of the id")
    return start.strip().lower()
