"""List pending requests, find requests by id, and decide batches together. Start reading at
`Worklist`."""

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

NOTHING_WAITS = "You have no pending requests."
STOP, ALLOW_AGAIN = "Stop everything", "Let agents ask again"
"""The labels of the kill switch."""

_LEAST_ID = 4
_PAGES = 10
_BATCH = 50


class Worklist:
    """Finds the requests that a person may see, and no others."""

    def __init__(self, api: AdapterApi) -> None:
        self._api = api

    async def may_see(self, identity: Identity, record: StoredRequest) -> bool:
        """Return whether a person may decide the request, owns the agent that submitted it, or is
        an admin."""
        involved = await self.is_involved(identity, record)
        return involved or await self._api.requests.may_decide(identity, record) is None

    async def is_involved(self, identity: Identity, record: StoredRequest) -> bool:
        """Return whether a person owns the agent that submitted the request, or is an admin."""
        person = await self._api.requests.person(identity)
        return person is not None and (person.admin or person.name == record.owner)

    async def list_waiting(self, identity: Identity) -> AsyncIterator[StoredRequest]:
        """Yield the pending requests that this person may see, newest first."""
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
        """Return those pending requests in a request's batch that this person may decide."""
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
        """Return pending requests that this person may decide, newest first, at most `most`."""
        found: list[StoredRequest] = []
        async for record in self.list_waiting(identity):
            if await self._api.requests.may_decide(identity, record) is None:
                found.append(record)
            if len(found) == most:
                break
        return found

    async def find(self, identity: Identity, start: str) -> StoredRequest:
        """Return the only pending request that the person may see and whose id begins with `start`.

        With a full id, any request is returned; the action on it checks the person's rights and
        audits a rejection. Raises InvalidRequest, NotFound.
        """
        start = _check_start(start)
        if REQUEST_ID.fullmatch(start):
            return await self._api.requests.get(start)
        found = [one async for one in self.list_waiting(identity) if one.id.startswith(start)]
        if len(found) > 1:
            raise InvalidRequest(
                "several ids begin with these characters; give more characters of the id"
            )
        if not found:
            raise NotFound("you have no pending request with this id")
        return found[0]

    async def grant_id(self, identity: Identity, start: str) -> str:
        """Return the full id of the only grant that the person may revoke and whose id begins with
        `start`. A full id is returned unchanged.

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
            raise NotFound(
                "this matches no grant that you may revoke, or more than one; give more of the id"
            )
        return found[0]


async def make_login_link(api: AdapterApi, identity: Identity) -> tuple[str, str]:
    """Return a sentence, to show only to this person, and the link that signs them in to the inbox.
    Raises the same errors as `LoginLinks.make`."""
    made = await api.links.make(identity)
    says = (
        f"This link signs you in to the inbox as {made.name}. It works once, within "
        f"{made.minutes} minutes."
    )
    return says, made.url


async def read_switch(api: AdapterApi, identity: Identity) -> tuple[KillSwitch, bool]:
    """Return the state of the kill switch, and whether this person may use it."""
    person = await api.requests.person(identity)
    return (await api.operator.status()).switch, person is not None and person.admin


def _check_start(start: str) -> str:
    if len(start.strip()) < _LEAST_ID:
        raise InvalidRequest(f"give at least {_LEAST_ID} characters of the id")
    return start.strip().lower()


# Batches: each request is shown in full and decided alone. All are decided at once only if all were
# shown in full.

NONE_WAITS = "None of them is pending any more."
NOT_TOGETHER = "These cannot all be approved at once. Decide them one at a time."
_SEEN_SECONDS = 3600.0

Fit = Callable[[BatchCard], BatchCard]
"""Drops the cards of a batch for which a message has no room."""


class ChatBatches:
    """Shows the batch of a request, and decides all its requests at once. `chars` limits the size
    of all calls in a batch, `each` the size of one call."""

    def __init__(self, api: AdapterApi, *, chars: int, each: int) -> None:
        self._api = api
        self._worklist = Worklist(api)
        self._chars = chars
        self._each = each

    async def count(self, identity: Identity, request_id: str) -> int:
        """Return how many requests in this request's batch the person can decide."""
        record = await self._api.requests.get(request_id)
        return len(await self._worklist.list_batch(identity, record))

    async def open(
        self, identity: Identity, request_id: str, key: str, fit: Fit = lambda batch: batch
    ) -> BatchCard | None:
        """Return the current batch, or None if none of its requests is pending. Its content is
        stored under `key`, which `decide` needs."""
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
        """Apply one decision to all requests shown under a key, or to none. Return a text that
        describes the result.

        Raises Conflict if the batch was open for too long, and InvalidRequest if the requests may
        not be approved all at once.
        """
        text = await self._api.notes.get(_name_note(key))
        if text is None:
            raise Conflict("this view was open for too long; open it again")
        kept: dict[str, Any] = json.loads(text)
        if not kept["together"] and action is not Action.DENY:
            raise InvalidRequest(
                "not all of these requests can be read here; decide them one at a time"
            )
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
