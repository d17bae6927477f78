"""Suggest grants to people, based on their past decisions. Start at `Suggestions`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from gateway.approvals.policy_replay import Past, past_of
from gateway.approvals.request_writer import Writer
from gateway.cards.masks import hides_offer
from gateway.cards.remember_options import SIMILAR
from gateway.cards.shared_texts import clip
from gateway.cards.summary import plain_summary, summarize
from gateway.domain.policy_document import PolicyDocument, RuleEffect, Ruling
from gateway.domain.records import Identity, StoredRequest
from gateway.domain.store import DECIDED_DAYS, Store
from gateway.errors import InvalidRequest, Unauthorized
from gateway.models import Action, Risk, RiskLevel, Status
from gateway.policy.authorization import approver, refuse_unknown, who_may_approve
from gateway.policy.grants.grant import Answer, Effect, MatchResult
from gateway.policy.grants.offers import Offer, find_offer, might_cover, offers, would_cover
from gateway.policy.rules import fits
from gateway.ports.adapter_api import Suggestion
from gateway.ports.outgoing import AdapterStorage

_TIMES = 12  # answers of one person before anything is suggested
_MOST, _PAGE = 500, 50  # of people's answers that are looked at
_EXAMPLES, _EXAMPLE = 5, 120  # how many, and their characters
_SUMMARIES = 20  # of the newest, which take a moment each
_STRAY = "“”\n"  # what stands around an offer's words
_CALM = Risk(level=RiskLevel.MEDIUM)
_WEEK, _REFUSED = 7 * 86_400.0, 90 * 86_400.0


class _Decided(NamedTuple):
    """A request that a person decided, in each version that they decided; `forms` is empty if the
    content is no longer known. `tap` identifies the click, which may have decided a batch."""

    forms: tuple[StoredRequest, ...] = ()
    approved: bool = False
    by: str = ""
    tap: str = ""

    def is_covered(self, offer: Offer) -> bool:
        """Whether an offer covers this request. A request with unknown content counts as refused
        and covered."""
        look = would_cover if self.approved else might_cover
        return not self.forms or any(look(offer, one) for one in self.forms)


class Suggestions:
    """Implements `gateway.ports.SuggestionCalls`. `notes` stores which grants were suggested to
    whom, and who declined."""

    def __init__(self, store: Store, writer: Writer, notes: AdapterStorage) -> None:
        self._store = store
        self._writer = writer
        self._notes = notes

    async def find_usual(self, record: StoredRequest) -> str:
        """Return the ID of the narrowest offer that covers the last ten similar requests."""
        made, similar = offers(record), []
        async for one in self._read(record):
            if not any(one.is_covered(offer) for offer in made):
                continue
            similar.append(one)
            if not one.approved:
                return ""
            if len(similar) == SIMILAR:
                covers = (o.id for o in made if all(past.is_covered(o) for past in similar))
                return next(covers, "")
        return ""

    async def suggest(self, identity: Identity, record: StoredRequest) -> Suggestion | None:
        """Return a grant that this person could create, or None. Suggests at most one a week."""
        policy = await self._writer.policy()
        name, week = policy.name_of(identity), f"week {policy.name_of(identity)}"
        told = await self._notes.get(week)
        if (told and not told.startswith(record.id)) or not _may_remember(policy, record, identity):
            return None
        found = await self._find(record, name)
        if found is None or await self._notes.get(_refusal(record, found.offer, name)):
            return None
        this = f"{record.id} {found.offer}"
        ours = await self._notes.put_new(week, this, seconds=_WEEK)
        return found if ours or await self._notes.get(week) == this else None

    async def decline(self, identity: Identity, record: StoredRequest, offer: str) -> None:
        """Stop suggesting an offer to this person for 90 days."""
        policy = await self._writer.policy()
        refuse_unknown(policy, identity)
        if find_offer(record, offer) is None:
            raise InvalidRequest("this suggestion is no longer offered")
        refusal = _refusal(record, offer, policy.name_of(identity))
        await self._notes.put(refusal, "no", seconds=_REFUSED)

    async def _find(self, record: StoredRequest, name: str) -> Suggestion | None:
        """Return the narrowest offer that this person approved often and nobody refused."""
        like = [(offer, list[_Decided]()) for offer in _list_narrow(record)]
        async for one in self._read(record):
            for offer, past in like:
                if one.is_covered(offer):
                    past.append(one)
        for offer, past in like:
            mine = [one for one in past if one.by == name]
            if len(mine) < _TIMES or not all(one.approved for one in past):
                continue
            if (times := await _count_times(offer, mine)) < _TIMES:
                continue
            if not _reads_plainly(record, offer):
                return None  # a wider one says too much
            examples = await _list_examples(past)
            text = (
                f"You approved this {times} times in {DECIDED_DAYS} days, and nobody denied it. "
                f"Remembering “{record.show(offer.words).text}” "
                f"would have approved {len(past)} requests, such as: {'; '.join(examples)}."
            )
            return Suggestion(offer=offer.id, text=text)
        return None

    async def _read(self, record: StoredRequest) -> AsyncIterator[_Decided]:
        """Yield people's decisions on requests for the same tool, newest first. If there are more
        than the search reads, the last item has no content."""
        policy, request = await self._writer.policy(), record.request
        ids = await self._store.list_decided(request.agent, request.tool, limit=_MOST + 1)
        for begin in range(0, len(ids), _PAGE):
            for one in await self._store.load_many(ids[begin : begin + _PAGE]):
                if begin == _MOST or one is None or one.erased or one.decision is None:
                    yield _Decided()
                    continue
                approved = past_of(one) is Past.APPROVED
                forms = tuple(map(policy.declare, _list_forms(one, approved=approved)))
                tap = one.nonces[-1] if one.nonces else one.id
                yield _Decided(forms, approved, one.decision.decided_by.name, tap)
                await asyncio.sleep(0)  # let clicks run between requests


async def _count_times(offer: Offer, approvals: Iterable[_Decided]) -> int:
    """Count the clicks that approved a request for which this offer was also available. A request
    that the offer covers but that has, for example, fewer flags does not count."""
    taps = set()
    for one in approvals:
        if any(find_offer(form, offer.id) for form in one.forms):
            taps.add(one.tap)
        await asyncio.sleep(0)
    return len(taps)


async def _list_examples(past: list[_Decided]) -> list[str]:
    """Return different summaries of some of the newest of these requests."""
    told: dict[str, None] = {}
    for form in (one.forms[0] for one in past[:_SUMMARIES]):
        told[clip(plain_summary(summarize(form)), _EXAMPLE)] = None
        if len(told) == _EXAMPLES:
            break
        await asyncio.sleep(0)
    return list(told)


def _list_forms(record: StoredRequest, *, approved: bool) -> Iterator[StoredRequest]:
    """Yield a request as its agent sent it. If it was refused, omit the marks that required a
    person, because the next request may lack them. If it was denied after an edit, also yield the
    edited request."""
    sent = replace(record, edited=None, digest=record.request.digest)
    if approved:
        yield sent
        return
    edited = record.edited is not None and record.status is Status.DENIED
    for one in (sent, record) if edited else (sent,):
        request = replace(one.request, human=False)
        yield replace(one, request=request, risk=_CALM, raised=(), findings=())


def _may_remember(policy: PolicyDocument, record: StoredRequest, identity: Identity) -> bool:
    """Whether a person may decide a pending request, or approved it as submitted. This only chooses
    the text to show, because a click is judged again."""
    ruling, decision = policy.ruling_on(record.request), record.decision
    try:
        refuse_unknown(policy, identity)
        if decision is None:
            approver(ruling, record, identity)
    except Unauthorized:
        return False
    allowed = Action.APPROVE in record.request.allowed and not ruling.step_up(record).asked
    return (
        allowed
        and not _is_held_up(policy, record)
        and (decision is None or _approved_it(ruling, record, identity))
    )


def _is_held_up(policy: PolicyDocument, record: StoredRequest) -> bool:
    """Whether a rule requires approval for the request or denies it, whatever grants there are."""
    rules = (one for one in policy.rules if one.effect is not RuleEffect.ALLOW and not one.shadow)
    return any(fits(one, record, policy.own_domains) is not MatchResult.NO for one in rules)


def _approved_it(ruling: Ruling, record: StoredRequest, identity: Identity) -> bool:
    """Whether a person approved a request as submitted, and still may approve it."""
    decision, name = record.decision, ruling.policy.name_of(identity)
    by = decision.decided_by.name if decision is not None else ""
    # Whom a chat's group admitted is known when they click, and not here.
    names = who_may_approve(ruling, record).names
    still = name in names or any(":" in one for one in names)
    return still and name == by and past_of(record) is Past.APPROVED


def _list_narrow(record: StoredRequest) -> list[Offer]:
    """Return the narrowest offer of each kind, without the offer for the whole tool."""
    kinds = {one.match.answer: one for one in reversed(offers(record))}
    return [one for one in reversed(kinds.values()) if one.match.answer is not Answer.TOOL]


def _reads_plainly(record: StoredRequest, offer: Offer) -> bool:
    """Whether an offer can be shown in full, and its text cannot be mistaken for the gateway's
    wording around it."""
    return not (hides_offer(record, offer, Effect.ALLOW) or set(offer.words) & set(_STRAY))


def _refusal(record: StoredRequest, offer: str, name: str) -> str:
    return f"no {offer} {record.request.agent} {name}"
