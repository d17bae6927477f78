"""Write requests. Only this module calls the store's `create`, `change` and `change_all`.

Start with `Writer`. Other modules read a record and decide what should change. The store's script
writes the change only if its conditions still hold, or returns the reason. For all callers, this
module handles the reasons: it decides again, ends the request, or raises an error. See
`gateway.domain.store.WriteResult`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from gateway.approvals.transitions import close_record
from gateway.domain.health_and_metrics import Tally
from gateway.domain.log_context import log_about
from gateway.domain.policy_document import ORIGIN, REQUESTER, PolicyDocument, Ruling, adapters_of
from gateway.domain.records import Click, MessageRef, RequestOutcome, StoredRequest
from gateway.domain.redaction import mask
from gateway.domain.risk import draw_number
from gateway.domain.store import (
    ChangeKind,
    MessageContext,
    Store,
    Transition,
    WritableStore,
    WriteResult,
)
from gateway.domain.time_and_tasks import Clock
from gateway.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    OverBudget,
    Unauthorized,
    Unreachable,
)
from gateway.models import (
    MAX_LIFE_SECONDS,
    Action,
    ApprovalRequest,
    DecidedBy,
    DeciderKind,
    Decision,
    Reason,
    Status,
)
from gateway.policy.grant_book import GrantBook
from gateway.policy.guardrails import assess
from gateway.ports.outgoing import Copy, CopyState, MessageLinks, Outbox
from gateway.wire.codec import JsonObject
from gateway.wire.signatures import Signer

# The digest of a record whose cancel arrived before its submit. No action can have it.
TOMBSTONE_DIGEST = "0" * 64

FOLLOWUPS = "followups"

STOPPED = RequestOutcome(status=Status.DENIED, reason=Reason.STOPPED)
LATE = RequestOutcome(status=Status.EXPIRED, reason=Reason.TIMEOUT)
_PAUSED = RequestOutcome(status=Status.DENIED, reason=Reason.BREAKER)

_FORCED = {WriteResult.STOPPED: STOPPED, WriteResult.LATE: LATE, WriteResult.PAUSED: _PAUSED}
"""How a request ends that the script refused to store as pending, by the script's result."""

TOO_LATE = {
    WriteResult.LATE: "it expired before your decision",
    WriteResult.STOPPED: "the gateway's kill switch is on",
}
_NOT_USED = "the approval expired before it was used"


class Creation(NamedTuple):
    """A request to store, the data for its event, and the request's lifetime in ms."""

    record: StoredRequest
    data: JsonObject
    timeout_ms: int


class Update(NamedTuple):
    """A request after an update, and whether this update changed it."""

    record: StoredRequest
    changed: bool


class Overtaken(Conflict):
    """The deadline passed or the kill switch was turned on first. Only the end of a pending request
    was written."""

    def __init__(self, why: str, request_id: str = "") -> None:
        super().__init__(why)
        self.request_id = request_id


Plan = Callable[[Ruling, RequestOutcome | None], Awaitable[Creation]]
"""Returns the record to store for a new request. With an outcome, the request must end with it
instead of being pending."""
Step = Callable[[StoredRequest, Ruling], Awaitable[Transition | None]]
"""Returns the transition of a request, or None."""
DecideAll = Callable[[Sequence[StoredRequest | None]], Awaitable[Sequence[Transition]]]


