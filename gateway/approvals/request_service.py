"""Show, search and decide requests for people (`RequestService`), and end agents' sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial

from gateway.approvals.agent_service import Approvals, is_own
from gateway.approvals.decisions import Batches, ClickJudge
from gateway.approvals.grant_creation import GrantCreation, may_pass
from gateway.approvals.grant_lifecycle import GrantLifecycle
from gateway.approvals.request_writer import FOLLOWUPS, PostedCopies, Stood, Writer, shorten
from gateway.approvals.search_and_report import search_events, search_requests
from gateway.cards.blocks import CardSizes, draw, weight_of
from gateway.cards.card import Card, card_of
from gateway.cards.masks import MaskProofs
from gateway.domain.policy_document import PolicyDocument, Ruling
from gateway.domain.records import (
    Claim,
    Click,
    Identity,
    Page,
    Person,
    Query,
    RequestOutcome,
    StoredRequest,
    deciders_of,
)
from gateway.domain.store import ChangeKind, MessageContext, Store, Transition
from gateway.errors import Conflict, NotFound, Unauthorized
from gateway.models import Reason, Status
from gateway.policy.authorization import approver, who_may_approve
from gateway.policy.grants.offers import NO_REACH, find_host_rule
from gateway.ports.adapter_api import Found, FoundEvents, Groups, QueueCounts, QueueFilter, Search
from gateway.ports.sign_in import Prove
from gateway.wire.codec import JsonObject

_PAGE = 200
_MOST_QUEUED = 1_000  # limit of pending requests for one page or one count
_QUEUE_PAGE = 100
_TOGETHER = 2  # concurrent searches; others wait, so that clicks are not delayed


class RequestService:
    """Implements `gateway.ports.RequestCalls`. Requests that a hook still reviews count as not
    found."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        clicks: ClickJudge,
        remembering: GrantCreation,
        copies: PostedCopies,
        *,
        sizes: CardSizes,
        proofs: MaskProofs,
    ) -> None:
        self._store = store
        self._writer = writer
        self._clicks = clicks
        self._batches = Batches(writer, clicks)
        self._remembering = remembering
        self._copies = copies
        self._sizes = sizes
        self._proofs = proofs
        self._searching = asyncio.Semaphore(_TOGETHER)

    # ---------------------------------------------------------------- what people see

    async def get(self, request_id: str, *, revision: int | None = None) -> StoredRequest:
        """Return a request. If this process has cached the `revision` that a card shows, return
        that."""
        record = None if revision is None else self._store.recent(request_id)
        if record is None or record.revision != revision or record.unreviewed:
            record = await self._store.load(request_id)
        if record is None or record.unreviewed:
            raise NotFound("there is no such request")
        return await self._with_approvers(record)

    async def page(self, query: Query) -> Page:
        """Return one page of requests, newest first."""
        page = await self._store.page(query)
        shown = [await self._with_approvers(one) for one in page.items if not one.unreviewed]
        return replace(page, items=tuple(shown))

    async def list_queue(
        self, identity: Identity, side: QueueFilter, *, after: str | None = None, limit: int = 50
    ) -> Page:
        """Return one page of the selected part of the queue, earliest deadline first."""
        policy = await self._writer.policy()
        found: list[StoredRequest] = []
        last, looked = after, 0
        async for record in self._read_queue(after):
            looked += 1
            last = f"{record.deadline}-{record.id}"
            if side is QueueFilter.ALL or is_mine(policy, record, identity) is (
                side is QueueFilter.MINE
            ):
                ruling = policy.ruling_on(record.request)
                found.append(record.copy_with(approvers=who_may_approve(ruling, record)))
            if len(found) == limit or looked == _MOST_QUEUED:
                return Page(items=tuple(found), next=last)
        return Page(items=tuple(found))

    async def count_queue(self, identity: Identity, *, since: int = 0) -> QueueCounts:
        """Count the pending requests for this person and the others, among the 1,000 with the
        earliest deadlines."""
        policy = await self._writer.policy()
        asked: list[int] = []  # creation times of requests that they may decide
        looked, more = 0, False
        async for record in self._read_queue(None):
            if more := looked == _MOST_QUEUED:
                break
            looked += 1
            if is_mine(policy, record, identity):
                asked.append(record.created)
        return QueueCounts(
            mine=len(asked),
            others=looked - len(asked),
            more=more,
            fresh=sum(one > since for one in asked),
            newest=max(asked, default=0),
        )

    async def search(self, search: Search) -> Found:
        """Return the ended requests that match, newest first. Continues at `Search.after`."""
        async with self._searching:
            return await search_requests(self._store, search)

    async def search_events(self, identity: Identity, search: Search) -> FoundEvents:
        """Return the newest events that match. Only admins may search events."""
        if not (await self._writer.fresh_policy()).may_read_all(identity):
            raise Unauthorized("only an admin may see the audit log")
        async with self._searching:
            return await search_events(self._store, search)

    async def draw(self, record: StoredRequest, platform: str, *, lines: int, chars: int) -> Card:
        """Build the card of a request for a platform."""
        card = await draw(
            lambda: card_of(record, lines=lines, chars=chars, proofs=self._proofs),
            *weight_of(record),
        )
        self._sizes.remember_fit(record, lines, chars, card.complete)
        accounts = (await self._writer.policy()).accounts_of(deciders_of(record), platform)
        origin = await self._copies.links.link_origin(record.request.origin)
        return replace(card, deciders=accounts, origin=origin)

    async def reach(self, request_id: str, offer: str) -> str:
        """Describe how many recent requests an offer would have covered, and how people decided
        those."""
        record = await self.get(request_id)
        if find_host_rule(record, offer) is not None:
            return NO_REACH
        return (await self._remembering.reach(record, offer)).words()

    async def person(self, identity: Identity) -> Person | None:
        """Return the person with this identity, or None."""
        return (await self._writer.policy()).person_of(identity)

    async def may_pass(self, identity: Identity, record: StoredRequest) -> bool:
        """Return whether this identity may create a pass for the request's session."""
        return may_pass(await self._writer.policy(), record.request.agent, identity)

    async def may_decide(self, identity: Identity, record: StoredRequest) -> str | None:
        """Return None if this identity may decide the request, or the reason why not as a
        sentence."""
        try:
            approver((await self._writer.policy()).ruling_on(record.request), record, identity)
        except Unauthorized as refusal:
            return str(refusal)
        return None

    # ---------------------------------------------------------------- what people do

    async def decide(
        self, click: Click, *, groups: Groups | None = None, prove: Prove | None = None
    ) -> StoredRequest:
        """Decide or change a request by a person's click."""
        await self._recognise(click)
        return await self._with_approvers(await self._clicks.decide(click, groups, prove))

    async def decide_all(self, clicks: Sequence[Click]) -> list[StoredRequest]:
        """Apply all clicks of one person, or none of them."""
        for click in clicks:
            await self._recognise(click)
        return [await self._with_approvers(one) for one in await self._batches.decide(clicks)]

    async def claim(
        self,
        request_id: str,
        identity: Identity,
        *,
        on: bool = True,
        groups: Groups | None = None,
    ) -> StoredRequest:
        """Record that a person is looking at a request, or no longer is."""
        try:
            try:
                record = await self._claim(request_id, identity, on=on)
            except Unauthorized:
                if groups is None:
                    raise
                identity = replace(identity, groups=await groups())
                record = await self._claim(request_id, identity, on=on)
        except Unauthorized as refusal:
            await self.refuse(request_id, identity, str(refusal))
            raise
        return await self._with_approvers(record)

    async def _claim(self, request_id: str, identity: Identity, *, on: bool) -> StoredRequest:
        step = partial(self._put_claim, identity, on)
        return (await self._writer.update(request_id, step)).record

    async def _put_claim(
        self, identity: Identity, on: bool, record: StoredRequest, ruling: Ruling
    ) -> Transition | None:
        if record.unreviewed:
            raise NotFound("there is no such request")
        if record.final:
            raise Conflict("this request was decided already")
        name = approver(ruling, record, identity).name
        mine = record.claim is not None and record.claim.person == name
        if mine == on or (not on and record.claim is None):
            return None
        if not on and not mine:
            raise Conflict("another person is looking at this request")
        claim = Claim(person=name, at=self._writer.now()) if on else None
        event = "claimed" if on else "unclaimed"
        return _step(record, replace(record, claim=claim), event, {"person": name})

    async def reveal(self, request_id: str, identity: Identity) -> StoredRequest:
        """Return a request whose secrets this person is about to see, and audit that."""
        record = await self.get(request_id)
        policy = await self._writer.fresh_policy()
        try:
            approver(policy.ruling_on(record.request), record, identity)
        except Unauthorized as refusal:
            if not policy.is_admin(identity):
                await self.refuse(request_id, identity, str(refusal))
                raise
        data = {"request_id": request_id, "person": policy.name_of(identity)}
        await self._store.note("revealed", agent=record.request.agent, data=data)
        return record

    async def refuse(self, request_id: str, identity: Identity, why: str) -> None:
        """Record a rejected attempt in the audit log."""
        data = {"request_id": request_id, "why": shorten(why)}
        await self._store.note("refused", agent=identity.written, data=data)

    async def doubt_copies(self, stood: Stood, *, away: str = "") -> None:
        """Make the gateway check again whether the cards of pending requests at a place still
        exist."""
        after = None
        while True:
            page = await self._store.page(Query(after=after, limit=_PAGE))
            for record in page.items:
                if not record.final:
                    await self._copies.doubt(record, stood, away, FOLLOWUPS)
            if (after := page.next) is None:
                return

    # ---------------------------------------------------------------- what time does

    async def progress(
        self, before: StoredRequest, after: StoredRequest, event: str, data: JsonObject
    ) -> bool:
        """Apply a transition to a pending request. Return False if the request changed
        meanwhile."""
        return await self._writer.apply(_step(before, after, event, data))

    async def end_undelivered(self, record: StoredRequest) -> None:
        """Deny a request that reached nobody, and notify the agent at once."""
        ending = RequestOutcome(status=Status.DENIED, reason=Reason.UNDELIVERABLE)
        await self._writer.apply(self._writer.plan_end(record, ending))

    # ---------------------------------------------------------------- inside

    async def _read_queue(self, after: str | None) -> AsyncIterator[StoredRequest]:
        """Yield the pending requests that have a separate card, earliest deadline first."""
        while True:
            query = Query(soonest=True, followers=False, after=after, limit=_QUEUE_PAGE)
            page = await self._store.page(query)
            for record in page.items:
                if not record.unreviewed:
                    yield record
            if (after := page.next) is None:
                return

    async def _with_approvers(self, record: StoredRequest) -> StoredRequest:
        """Return a request for people. While it is pending, it lists who may approve it."""
        if record.final:
            return record
        ruling = (await self._writer.policy()).ruling_on(record.request)
        return record.copy_with(approvers=who_may_approve(ruling, record))

    async def _recognise(self, click: Click) -> None:
        """Check that the clicked card was posted there. Audit a click on an unknown card."""
        try:
            await self._copies.recognise(click)
        except Unauthorized as refusal:
            await self.refuse(click.request_id, click.identity, str(refusal))
            raise


