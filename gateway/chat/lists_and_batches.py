"""Lists of what waits, what commands look up, and batches, whose requests are decided together."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from gateway.cards.batch_cards import BatchCard, batch_card_of, is_of_batch
from gateway.cards.card import leads_to_inbox
from gateway.cards.shared_texts import KillSwitch
from gateway.errors import BatchRefused, Conflict, InvalidRequest, NotFound
from gateway.models import Action
from gateway.ports import REQUEST_ID, AdapterApi, Click, Identity, Query, StoredRequest

NOTHING_WAITS = "Nothing waits for you."
STOP, ALLOW_AGAIN = "Stop everything", "Let agents ask again"
"""The labels of the kill switch."""

_LEAST_ID = 4
_PAGES = 10
_BATCH = 50


class Worklist:
    """Finds what a person may see, and nothing else."""

    def __init__(self, api: AdapterApi) -> None:
        self._api = api

    async def may_see(self, identity: Identity, record: StoredRequest) -> bool:
        """Tell whether they may decide it, or asked for it themselves, or are an admin."""
        involved = await self.is_involved(identity, record)
        return involved or await self._api.requests.may_decide(identity, record) is None

    async def is_involved(self, identity: Identity, record: StoredRequest) -> bool:
        """Tell whether they asked for it themselves, or are an admin."""
        person = await self._api.requests.person(identity)
        return person is not None and (person.admin or person.name == record.owner)

    async def list_waiting(self, identity: Identity) -> AsyncIterator[StoredRequest]:
        """Yield the waiting requests that this person may see, newest first."""
        after = None
        for _ in range(_PAGES):
            page = await self._api.requests.page(Query(after=after, followers=False))
            for record in page.items:
                if not record.final and await self.may_see(identity, record):
                    yield record
            after = page.next
            if after is None:
                return

    async def list_batch(self, identity: Identity, record: StoredRequest) -> list[StoredRequest]:
        """Return the waiting requests of a request's batch that this person may decide, itself
        among them."""
        request = record.request
        query = Query(agent=request.agent, session=request.session, followers=False, limit=_BATCH)
        page = await self._api.requests.page(query)
        may = [
            one
            for one in page.items
            if is_of_batch(record, one)
            and await self._api.requests.may_decide(identity, one) is None
        ]
        return sorted(may, key=lambda one: (one.created, one.id))

    async def list_mine(self, identity: Identity, most: int) -> list[StoredRequest]:
        """Return what waits that this person may decide, the newest first, so many at most."""
        found: list[StoredRequest] = []
        async for record in self.list_waiting(identity):
            if await self._api.requests.may_decide(identity, record) is None:
                found.append(record)
            if len(found) == most:
                break
        return found

    async def find(self, identity: Identity, start: str) -> StoredRequest:
        """Return the one waiting request, of those they may see, whose id begins so.

        A whole id names any request: whoever does something with it checks the right to, and audits
        a refusal. Raises InvalidRequest, NotFound.
        """
        start = _check_start(start)
        if REQUEST_ID.fullmatch(start):
            return await self._api.requests.get(start)
        found = [one async for one in self.list_waiting(identity) if one.id.startswith(start)]
        if len(found) > 1:
            raise InvalidRequest("more than one request begins so; give more of the id")
        if not found:
            raise NotFound("nothing of that id waits for you")
        return found[0]

    async def grant_id(self, identity: Identity, start: str) -> str:
        """Return the whole id of the one of them whose id begins so; a whole id as it is.

        Raises InvalidRequest, NotFound.
        """
        start = _check_start(start)
        if REQUEST_ID.fullmatch(start):
            return start
        found = [
            one.id
            for one in await self._api.grants.newest(revocable_by=identity)
            if one.id.startswith(start)
        ]
        if len(found) != 1:
            raise NotFound("no remembered decision of yours, or more than one, begins so")
        return found[0]


async def make_login_link(api: AdapterApi, identity: Identity) -> tuple[str, str]:
    """Return a sentence for this person alone, and the link that signs them in to the inbox. Raises
    what `LoginLinks.make` raises."""
    made = await api.links.make(identity)
    says = f"This signs you in to the inbox as {made.name}: once, within {made.minutes} minutes."
    return says, made.url


async def read_switch(api: AdapterApi, identity: Identity) -> tuple[KillSwitch, bool]:
    """Return the kill switch, and whether this person may use it."""
    person = await api.requests.person(identity)
    return (await api.operator.status()).switch, person is not None and person.admin


def _check_start(start: str) -> str:
    if len(start.strip()) < _LEAST_ID:
        raise InvalidRequest(f"give at least {_LEAST_ID} characters of the id")
    return start.strip().lower()


# A batch: each of its requests whole, answered one by one, or all at once where all of them were
# read there.

NONE_WAITS = "None of them waits any more."
NOT_TOGETHER = "Not all may be approved at once: decide each by itself."
_SEEN_SECONDS = 3600.0

Fit = Callable[[BatchCard], BatchCard]
"""Leaves out of a batch what a message has no room for."""


class ChatBatches:
    """Shows the batch of a request, and answers all of it at once. A batch shows `chars` of what
    would run, and of each request no more than `each`, a card's size."""

    def __init__(self, api: AdapterApi, *, chars: int, each: int) -> None:
        self._api = api
        self._worklist = Worklist(api)
        self._chars = chars
        self._each = each

    async def count(self, identity: Identity, request_id: str) -> int:
        """Return how many requests of this batch wait for the person."""
        record = await self._api.requests.get(request_id)
        return len(await self._worklist.list_batch(identity, record))

    async def open(
        self, identity: Identity, request_id: str, key: str, fit: Fit = lambda batch: batch
    ) -> BatchCard | None:
        """Return the batch as it stands now, None where none of it waits. What it shows is kept
        under a key, by which all of it is decided."""
        record = await self._api.requests.get(request_id)
        found = await self._worklist.list_batch(identity, record)
        if not found:
            return None
        person = await self._api.requests.person(identity)
        reader = person.name if person else identity.written
        batch = fit(batch_card_of(found, chars=self._chars, each=self._each, reader=reader))
        seen = [[card.request_id, card.revision] for card in batch.items]
        kept = {"seen": seen, "together": batch.together}
        await self._api.notes.put(_name_note(key), json.dumps(kept), seconds=_SEEN_SECONDS)
        address = self._api.address_of
        led = [
            replace(card, inbox=address(card.request_id)) if leads_to_inbox(card) else card
            for card in batch.items
        ]
        return replace(batch, items=tuple(led))

    async def decide(self, identity: Identity, key: str, action: Action, nonce: str) -> str:
        """Give one answer to all that was shown under a key, or to none of it; return what came of
        it. Raises Conflict when it was left open for too long, InvalidRequest where not all may be
        approved at once."""
        text = await self._api.notes.get(_name_note(key))
        if text is None:
            raise Conflict("this was left open for too long; open it again")
        kept: dict[str, Any] = json.loads(text)
        if not kept["together"] and action is not Action.DENY:
            raise InvalidRequest("not all of them can be read here: answer each")
        clicks = [
            Click(
                request_id=request_id,
                revision=revision,
                identity=identity,
                action=action,
                nonce=nonce,
            )
            for request_id, revision in kept["seen"]
        ]
        try:
            done = await self._api.requests.decide_all(clicks)
        except BatchRefused as refused:
            return str(refused)
        return f"All {len(done)} are {done[0].status.value}."


def _name_note(key: str) -> str:
    return f"batch {key}"
