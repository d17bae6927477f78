"""Learns from what people decided what to remember: what to choose first, and what to suggest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gateway.approvals.policy_replay import Past, past_of
from gateway.approvals.request_writer import Writer
from gateway.cards.masks import hides_offer
from gateway.cards.remember_options import SIMILAR
from gateway.cards.summary import plain_summary, summarize
from gateway.domain.records import Identity, StoredRequest
from gateway.domain.store import DECIDED_DAYS, Store
from gateway.errors import InvalidRequest, Unauthorized
from gateway.models import Action
from gateway.policy.authorization import approver
from gateway.policy.grants.grant import Answer, Effect
from gateway.policy.grants.offers import Offer, find_offer, offers, would_cover
from gateway.ports.adapter_api import Suggestion
from gateway.ports.outgoing import AdapterStorage

_TIMES = 12  # approvals by one person before anything is suggested
_MOST = 500  # people's decisions that are looked at
_PAGE = 50
_EXAMPLES = 5
_WEEK, _NINETY_DAYS = 7 * 86_400.0, 90 * 86_400.0


class _Decided(NamedTuple):
    """A request that a person decided, as the agent asked for it; None where its content is gone.

    `tap` names the answer, of which one may decide a batch.
    """

    asked: StoredRequest | None
    past: Past
    by: str = ""
    tap: str = ""

    def is_covered(self, offer: Offer) -> bool:
        """Whether an offer would have covered it. Of what is gone nobody knows: every one does."""
        return self.asked is None or would_cover(offer, self.asked)


class Suggestions:
    """Reads what people decided of the same tool. `notes` keep what was suggested, and each no."""

    def __init__(self, store: Store, writer: Writer, notes: AdapterStorage) -> None:
        self._store = store
        self._writer = writer
        self._notes = notes
        self._turn = asyncio.Semaphore(1)  # a long look holds up nobody's click

    async def find_usual(self, record: StoredRequest) -> str:
        """Return the id of the narrowest offer that covers the last ten similar requests.

        Similar is what any of the offers covers. "" where people refused one, or there are fewer.
        """
        made = offers(record)
        similar: list[_Decided] = []
        async for one in self._read(record, await self._list_ids(record) if made else ()):
            if not any(one.is_covered(offer) for offer in made):
                continue
            if one.past is not Past.APPROVED:
                return ""
            similar.append(one)
            if len(similar) == SIMILAR:
                return next((o.id for o in made if all(s.is_covered(o) for s in similar)), "")
        return ""

    async def suggest(self, identity: Identity, record: StoredRequest) -> Suggestion | None:
        """Return what this person could have remembered, at most one a week, with one request.

        None unless they may decide the request, or approved it as it was asked.
        """
        name = await self._find_suggestible(identity, record)
        week = f"week {name}"
        if not name or await self._notes.get(week) not in (None, record.id):
            return None
        async with self._turn:
            found = await self._find(record, name)
        if found is None or await self._notes.get(_refusal(record, found.offer, name)) is not None:
            return None
        if await self._notes.put_new(week, record.id, seconds=_WEEK):
            return found
        return found if await self._notes.get(week) == record.id else None

    async def decline(self, identity: Identity, record: StoredRequest, offer: str) -> None:
        """Suggest an offer to this person no more for 90 days. Raises InvalidRequest where it is
        none of the request's, Unauthorized for who is nobody of the policy."""
        person = (await self._writer.policy()).person_of(identity)
        if person is None:
            raise Unauthorized("only people whom the policy names are told of suggestions")
        if find_offer(record, offer) is None:
            raise InvalidRequest("this is not offered any more")
        refusal = _refusal(record, offer, person.name)
        await self._notes.put(refusal, "no", seconds=_NINETY_DAYS)

    async def _find_suggestible(self, identity: Identity, record: StoredRequest) -> str:
        """Return the name of who may have an approval of this request remembered, "" of others."""
        policy = await self._writer.policy()
        person, ruling = policy.person_of(identity), policy.ruling_on(record.request)
        decision = record.decision
        if person is None or ruling.step_up(record).asked:
            return ""
        if decision is not None and (
            past_of(record) is not Past.APPROVED or decision.decided_by.name != person.name
        ):
            return ""
        try:
            approver(ruling, record, identity)
        except Unauthorized:
            return ""
        return person.name if Action.APPROVE in record.request.allowed else ""

    async def _find(self, record: StoredRequest, name: str) -> Suggestion | None:
        """Return the narrowest offer that this person approved often and nobody refused."""
        ids = await self._list_ids(record)
        if not _TIMES <= len(ids) <= _MOST:
            return None
        made = [
            offer
            for offer in offers(record)
            if offer.match.answer is not Answer.TOOL
            and not hides_offer(record, offer, Effect.ALLOW)
        ]
        past: dict[str, list[_Decided]] = {offer.id: [] for offer in made}
        async for one in self._read(record, ids):
            for offer in made:
                if one.is_covered(offer):
                    past[offer.id].append(one)
        for offer in made:
            like = past[offer.id]
            taps = {one.tap for one in like if one.by == name}
            if len(taps) >= _TIMES and all(one.past is Past.APPROVED for one in like):
                return _describe(record, offer, len(taps), like)
        return None

    async def _list_ids(self, record: StoredRequest) -> Sequence[str]:
        agent, tool = record.request.agent, record.request.tool
        return await self._store.list_decided(agent, tool, limit=_MOST + 1)

    async def _read(self, record: StoredRequest, ids: Sequence[str]) -> AsyncIterator[_Decided]:
        """Yield what people decided, the newest first, as today's declarations have it."""
        policy = await self._writer.policy()
        for begin in range(0, len(ids), _PAGE):
            for one in await self._store.load_many(ids[begin : begin + _PAGE]):
                if one is None or one.erased or one.decision is None:
                    yield _Decided(None, Past.REFUSED)
                else:
                    asked = replace(one, edited=None, digest=one.request.digest)
                    by, tap = one.decision.decided_by.name, one.nonces[-1] if one.nonces else one.id
                    yield _Decided(policy.declare(asked), past_of(one), by, tap)
                await asyncio.sleep(0)  # let clicks run between requests


def _describe(
    record: StoredRequest, offer: Offer, times: int, like: Sequence[_Decided]
) -> Suggestion:
    told = (plain_summary(summarize(one.asked)) for one in like if one.asked is not None)
    return Suggestion(
        offer=offer.id,
        words=record.show(offer.words).text,
        why=f"You approved this {times} times in {DECIDED_DAYS} days, and nobody denied it.",
        reach=f"It would have let through {len(like)} requests, such as:",
        examples=tuple(list(dict.fromkeys(told))[:_EXAMPLES]),
    )


def _refusal(record: StoredRequest, offer: str, name: str) -> str:
    return f"no {offer} {record.request.agent} {name}"