def _step(before: StoredRequest, after: StoredRequest, event: str, data: JsonObject) -> Transition:
    moved = replace(after, revision=before.revision + 1)
    return Transition(before, moved, event, ChangeKind.STEP, data)


def is_mine(policy: PolicyDocument, record: StoredRequest, identity: Identity) -> bool:
    """Return whether this person may decide a pending request and has not voted on it."""
    try:
        name = approver(policy.ruling_on(record.request), record, identity).name
    except Unauthorized:
        return False
    return all(vote.person != name for vote in record.votes)


# Sessions of agents.


class SessionService:
    """Ends sessions for agents and operators, and idle sessions. This cancels the sessions' pending
    requests."""

    def __init__(self, store: Store, approvals: Approvals, grants: GrantLifecycle) -> None:
        self._store = store
        self._approvals = approvals
        self._grants = grants

    async def end(
        self, session: str, origin: MessageContext, *, reason: Reason = Reason.CANCELLED_BY_AGENT
    ) -> list[str]:
        """End an agent's session, cancel its pending requests and return their IDs."""
        waiting = await self._waiting_in(session, origin)
        inner = replace(origin, entry=None)
        for request_id in waiting:
            await self._approvals.cancel(request_id, inner, reason=reason, message="session ended")
        await self._close(session, origin.agent, waiting)
        await self._store.answer(origin, state={})
        return waiting

    async def end_idle(self, agent: str, session: str) -> None:
        """End a session without recent requests. A session with a pending request is not idle, so
        its idle time restarts."""
        if await self._waiting_in(session, MessageContext(agent=agent)):
            await self._store.touch_session(agent, session)
        else:
            await self._close(session, agent, [])

    async def _waiting_in(self, session: str, origin: MessageContext) -> list[str]:
        records = await self._store.load_many(await self._store.pending_of(origin.agent))
        mine = (record for record in records if record and is_own(record, origin))
        return [record.id for record in mine if record.request.session == session]

    async def _close(self, session: str, agent: str, cancelled: list[str]) -> None:
        await self._grants.end_session(agent, session)
        if await self._store.end_session(agent, session):
            told = {"session": session, "cancelled": cancelled}
            await self._store.note("session_ended", agent=agent, data=told)
