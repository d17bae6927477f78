"""Writes what was decided: the only caller of the store's two scripts that set a status."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.approvals.transitions import Effect, Ending, ended
from gateway.domain.clock import Clock
from gateway.domain.policy_document import REQUESTER, PolicyDocument, Route, posted
from gateway.domain.records import Record
from gateway.domain.store import Origin, Outcome, Store, Transition
from gateway.errors import OverBudget
from gateway.models import MAX_LIFE_SECONDS, ApprovalRequest, Decision, Status
from gateway.policy.grant_deciders import GrantBook
from gateway.policy.guardrails import assessed
from gateway.wire.codec import JsonObject, plain
from gateway.wire.signatures import Signer

# A cancel that overtakes its submit leaves a record with this digest, which no action can have.
TOMBSTONE_DIGEST = "0" * 64

FOLLOWUPS = "followups"


class Writer:
    """Makes records and transitions, signs decisions, and knows the policy they are made under."""

    def __init__(self, store: Store, clock: Clock, signer: Signer | None, book: GrantBook) -> None:
        self._store = store
        self._clock = clock
        self._signer = signer
        self.book = book
        self._policy: PolicyDocument | None = None
        self._forgotten = 0
        self._ahead_ms = 0

    def now(self) -> int:
        """Return the time by the server's clock, as far as it is known here."""
        return self._clock.now_ms() + self._ahead_ms

    async def policy(self) -> PolicyDocument:
        """Return the policy as last read. Scripts refuse what was decided under an older one."""
        while self._policy is None:
            forgotten = self._forgotten
            found = await self._store.policy()
            # One that was replaced while it was read must not outlive its being forgotten.
            if forgotten == self._forgotten:
                self._policy = found
                self.book.at(found)
        return self._policy

    async def fresh_policy(self) -> PolicyDocument:
        """Return the policy in force, read anew: for what no script checks again."""
        self.forget_policy()
        return await self.policy()

    def forget_policy(self) -> None:
        """Have the policy read again: it was replaced."""
        self._policy = None
        self._forgotten += 1

    def newborn(
        self, request: ApprovalRequest, policy: PolicyDocument, origin: Origin, waiter: str | None
    ) -> tuple[Record, int]:
        """Return the record a request begins with, and its life in ms."""
        route = policy.route_for(request.agent, request.tool)
        timeout = route.timeout if request.timeout is None else request.timeout
        life = int((timeout or MAX_LIFE_SECONDS) * 1000)
        now = self.now()
        record = Record(
            request=request,
            status=Status.PENDING,
            revision=1,
            shown_since=1,
            digest=request.digest,
            created=now,
            deadline=min(now, origin.arrived_ms or now) + life,
            route=route.name,
            quorum=route.quorum,
            scope_quorum=route.scope_quorum,
            owner=origin.owner,
            process=waiter,
            attached=(waiter,) if waiter and origin.entry is not None else (),
            harmless=policy.declares_harmless(request.agent, request.tool),
            queues=queues_of(route, origin.owner, policy),
        )
        return assessed(record, policy), life

    def sign(self, decision: Decision) -> Decision:
        """Return the decision with the gateway's signature, when it has a key."""
        if self._signer is None:
            return decision
        return decision.with_signature(self._signer.sign)

    def ended(self, record: Record, ending: Ending, *, revision: int) -> Record:
        """Return the record with a terminal decision, signed."""
        return ended(record, ending, revision=revision, now=self.now(), sign=self.sign)

    async def create(
        self,
        record: Record,
        origin: Origin,
        policy: PolicyDocument,
        *,
        data: JsonObject,
        timeout_ms: int,
    ) -> tuple[str, Record]:
        """Create a record under a policy; after a refusal know better what it was refused for.

        Raises OverBudget when too much of the agent waits.
        """
        request = record.request
        outcome, stored = await self._store.create(
            record,
            origin,
            generation=policy.generation,
            data=data,
            timeout_ms=timeout_ms,
            budget=policy.budget_for(request.agent),
            posts=posts(record, policy) and not record.unreviewed,
        )
        if outcome == Outcome.AGAIN:
            self.forget_policy()
        if outcome == Outcome.CROWDED:
            raise OverBudget(
                "too many of this agent's requests wait already, or it handed in too much today"
            )
        if outcome == Outcome.CLOCK:
            self._ahead_ms = stored.created - self._clock.now_ms()
        return outcome, stored

    async def end(
        self, record: Record, ending: Ending, origin: Origin | None
    ) -> tuple[Record, str]:
        """End a request; return it as it would be, and what the store did."""
        after = self.ended(record, ending, revision=record.revision + 1)
        change = Transition(
            before=record,
            after=after,
            event=after.status.value,
            clock="after" if ending.status is Status.EXPIRED else "",
        )
        return after, await self._store.change(change, origin)

    async def entomb(self, request_id: str, ending: Ending, origin: Origin) -> tuple[str, Record]:
        """Leave a cancelled record for a request that has not arrived."""
        request = ApprovalRequest(
            id=request_id,
            agent=origin.agent,
            tool="withdrawn before it arrived",
            arguments={},
            digest=TOMBSTONE_DIGEST,
        )
        record, life = self.newborn(request, PolicyDocument(), origin, None)
        record = self.ended(record, ending, revision=1)
        data = {"digest": TOMBSTONE_DIGEST, "tombstone": True}
        return await self.create(record, origin, await self.policy(), data=data, timeout_ms=life)

    async def apply(self, record: Record, effect: Effect, policy: PolicyDocument) -> str:
        """Apply a click's effect under the policy it was checked against."""
        return await self._store.change(_step(record, effect, policy))

    async def apply_all(
        self, steps: Sequence[tuple[Record, Effect, PolicyDocument]]
    ) -> tuple[str, str]:
        """Apply several clicks' effects, all of them or none. See `gateway.domain.store.Store`."""
        return await self._store.change_all([_step(*step) for step in steps])


def _step(record: Record, effect: Effect, policy: PolicyDocument) -> Transition:
    after = effect.after
    return Transition(
        before=record,
        after=after,
        event=effect.event,
        data=_told(after),
        clock="before",
        generation=policy.generation,
        stoppable=after.status in (Status.PENDING, Status.APPROVED),
        secrets=effect.secrets,
        budget=None if after.canary else policy.budget_for(after.request.agent),
    )


def _told(after: Record) -> JsonObject:
    """Return what the event of a vote says; that of an ending says what its decision says."""
    return {} if after.final else {"digest": after.digest, "votes": plain(after.votes)}


def posts(record: Record, policy: PolicyDocument) -> bool:
    """Whether cards are posted for a request."""
    request = record.request
    return bool(posted(policy.route_for(request.agent, request.tool).targets))


def queues_of(route: Route, owner: str | None, policy: PolicyDocument) -> tuple[str, ...]:
    """Return the outboxes that a request on this route concerns."""
    informed = [target for target in route.notify if target != REQUESTER]
    if REQUESTER in route.notify:
        informed += [
            one for person in policy.people if person.name == owner for one in person.identities
        ]
    shown = route.places(len(route.escalations))
    adapters = posted((*shown, *informed))
    waits = bool(posted(shown) or route.escalations or route.remind_after)
    return (*adapters, FOLLOWUPS) if waits else adapters