class Writer:
    """Writes requests, signs decisions, and caches the policy.

    `tally` counts how long ended requests were pending. A step is repeated at most `tries` times
    because the request or the policy changed; then Unreachable is raised.
    """

    def __init__(
        self,
        store: WritableStore,
        clock: Clock,
        signer: Signer | None,
        book: GrantBook,
        *,
        tally: Tally,
        tries: int = 20,
    ) -> None:
        self._store: Store = store
        self._requests = store
        self._clock = clock
        self._signer = signer
        self._tries = tries
        self.tally = tally
        self.book = book
        self._policy: PolicyDocument | None = None
        self._forgotten = 0
        self._ahead_ms = 0

    def now(self) -> int:
        """Return the server's time, estimated by this process."""
        return self._clock.now_ms() + self._ahead_ms

    # ---------------------------------------------------------------- the policy

    async def policy(self) -> PolicyDocument:
        """Return the policy as last read. Scripts reject decisions that were made under an outdated
        policy."""
        while self._policy is None:
            forgotten = self._forgotten
            found = await self._store.policy()
            # A policy that was replaced while it was read must not be cached.
            if forgotten == self._forgotten:
                self._policy = found
                self.book.at(found)
        return self._policy

    async def fresh_policy(self) -> PolicyDocument:
        """Read and return the active policy. Use it for checks that no script repeats."""
        self.forget_policy()
        return await self.policy()

    async def current_policy(self) -> PolicyDocument:
        """Return the active policy, even if the event of its change has not arrived yet."""
        if (await self.policy()).generation != await self._store.generation():
            self.forget_policy()
        return await self.policy()

    def forget_policy(self) -> None:
        """Drop the cached policy, because it was replaced."""
        self._policy = None
        self._forgotten += 1

    # ---------------------------------------------------------------- written

    async def create(
        self, request: ApprovalRequest, plan: Plan, origin: MessageContext
    ) -> StoredRequest | None:
        """Store a new request and reply to its message. Return the request, or None if its ID
        exists.

        Raises OverBudget if too many of the agent's requests are pending.
        """
        forced: RequestOutcome | None = None
        for _ in range(self._tries):
            ruling = (await self.policy()).ruling_on(request)
            with log_about(request=request.id, agent=request.agent):
                record, data, timeout_ms = await plan(ruling, forced)
            result, stored = await self._requests.create(
                record,
                origin,
                generation=ruling.policy.generation,
                data=data,
                timeout_ms=timeout_ms,
                budget=ruling.policy.budget_for(request.agent),
                posts=posts(ruling, record) and not record.unreviewed,
                number=draw_number() if record.numbered and not record.final else "",
            )
            forced = _FORCED.get(result)
            match result:
                case WriteResult.OK:
                    return stored
                case WriteResult.EXISTS:
                    return None
                case WriteResult.STOPPED | WriteResult.LATE | WriteResult.PAUSED:
                    pass  # the next try stores it with its end
                case WriteResult.AGAIN | WriteResult.OVER_LIMIT:
                    self.forget_policy()
                case WriteResult.SPENT:
                    self._spend_grant(record)
                case WriteResult.CLOCK:
                    self._ahead_ms = stored.created - self._clock.now_ms()
                case WriteResult.DENIED:
                    forced = await self._repeat(stored.behind)
                case WriteResult.CROWDED:
                    raise OverBudget(
                        "too many requests of this agent are pending, or it submitted too many "
                        "today"
                    )
                case _:
                    raise ValueError(f"submit_request.lua returned an unexpected result: {result}")
        raise Unreachable(
            "the request could not be stored, because the policy is being changed "
            "all the time; try again"
        )

    async def update(
        self,
        request_id: str,
        step: Step,
        *,
        origin: MessageContext | None = None,
        known: StoredRequest | None = None,
    ) -> Update:
        """Call `step` with a request and write the transition that it returns, if any.

        If the request changes meanwhile, `step` is called again with the new record. `known` is the
        request as read earlier. It is tried first; if `step` raises an error, the request is read
        again. `origin` is the message to reply to.

        Raises NotFound, Overtaken, any error of `step`, and Unreachable after too many tries.
        """
        for _ in range(self._tries):
            record = known or await self._read(request_id)
            try:
                ruling = (await self.policy()).ruling_on(record.request)
                with log_about(request=record.id, agent=record.request.agent):
                    transition = await step(record, ruling)
            except (InvalidRequest, NotFound, Unauthorized):
                if known is None:
                    raise
                # The known record may be outdated, so repeat with the current one. An error of the
                # platform is not a rejection and is not repeated.
                known = None
                continue
            known = None
            if transition is None:
                return Update(record, changed=False)
            result = await self._change(transition, origin)
            if result is WriteResult.OK:
                return Update(transition.after, changed=True)
            if result is WriteResult.EARLY:
                return Update(record, changed=False)  # not over yet: the clock tries again
            if result in TOO_LATE and not transition.before.final:
                # For the caller it makes no difference which replica ends it.
                ending = self.plan_end(transition.before, _FORCED[result])
                await self._change(ending)
            self._handle_refusal(result, transition)
        raise Unreachable("the request is being changed by others all the time; try again")

    async def update_all(
        self, request_ids: Sequence[str], decide: DecideAll
    ) -> list[StoredRequest]:
        """Call `decide` with these requests and write all transitions or none.

        Returns the updated requests. Works like `update`, but if the deadline or kill switch came
        first for one request, nothing is written, and the sweeper ends that request.
        """
        for _ in range(self._tries):
            found = await self._store.load_many(request_ids)
            transitions = await decide(found)
            result, which = WriteResult.OK, ""
            if transitions:
                result, which = await self._requests.change_all(transitions)
            if result is WriteResult.OK:
                for one in transitions:
                    self.tally.end(one.before, one.after)
                after = {one.after.id: one.after for one in transitions}
                return [after.get(record.id, record) for record in found if record]
            self._handle_refusal(result, next(one for one in transitions if one.before.id == which))
        raise Unreachable("the requests are being changed by others all the time; try again")

    async def apply(self, transition: Transition) -> bool:
        """Write a transition unless its request changed. Return whether it was written."""
        seen = transition.before
        try:
            update = await self.update(seen.id, partial(_if_unchanged, transition), known=seen)
        except (NotFound, Overtaken):
            return False
        return update.changed

    async def end(self, request_id: str, ending: RequestOutcome) -> bool:
        """End a pending request. Return whether this call ended it."""
        try:
            return (await self.update(request_id, partial(self._end, ending))).changed
        except NotFound:
            return False

    async def _end(
        self, ending: RequestOutcome, record: StoredRequest, _ruling: Ruling
    ) -> Transition | None:
        return None if record.final else self.plan_end(record, ending)

    # ---------------------------------------------------------------- planned

    def new_record(
        self,
        request: ApprovalRequest,
        ruling: Ruling,
        origin: MessageContext,
        waiter: str | None,
    ) -> tuple[StoredRequest, int]:
        """Return the initial record of a request, and its lifetime in ms."""
        route = ruling.route
        timeout = route.timeout if request.timeout is None else request.timeout
        seconds = timeout or MAX_LIFE_SECONDS
        if route.max_timeout is not None:
            seconds = min(seconds, route.max_timeout)
        life = int(seconds * 1000)
        now = self.now()
        conversation, _ = ruling.find_conversation(request)
        record = StoredRequest(
            request=request,
            status=Status.PENDING,
            revision=1,
            shown_since=1,
            digest=request.digest,
            created=max(now, origin.since),  # as in the script, if a clock was set back
            deadline=min(now, origin.arrived_ms or now) + life,
            route=route.name,
            scope_quorum=route.scope_quorum,
            owner=origin.owner,
            process=waiter,
            attached=(waiter,) if waiter and origin.entry is not None else (),
            queues=queues_of(ruling, origin.owner, conversation),
            conversation=conversation,
            numbered=waiter is not None and request.shows_number and route.risk.takes_numbers,
        )
        return assess(ruling.policy.declare(record), ruling), life

    def new_tombstone(
        self, request: ApprovalRequest, ending: RequestOutcome, origin: MessageContext
    ) -> Creation:
        """Return the ended record of a request that has not arrived yet (see `tombstone_of`)."""
        record, life = self.new_record(request, PolicyDocument().ruling_on(request), origin, None)
        data = {"digest": TOMBSTONE_DIGEST, "tombstone": True}
        return Creation(self.close_record(record, ending, revision=1), data, life)

    def close_record(
        self, record: StoredRequest, ending: RequestOutcome, *, revision: int
    ) -> StoredRequest:
        """Return the record with a signed final decision."""
        return close_record(record, ending, revision=revision, now=self.now(), sign=self.sign)

    def plan_end(
        self,
        record: StoredRequest,
        ending: RequestOutcome,
        ruling: Ruling | None = None,
        *,
        note: str | None = None,
    ) -> Transition:
        """Return the transition that ends a request. With a ruling, the end is a decision; without
        one, it is an event such as a cancellation. `note` is added to the record."""
        after = self.close_record(record, ending, revision=record.revision + 1)
        if note is not None:
            after = after.copy_with(note=note)
        event = after.status.value
        if ruling is not None:
            return Transition(record, after, event, generation=ruling.policy.generation)
        expired = ending.status is Status.EXPIRED
        return Transition(record, after, event, ChangeKind.EXPIRY if expired else ChangeKind.FACT)

    def sign(self, decision: Decision) -> Decision:
        """Return the decision with the gateway's signature, if it has a key."""
        if self._signer is None:
            return decision
        return decision.with_signature(self._signer.sign)

    # ---------------------------------------------------------------- inside

    async def _change(
        self, transition: Transition, origin: MessageContext | None = None
    ) -> WriteResult:
        result = await self._requests.change(transition, origin)
        if result is WriteResult.OK:
            self.tally.end(transition.before, transition.after)
        return result

    async def _read(self, request_id: str) -> StoredRequest:
        record = await self._store.load(request_id)
        if record is None:
            raise NotFound("there is no such request")
        return record

    def _handle_refusal(self, result: WriteResult, refused: Transition) -> None:
        """Handle a rejected transition. Return if the caller should decide again; otherwise raise
        an error."""
        match result:
            case WriteResult.STALE | WriteResult.REPLAY | WriteResult.GONE:
                pass  # the current record says what happened
            case WriteResult.AGAIN | WriteResult.OVER_LIMIT:
                self.forget_policy()
            case WriteResult.SPENT:
                self._spend_grant(refused.after)
            case WriteResult.LATE if refused.before.final:
                raise Overtaken(_NOT_USED, refused.before.id)
            case WriteResult.FULL:
                raise Conflict(
                    "there are too many grants for a tool of this plan; revoke some of them"
                )
            case WriteResult.LATE | WriteResult.STOPPED:
                raise Overtaken(TOO_LATE[result], refused.before.id)
            case _:
                raise ValueError(f"change_requests.lua returned an unexpected result: {result}")

    async def _repeat(self, denied: str) -> RequestOutcome | None:
        """Return the recent denial of an equal call, or None if it no longer covers this call."""
        denial = await self.book.store.get(denied)
        if denial is None:
            return None
        by = DecidedBy(kind=DeciderKind.GRANT, name=denied)
        return RequestOutcome(
            status=Status.DENIED,
            action=Action.DENY,
            reason=Reason.GRANT,
            by=by,
            message=denial.told,
        )

    def _spend_grant(self, record: StoredRequest) -> None:
        """Stop using the grant that made this decision, because the server reports that the grant
        ended."""
        if record.decision is not None:
            self.book.spend(record.decision.decided_by.name)


