"""Handle requests from agents (submit, sync, cancel, consume, report), hook reviews and aborted
turns.

Start with `Approvals`. Each method reads a record and computes its transition, mostly with the pure
functions of `approvals.transitions`. `approvals.request_writer` writes the transition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from gateway.approvals.absences import Absences
from gateway.approvals.duplicates_and_overflow import GroupStore
from gateway.approvals.grant_lifecycle import GrantLifecycle
from gateway.approvals.request_writer import (
    LATE,
    STOPPED,
    TOMBSTONE_DIGEST,
    TOO_LATE,
    Creation,
    Overtaken,
    Plan,
    PostedCopies,
    Writer,
    posts,
    queues_of,
    tombstone_of,
)
from gateway.approvals.transitions import erase_content, give_up, is_news, note_never_fetched
from gateway.cards.blocks import heavy, weight_of
from gateway.cards.masks import MaskProofs
from gateway.domain.policy_document import Ruling
from gateway.domain.records import (
    REVIEWS,
    RequestOutcome,
    StoredRequest,
    outcome_of,
    told_changes,
    told_submission,
)
from gateway.domain.redaction import start_of
from gateway.domain.store import ChangeKind, MessageContext, Store, Transition, WriteResult
from gateway.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    Unauthorized,
    Unreachable,
    Used,
)
from gateway.models import ApprovalRequest, Reason, Report, State, Status
from gateway.policy.chain import Chain, Opinion, judge
from gateway.wire.canonical_json import call_key
from gateway.wire.codec import plain
from gateway.wire.schema import digest_process

_MOST_VERSIONS = 32
_MOST_CONSUMERS = 16  # all but the first are warned that it may have run
_MOST_WORDS = 2000  # of an agent's text in an event, because the audit log is stored for long


class Approvals:
    """Handles the API calls that agents make. Each gateway process has one instance; replicas share
    the store."""

    def __init__(
        self, store: Store, chain: Chain, writer: Writer, grants: GrantLifecycle,
        proofs: MaskProofs, copies: PostedCopies, absences: Absences,
    ) -> None:  # fmt: skip
        self._copies = copies
        self._absences = absences
        self._store = store
        self._chain = chain
        self._writer = writer
        self._grants = grants
        self._proofs = proofs

    # ---------------------------------------------------------------- what agents send

    async def submit(
        self, request: ApprovalRequest, origin: MessageContext, *, detached: bool = False
    ) -> tuple[StoredRequest, bool]:
        """Accept a new request, or find the stored one with its ID. Return it and whether it is
        new.

        Raises Unauthorized if the name or ID belongs to another agent, and Conflict if a request
        with this ID has different content. Raises OverBudget if too many of the agent's requests
        are pending.
        """
        if request.agent != origin.agent:
            raise Unauthorized(
                f"the credential belongs to the agent {origin.agent}, but the request names "
                f"{request.agent}: set GATEWAY_AGENT={origin.agent}"
            )
        waiter = None if detached else origin.process
        began = time.monotonic()
        stored = await self._create(request, partial(self._plan, request, origin, waiter), origin)
        if stored is None:
            return await self._find_same(request, origin, waiter), False
        if stored.final:
            self._writer.tally.unasked.add(time.monotonic() - began)
        await self._grants.retire_used(stored)
        return stored, True

    async def _plan(
        self,
        request: ApprovalRequest,
        origin: MessageContext,
        waiter: str | None,
        ruling: Ruling,
        forced: RequestOutcome | None,
    ) -> Creation:
        """Return the record of a new request after rules and grants judged it. It may already be
        decided."""
        record, timeout_ms = self._writer.new_record(request, ruling, origin, waiter)
        record, decided = await judge(self._chain, record, ruling, stored=False)
        if (ending := forced or decided) is not None:
            record = self._writer.close_record(record, ending, revision=1)
        else:
            record = await self._absences.renew(record, ruling)
            if not heavy(*weight_of(record)):
                record = self._proofs.prove(record)  # now, so that no click waits for it
        told, shadows = told_submission(record), await self._chain.shadows(record)
        if shadows:
            told["shadow"] = record.hide_in(plain(shadows))
        if not record.final and request.origin.chat:
            refused = ruling.find_conversation(request)[1]
            told |= {"origin_refused": refused} if refused else {}
        return Creation(record, told, timeout_ms)

    async def _create(
        self, request: ApprovalRequest, plan: Plan, origin: MessageContext
    ) -> StoredRequest | None:
        """Store a new request after cancelling earlier versions of its call. Return None if it
        exists."""
        if request.call_id is None:
            return await self._writer.create(request, plan, origin)
        call = call_key(request.agent, request.session, request.call_id, request.part or "")
        if await self._store.load(request.id) is not None:
            await self._store.keep_versions(call)
            return None
        # A rejected version stays in the list, because a second submission of it may be stored.
        others = await self._store.add_version(call, request.id)
        if len(others) >= _MOST_VERSIONS:
            raise Conflict("this call has too many versions; use a new value of part")
        for earlier in others:
            await self._supersede(earlier, origin)
        stored = await self._writer.create(request, plan, origin)
        await self._store.keep_versions(call)
        return stored

    async def _supersede(self, request_id: str, origin: MessageContext) -> None:
        """Cancel an earlier version of a call. Its approval can no longer be claimed."""
        unanswered = replace(origin, entry=None)
        record = await self._store.load(request_id)
        if record is not None and not is_own(record, origin):
            return  # it belongs to a previous holder of the agent's name
        await self.cancel(request_id, unanswered, reason=Reason.SUPERSEDED)
        await self._writer.update(request_id, _give_up)

    async def void(self, request_id: str, *, why: str) -> bool:
        """Make an approval impossible to claim, unless a report says that its call was started.
        Return whether the approval was valid until now."""
        return (await self._writer.update(request_id, partial(_give_up, why=why))).changed

    async def sync(self, request_ids: Sequence[str], origin: MessageContext) -> list[State]:
        """Attach a process to requests and renew its lease. Return the current state of those it
        may see."""
        seen = await self._store.attach(request_ids, origin)
        if origin.entry is not None:
            return []
        records = await self._store.load_many(seen)
        return [await self._state(record, origin) for record in records if record]

    async def cancel(
        self, request_id: str, origin: MessageContext, *, reason: Reason, message: str = ""
    ) -> StoredRequest:
        """Cancel a request, even one that has not arrived yet. A final request stays unchanged. A
        request past its deadline expires instead."""
        words = start_of(message, _MOST_WORDS)
        ending = RequestOutcome(status=Status.CANCELLED, reason=reason, message=words)
        known = await self._store.load(request_id)
        if known is None:
            stored = await self._withdraw_early(request_id, ending, origin)
            if stored is not None:
                return stored
        if known is not None and is_own(known, origin) and self._writer.now() >= known.deadline:
            await self.expire(request_id)
            known = None
        step = partial(self._withdraw, ending, origin)
        record, changed = await self._writer.update(request_id, step, origin=origin, known=known)
        if not changed:
            await self._answer(record, origin)
        return record

    async def _withdraw_early(
        self, request_id: str, ending: RequestOutcome, origin: MessageContext
    ) -> StoredRequest | None:
        """Store the cancellation of a request that has not arrived. Return None if it has
        arrived."""
        request = tombstone_of(request_id, origin.agent)
        plan = partial(self._plan_tombstone, request, ending, origin)
        return await self._writer.create(request, plan, origin)

    async def _plan_tombstone(
        self,
        request: ApprovalRequest,
        ending: RequestOutcome,
        origin: MessageContext,
        _ruling: Ruling,
        _forced: RequestOutcome | None,
    ) -> Creation:
        return self._writer.new_tombstone(request, ending, origin)

    async def _withdraw(
        self, ending: RequestOutcome, origin: MessageContext, record: StoredRequest, _ruling: Ruling
    ) -> Transition | None:
        _refuse_others(record, origin)
        return None if record.final else self._writer.plan_end(record, ending)

    async def consume(
        self, request_id: str, origin: MessageContext, *, once: bool = False
    ) -> State:
        """Let this process claim the approval, with a warning if another process claimed it before.

        Raises Used if the approval was voided. With `once`, raises Used also if another process
        claimed it or a result was reported. Raises Conflict if it expired or the kill switch is on.
        Returns a request in any other state unchanged.
        """
        if origin.process is None:
            raise InvalidRequest("the verb consume needs a process token")
        step = partial(self._hand_out, origin, origin.process, once)
        record, changed = await self._writer.update(request_id, step, origin=origin)
        if not changed:
            if record.status is Status.APPROVED and await self._is_stopped():
                raise Conflict(TOO_LATE[WriteResult.STOPPED])
            await self._answer(record, origin)
        return await self._state(record, origin)

    async def _hand_out(
        self,
        origin: MessageContext,
        process: str,
        once: bool,
        record: StoredRequest,
        _ruling: Ruling,
    ) -> Transition | None:
        _refuse_others(record, origin)
        if record.status is not Status.APPROVED:
            return None
        if record.given_up:
            why = record.report.detail if record.report else ""
            raise Used(f"this approval was given up: {why}")
        if once and (record.report or set(record.consumers) - {process}):
            raise Used(
                "another process already claimed this approval: the action may have run already"
            )
        if record.consumers[-1:] == (process,):
            if self._writer.now() >= record.deadline:
                raise Conflict(TOO_LATE[WriteResult.LATE])
            return None
        if len(record.consumers) >= _MOST_CONSUMERS:
            raise Conflict("too many processes already claimed this approval")
        consumers = (*record.consumers, process)
        return Transition(
            before=record,
            after=replace(record, consumers=consumers, revision=record.revision + 1),
            event="consumed",
            kind=ChangeKind.USE,
            data={"process": digest_process(process), "may_have_run": len(consumers) > 1},
        )

    async def report(
        self, request_id: str, report: Report, origin: MessageContext
    ) -> StoredRequest:
        """Record the reported result of the call. Late and repeated reports change nothing."""
        report = replace(report, detail=start_of(report.detail, _MOST_WORDS))
        step = partial(_note_report, report, origin)
        record, changed = await self._writer.update(request_id, step, origin=origin)
        if changed:
            await self._store.forget_secrets(request_id)
        else:
            await self._answer(record, origin)
        return record

    async def state(self, request_id: str, origin: MessageContext) -> State:
        """Return the part of its request that this agent's process may see. Raises NotFound."""
        return await self._state(await self.own(request_id, origin), origin)

    async def fetch(self, request_id: str, origin: MessageContext) -> State:
        """Return a request of this agent with its content and result, and answer the message. Does
        not claim the approval, and does not wait. Raises NotFound."""
        record = await self.own(request_id, origin)
        messages = await self._copies.links.link_cards(request_id)
        state = replace(
            record.state_for(None),
            decision=None if record.status is Status.APPROVED else record.decision,
            record=replace(record.read_back(), messages=tuple(messages)),
        )
        if origin.entry is not None:
            await self._store.answer(origin, request_id=record.id, state=plain(state))
        return state

    async def own(self, request_id: str, origin: MessageContext) -> StoredRequest:
        """Return a request of this agent. Raises NotFound, also for another agent's request."""
        record = await self._load(request_id)
        _refuse_others(record, origin)
        return record

    async def explain(self, request: ApprovalRequest) -> list[Opinion]:
        """Return how each decider would decide this request. Nothing is stored."""
        record = await self.draft(request)
        ruling = (await self._writer.policy()).ruling_on(request)
        return await self._chain.explain(record, ruling.route)

    async def draft(self, request: ApprovalRequest) -> StoredRequest:
        """Return the record that the gateway would create for this request. Nothing is stored."""
        ruling = (await self._writer.policy()).ruling_on(request)
        origin = MessageContext(agent=request.agent)
        return self._writer.new_record(request, ruling, origin, None)[0]

    # ---------------------------------------------------------------- what operators do

    async def erase(self, request_id: str, *, by: str) -> StoredRequest:
        """Delete the content and decision of a final request. Raises Conflict while it is
        pending."""
        record, changed = await self._writer.update(request_id, partial(self._erase, by))
        if changed:
            await self._store.forget_secrets(request_id)
        return record

    async def _erase(self, by: str, record: StoredRequest, _ruling: Ruling) -> Transition | None:
        if not record.final:
            raise Conflict("the request is pending; cancel it first")
        # Grants first, so that a repeated call after a crash erases them again.
        await self._grants.erase(record, by=by)
        if record.erased:
            return None
        return Transition(record, erase_content(record), "erased", ChangeKind.FACT, {"by": by})

    # ---------------------------------------------------------------- what the clock does

    async def expire(self, request_id: str) -> None:
        """End a request that passed its deadline by the server's clock. If no process claimed an
        approval by then, record that."""
        with suppress(NotFound):
            await self._writer.update(request_id, self._expire)

    async def _expire(self, record: StoredRequest, _ruling: Ruling) -> Transition | None:
        if not record.final:
            return self._writer.plan_end(record, LATE)
        after = note_never_fetched(record)
        return Transition(record, after, "never_fetched", ChangeKind.EXPIRY) if after else None

    async def stop(self, request_id: str) -> None:
        """Deny a request that is pending while the kill switch is on."""
        await self._writer.end(request_id, STOPPED)

    # ---------------------------------------------------------------- inside

    async def _load(self, request_id: str) -> StoredRequest:
        record = await self._store.load(request_id)
        if record is None:
            raise NotFound("there is no such request")
        return record

    async def _find_same(
        self, request: ApprovalRequest, origin: MessageContext, waiter: str | None
    ) -> StoredRequest:
        """Return the existing request with this ID if it has the same content."""
        record = await self._store.load(request.id)
        if record is None:
            raise Unreachable("the request was removed while it was submitted")
        if not is_own(record, origin):
            await self._note_refused(
                request.id, origin.agent, "the id belongs to a request of another agent"
            )
            raise Unauthorized("the id is taken")
        if record.request.digest not in (request.digest, TOMBSTONE_DIGEST):
            await self._note_refused(
                request.id, origin.agent, "a request with this id has a different digest"
            )
            raise Conflict("the id is taken by a request with different content")
        if request.human and not record.request.human and record.request.digest == request.digest:
            await self._note_refused(
                request.id,
                origin.agent,
                "the earlier request with this id did not require a person",
            )
            raise Conflict("the id is taken by a request that does not require a person")
        if waiter is None:
            await self._answer(record, origin)
            return record
        await self._store.attach([request.id], origin)
        return await self._load(request.id)

    async def _state(self, record: StoredRequest, origin: MessageContext) -> State:
        state = record.state_for(origin.process)
        if record.numbered and not record.final and origin.process is not None:
            return replace(state, number=await self._store.number_of(record.id))
        if state.decision and record.status is Status.APPROVED and await self._is_stopped():
            return replace(state, decision=None)
        if state.decision is None or not record.request.questions:
            return state
        return replace(state, secrets=await self._store.secrets(record.id))

    async def _is_stopped(self) -> bool:
        return await self._store.is_stopped() is not False  # also if the state is lost

    async def _answer(self, record: StoredRequest, origin: MessageContext) -> None:
        if origin.entry is not None:
            state = await self._state(record, origin)
            await self._store.answer(origin, request_id=record.id, state=plain(state))

    async def _note_refused(self, request_id: str, who: str, why: str) -> None:
        await self._store.note("refused", agent=who, data={"request_id": request_id, "why": why})


