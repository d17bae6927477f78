"""The desk that adapters work at: people's clicks and looks, and the steps of a waiting request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from gateway.approvals.grant_lifecycle import Shown
from gateway.approvals.grouping import HeldStore, Holding
from gateway.approvals.service import Approvals
from gateway.domain.clock import Clock
from gateway.domain.outcome import Outcome
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import (
    Claim,
    Click,
    Event,
    Identity,
    MessageRef,
    Page,
    Paused,
    Person,
    Query,
    Record,
    Session,
)
from gateway.domain.redaction import masked
from gateway.domain.statistics import Report
from gateway.domain.store import Store, Transition
from gateway.errors import Conflict, NotFound, Unauthorized
from gateway.models import Reason, Status
from gateway.policy.grants.grant import Grant, Shape
from gateway.ports.grant_cards import GrantCard
from gateway.ports.outgoing import GRANT, Copy, CopyState, Notes, Outbox
from gateway.wire.codec import JsonObject

_MOST_SHOWN, _MOST_ENDED = 500, 50
_MOST_STANDING = 10_000  # copies kept in mind


class FrontDesk:
    """A `gateway.ports.Desk`. One instance per adapter, because `notes` are the adapter's own."""

    def __init__(
        self,
        approvals: Approvals,
        store: Store,
        outbox: Outbox,
        clock: Clock,
        notes: Notes,
        held: HeldStore,
        *,
        inbox: str = "",
    ) -> None:
        self._approvals = approvals
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self.notes = notes
        self.inbox = inbox  # its address as people open it, '' without one
        self.holding = Holding(store, held, approvals.writer)
        self._standing: dict[tuple[str, str], MessageRef] = {}

    # ---------------------------------------------------------------- what people do

    async def decide(self, click: Click) -> Record:
        """Apply a click. See `gateway.ports.Desk` for what it raises."""
        if click.ref is not None:
            await self._recognise(click)
        return await self._approvals.decide(click)

    async def decide_all(self, clicks: Sequence[Click]) -> list[Record]:
        """Apply one person's clicks, all or none. See `gateway.ports.Desk` for what it raises."""
        return await self._approvals.decide_all(clicks)

    async def claim(self, request_id: str, identity: Identity, *, on: bool = True) -> Record:
        """Say that this person is looking at a request, or is not any more."""

        async def decide(record: Record) -> Transition | None:
            if record.unreviewed:
                raise NotFound("no such request")
            if record.final:
                raise Conflict("this was decided already")
            if refusal := await self.may_decide(identity, record):
                raise Unauthorized(refusal)
            name = (await self.policy()).name_of(identity)
            mine = record.claim is not None and record.claim.person == name
            if mine == on or (not on and record.claim is None):
                return None
            if not on and not mine:
                raise Conflict("someone else is looking at it")
            claim = Claim(person=name, at=self._clock.now_ms()) if on else None
            event = "claimed" if on else "unclaimed"
            return _step(record, replace(record, claim=claim), event, {"person": name})

        return (await self._approvals.writer.update(request_id, decide)).record

    async def reveal(self, request_id: str, identity: Identity) -> Record:
        """Return a request whose secrets this person is about to see, and write that down.

        Raises NotFound, Unauthorized.
        """
        return await self._approvals.revealing.reveal(request_id, identity)

    async def refuse(self, request_id: str, identity: Identity, why: str) -> None:
        """Write down that an adapter turned somebody away."""
        data = {"request_id": request_id, "why": _brief(why)}
        await self._store.note("refused", agent=identity.written, data=data)

    async def end_session(self, agent: str, session: str, identity: Identity) -> list[str]:
        """End an agent's session and cancel what waits in it; return the ids.

        Raises Unauthorized unless the person is an admin, or an approver of the agent.
        """
        return await self._approvals.end_session_as(identity, agent, session)

    async def paused(self) -> list[Paused]:
        """Return the agents that ask nobody for now, as people denied too much of them in a row."""
        return await self.holding.paused()

    async def lift(self, agent: str, identity: Identity) -> bool:
        """Let an agent ask again; return whether it was paused.

        Raises Unauthorized unless the person is an admin, or an approver of the agent.
        """
        return await self.holding.lift(agent, identity)

    async def stopped(self) -> bool:
        """Tell whether the kill switch is on."""
        return await self._store.stopped()

    async def stop_all(self, identity: Identity, *, on: bool) -> None:
        """Turn the kill switch on or off. See `gateway.ports.Desk` for what it raises."""
        policy = await self.current_policy()
        if not policy.is_admin(identity):
            data = {"why": "only an admin may use the kill switch"}
            await self._store.note("refused", agent=identity.written, data=data)
            raise Unauthorized("only an admin may stop everything, or lift that")
        if await self._store.stopped() != on:
            await self._store.set_stopped(on, by=policy.name_of(identity))

    async def grants(self, *, ended: bool = False) -> list[Grant]:
        """Return the newest remembered decisions with their uses, as many as people look at."""
        granted = self._approvals.granted
        if ended:
            return await granted.list_ended(_MOST_ENDED)
        return (await granted.page(after=None, limit=_MOST_SHOWN))[0]

    async def granted(self, grant_id: str) -> Shown | None:
        """Return what the copies of a remembered decision's card must show."""
        return await self._approvals.granted.view(grant_id)

    async def revocable(self, identity: Identity) -> list[Grant]:
        """Return those of the remembered decisions that this person may take back."""
        return await self._approvals.granted.revocable(identity, await self.grants())

    async def grant_card(self, grant_id: str) -> GrantCard:
        """Return the card of a remembered decision, also of one that ended. Raises NotFound."""
        shown = await self.granted(grant_id)
        if shown is None:
            raise NotFound("no such grant")
        return shown.card

    async def revoke(
        self, grant_id: str, identity: Identity, *, copy: str = "", ref: MessageRef | None = None
    ) -> Grant:
        """Take a remembered decision back. See `gateway.ports.Desk` for what it raises."""
        gone = await self._approvals.granted.revoke(grant_id, identity)
        if ref is not None:
            await self._adopt(GRANT + grant_id, copy, ref)
        return gone

    async def revoke_all(
        self, identity: Identity, *, agent: str | None = None, session: str | None = None
    ) -> list[Grant]:
        """Take back all that this person may, or an agent's, or a session's; return those."""
        return await self._approvals.granted.revoke_all(identity, agent=agent, session=session)

    async def let_through(
        self, agent: str, session: str, identity: Identity, *, edits: bool, hours: float
    ) -> Grant:
        """Let a session's file changes, or all that it does, through for some hours."""
        shape = Shape.EDITS if edits else Shape.ALL
        return await self._approvals.remembering.let_through(
            identity, agent=agent, session=session, shape=shape, hours=hours
        )

    async def reach(self, request_id: str, offer: str) -> str:
        """Say how many recent requests an offer would have covered, and what people said to
        those."""
        record = await self.get(request_id)
        return (await self._approvals.remembering.reach(record, offer)).words()

    async def get(self, request_id: str) -> Record:
        """Return a request; raises NotFound, also while policy hooks are asked about it."""
        record = await self._approvals.get(request_id)
        if record.unreviewed:
            raise NotFound("no such request")
        return record

    async def seen(self, request_id: str, revision: int) -> Record:
        """Return a request that a card shows at this revision. See `gateway.ports.Desk`."""
        known = self._store.recent(request_id)
        if known is not None and known.revision == revision and not known.unreviewed:
            return known
        return await self.get(request_id)

    async def page(self, query: Query) -> Page:
        """Return one page of requests, newest first; none that policy hooks are asked about."""
        page = await self._approvals.page(query)
        return replace(page, items=tuple(one for one in page.items if not one.unreviewed))

    async def sessions(self, agent: str | None) -> list[Session]:
        """Return the sessions that have not ended."""
        return await self._approvals.sessions(agent)

    async def may_decide(self, identity: Identity, record: Record) -> str | None:
        """Return None when this identity may decide the request, else the reason as a sentence."""
        return await self._approvals.may_decide(identity, record)

    async def report(self, identity: Identity) -> Report:
        """Return how people decided in the last 30 days. Raises Unauthorized for all but admins."""
        return await self._approvals.reporting.asked(identity)

    async def person(self, identity: Identity) -> Person | None:
        """Return the person whom an identity belongs to."""
        return (await self.policy()).person_of(identity)

    async def copies(self, request_id: str) -> dict[str, Copy]:
        """Return what is known of a request's posted copies."""
        return await self._outbox.copies(request_id)

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Subscribe to events from now on; entering has registered."""
        return self._approvals.changes()

    # ---------------------------------------------------------------- what time does

    async def policy(self) -> PolicyDocument:
        """Return the policy in force, as last read."""
        return await self._approvals.writer.policy()

    async def current_policy(self) -> PolicyDocument:
        """Return the policy in force now, even if the word of it is still on its way here."""
        if (await self.policy()).generation != await self._store.generation():
            self._approvals.forget_policy()
        return await self.policy()

    async def note(self, event: str, agent: str, about: JsonObject, copy: Copy, why: str) -> None:
        """Write down what became of a copy; it changes nothing of what the copy is about."""
        data = {**about, "target": copy.target}
        if copy.ref is not None:
            data["message"] = copy.ref.message
        if why:
            data["why"] = _brief(why)
        await self._store.note(event, agent=agent, data=data)

    async def progress(self, before: Record, after: Record, event: str, data: JsonObject) -> bool:
        """Take a step of a waiting request; False when it changed meanwhile."""
        return await self._approvals.writer.apply(_step(before, after, event, data))

    async def undeliverable(self, record: Record) -> None:
        """End a request that reached nobody, and tell the agent at once."""
        ending = Outcome(status=Status.DENIED, reason=Reason.UNDELIVERABLE)
        await self._approvals.writer.apply(self._approvals.writer.plan_end(record, ending))

    def stands(self, request_id: str, copy: Copy) -> None:
        """Keep in mind where a copy was posted, which never changes: its clicks need no look."""
        if copy.ref is not None:
            self._standing[request_id, copy.nonce] = copy.ref
        while len(self._standing) > _MOST_STANDING:
            del self._standing[next(iter(self._standing))]

    # ---------------------------------------------------------------- inside

    async def _recognise(self, click: Click) -> None:
        """Check that a click was made on a copy that we posted, where we posted it.

        A copy that was posted just before a crash is written down now. Raises Unauthorized.
        """
        if self._standing.get((click.request_id, click.copy or "")) == click.ref:
            return
        copies = (await self.copies(click.request_id)).values()
        copy = next((one for one in copies if one.nonce == click.copy and not one.outcome), None)
        if copy is not None and copy.ref == click.ref:
            self.stands(click.request_id, copy)
            return
        if copy is None or copy.ref is not None or click.ref is None:
            await self.refuse(click.request_id, click.identity, "not a card that we posted")
            raise Unauthorized("this is not a card that the gateway posted here")
        await self._adopt(click.request_id, copy.nonce, click.ref)

    async def _adopt(self, subject_id: str, nonce: str, ref: MessageRef) -> None:
        """Write down where a copy stands that was posted just before a crash."""
        for copy in (await self.copies(subject_id)).values():
            if copy.nonce == nonce and not copy.outcome and copy.ref is None:
                posted = replace(copy, state=CopyState.POSTED, ref=ref, revision=0)
                await self._outbox.put_copy(subject_id, posted, before=copy)
                await self._outbox.mark(ref.adapter, subject_id)


def _step(before: Record, after: Record, event: str, data: JsonObject) -> Transition:
    moved = replace(after, revision=before.revision + 1)
    return Transition(before=before, after=moved, event=event, data=data, clock="before")


def _brief(why: str) -> str:
    return str(masked(why))[:500]  # in this order: half a secret looks like none