async def _if_unchanged(
    transition: Transition, record: StoredRequest, _ruling: Ruling
) -> Transition | None:
    seen = transition.before
    same = (record.revision, record.created) == (seen.revision, seen.created)
    return transition if same else None


def tombstone_of(request_id: str, agent: str) -> ApprovalRequest:
    """Return a placeholder for a request that was cancelled before it arrived."""
    return ApprovalRequest(
        id=request_id,
        agent=agent,
        tool="cancelled before it arrived",
        arguments={},
        digest=TOMBSTONE_DIGEST,
    )


def posts(ruling: Ruling, record: StoredRequest) -> bool:
    """Return whether cards are posted for a request."""
    return bool(adapters_of((*ruling.route.targets, record.conversation)))


def queues_of(ruling: Ruling, owner: str | None, conversation: str = "") -> tuple[str, ...]:
    """Return the delivery queues for a request that this owner's agent made in this
    conversation."""
    policy, route = ruling
    informed = [target for target in route.notify if target != REQUESTER]
    if REQUESTER in route.notify:
        informed += [
            one for person in policy.people if person.name == owner for one in person.identities
        ]
    shown = (*route.places(len(route.escalations)), conversation)
    adapters = adapters_of((*shown, *informed))
    waits = bool(adapters_of(shown) or route.escalations or route.remind_after)
    waits = waits or ORIGIN in route.targets  # without a conversation, nobody may see it
    return (*adapters, FOLLOWUPS) if waits else adapters