def is_own(record: StoredRequest, origin: MessageContext) -> bool:
    """Return whether a request belongs to this agent, and not to an earlier agent with its name."""
    return record.request.agent == origin.agent and record.created >= origin.since


def _refuse_others(record: StoredRequest, origin: MessageContext) -> None:
    if not is_own(record, origin):
        raise NotFound("there is no such request")


async def _give_up(
    record: StoredRequest, _ruling: Ruling, *, why: str = "superseded by a newer version"
) -> Transition | None:
    after = give_up(record, why)
    if after is None:
        return None
    return Transition(record, after, "reported", ChangeKind.FACT, plain(after.report))


async def _note_report(
    report: Report, origin: MessageContext, record: StoredRequest, _ruling: Ruling
) -> Transition | None:
    _refuse_others(record, origin)
    if not record.final:
        raise Conflict("the request is still pending")
    if not is_news(record.report, report):
        return None
    after = replace(record, report=report, revision=record.revision + 1)
    return Transition(record, after, "reported", ChangeKind.FACT, record.hide_in(plain(report)))


# Reviews by slow deciders of stored requests, before people see them.
#
# A request under review is in one outbox only, so that no card is posted. The replica that reviews
# it holds a lease; if it dies, another one reviews again.


class HookReviews:
    """Reviews one request at a time. If a request is reviewed twice, only one result is stored."""

    def __init__(self, chain: Chain, writer: Writer, granted: GrantLifecycle) -> None:
        self._chain = chain
        self._writer = writer
        self._granted = granted

    async def look(self, request_id: str, held: GroupStore) -> float | None:
        """Let all deciders judge a request under review, and store the result."""
        # A request that is gone, or ended by the clock or the kill switch, needs no review.
        with suppress(NotFound, Overtaken):
            step = partial(self._review, held)
            after, changed = await self._writer.update(request_id, step)
            if changed:
                await self._granted.retire_used(after)
        return None

    async def _review(
        self, held: GroupStore, record: StoredRequest, ruling: Ruling
    ) -> Transition | None:
        if record.final or not record.unreviewed:
            return None
        after = await self._judge(record, ruling)
        if not after.final:
            changed = after.digest != record.digest
            budget = ruling.policy.budget_for(after.request.agent)
            await held.place(after, budget, posts=posts(ruling, after), alone=changed)
        return _step(record, after, ruling)

    async def _judge(self, record: StoredRequest, ruling: Ruling) -> StoredRequest:
        queues = tuple(one for one in record.queues if one != REVIEWS)
        named = queues_of(ruling, record.owner, record.conversation)
        asked = replace(record, queues=tuple(dict.fromkeys((*named, *queues))))
        after, ending = await judge(self._chain, asked, ruling)
        revision = record.revision + 1
        if ending is not None:
            return self._writer.close_record(after, ending, revision=revision)
        return replace(after, revision=revision, shown_since=revision)