# Places of posted cards. Clicks are accepted only on these cards.

_MOST_PLACES = 10_000  # cached
_MOST_WORDS = 500
_TRIES = 8


Stood = Callable[[str, MessageRef], bool]
"""Returns whether a copy with this target is or was at a place, given by its reference."""


class PostedCopies:
    """Recognises cards that the gateway posted, and audits what happens to them."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox
        self._places: dict[tuple[str, str], MessageRef] = {}
        self.links = MessageLinks(outbox)

    async def recognise(self, click: Click) -> None:
        """Check that the clicked card was posted by the gateway at this place.

        If the card was posted just before a crash, its reference is saved now. Raises Unauthorized.
        """
        if click.ref is None or self._places.get((click.request_id, click.copy or "")) == click.ref:
            return
        copies = (await self._outbox.copies(click.request_id)).values()
        copy = next((one for one in copies if one.nonce == click.copy and not one.outcome), None)
        if copy is not None and copy.ref == click.ref:
            self.remember_place(click.request_id, copy)
            return
        if copy is None or copy.ref is not None:
            raise Unauthorized("the gateway did not post this card here")
        await self.adopt(click.request_id, copy.nonce, click.ref)

    async def adopt(self, subject_id: str, nonce: str, ref: MessageRef) -> None:
        """Save the reference of a card that was posted just before a crash.

        The write is repeated, because the posting worker may record at the same time that the
        result is unknown.
        """
        for _ in range(_TRIES):
            copies = (await self._outbox.copies(subject_id)).values()
            mine = (one for one in copies if one.nonce == nonce and not one.outcome)
            lost = next((one for one in mine if one.ref is None), None)
            if lost is None:
                return
            posted = replace(lost, state=CopyState.POSTED, ref=ref, revision=0)
            await self._outbox.put_copy(subject_id, posted, before=lost)
            await self._outbox.mark(ref.adapter, subject_id)

    async def doubt(self, record: StoredRequest, stood: Stood, away: str, elsewhere: str) -> None:
        """Check the posted cards of a request again, because some may have been deleted. `stood`
        selects them.

        `away` says why nobody can decide at that place, even if its cards can be edited. If it is
        set, the queue `elsewhere` finds another place.
        """
        for copy in (await self._outbox.copies(record.id)).values():
            if copy.ref is None or copy.outcome or not stood(copy.target, copy.ref):
                continue
            # Its content is unknown, so it is edited; the platform then says whether it exists.
            doubtful = replace(copy, revision=0, tries=0, away=bool(away), why=away or copy.why)
            if not await self._outbox.put_copy(record.id, doubtful, before=copy):
                continue  # another worker handles it now
            await self._outbox.mark(copy.ref.adapter, record.id)
            if away:
                await self.note(
                    "copy_gone", record.request.agent, {"request_id": record.id}, copy, away
                )
                await self._outbox.mark(elsewhere, record.id)

    def remember_place(self, subject_id: str, copy: Copy) -> None:
        """Cache where a card was posted, so that clicks on the card need no look-up. A card never
        moves."""
        if copy.ref is not None:
            self._places[subject_id, copy.nonce] = copy.ref
        while len(self._places) > _MOST_PLACES:
            del self._places[next(iter(self._places))]

    async def note(self, event: str, agent: str, about: JsonObject, copy: Copy, why: str) -> None:
        """Record in the audit log what happened to a card. The request does not change."""
        data = {**about, "target": copy.target}
        if copy.ref is not None:
            data["message"] = copy.ref.message
            if url := await self.links.link(copy.target, copy.ref):
                data["url"] = url
        if why:
            data["why"] = shorten(why)
        await self._store.note(event, agent=agent, data=data)


def shorten(why: str) -> str:
    """Return a reason for the audit log, with secrets masked and shortened to a readable length."""
    return str(mask(why))[:_MOST_WORDS]  # mask first: half a secret is not recognised