def _step(record: StoredRequest, after: StoredRequest, ruling: Ruling) -> Transition:
    return Transition(
        before=record,
        after=after,
        event=after.status.value if after.final else "reviewed",
        data={} if after.final else {"digest": after.digest, **told_changes(after)},
        generation=ruling.policy.generation,
    )


# Stopping a turn ends its other pending requests.


async def end_siblings(store: Store, writer: Writer, aborted: StoredRequest) -> None:
    """Deny the other pending requests of the turn to which an aborted request belongs. The decision
    names the person who stopped the turn.

    Agent, session and the agent's name for the turn identify a turn. Without that name, no other
    request is denied. Idempotent.
    """
    decision = aborted.decision
    if decision is None or decision.abort is None or not aborted.request.turn:
        return
    step = partial(_end_sibling, writer, aborted, outcome_of(decision))
    for record in await store.load_many(await store.pending_of(aborted.request.agent)):
        if record is not None:
            with suppress(NotFound, Overtaken):
                await writer.update(record.id, step, known=record)


async def _end_sibling(
    writer: Writer,
    aborted: StoredRequest,
    ending: RequestOutcome,
    record: StoredRequest,
    ruling: Ruling,
) -> Transition | None:
    one, other = aborted.request, record.request
    same = (one.agent, one.session, one.turn) == (other.agent, other.session, other.turn)
    if record.final or not same:
        return None
    note = f"denied together with {aborted.id}, whose turn was stopped"
    return writer.plan_end(record, ending, ruling, note=note)
