"""Makes, lists and ends remembered decisions, and lets a new one settle what already waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from gateway.authority import Approver, requesters
from gateway.book import GrantBook
from gateway.canonical import sha256_hex
from gateway.clock import Clock
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized
from gateway.grants.blast import Blast, blast
from gateway.grants.grant import ANY_TOOL, PASSES, Cover, Effect, Grant, Match, Shape
from gateway.grants.matching import covers
from gateway.grants.offers import HOUR_MS, LIFETIMES, Offer, narrowest, offered
from gateway.judging import judged
from gateway.models import Action, DeciderKind, Status, new_id
from gateway.names import REQUEST_ID
from gateway.policy import Chain
from gateway.records import Click, Identity, Query, Record
from gateway.rulebook import PolicyDocument, named
from gateway.storage import Outcome, Store, Transition
from gateway.writer import Writer

RECENT = 500  # how far back a grant's reach is counted
_PAGE = 200
_DAY_SECONDS = 24 * 3600
_UNUSED_MS = 30 * _DAY_SECONDS * 1000
_ID_LENGTH = 32
_REMEMBERED = {
    Action.APPROVE: Effect.ALLOW,
    Action.EDIT: Effect.ALLOW,
    Action.DENY: Effect.DENY,
    Action.ABORT: Effect.DENY,
}


class Remembering:
    """What people remember. Agents have no way in here."""

    def __init__(
        self, store: Store, book: GrantBook, chain: Chain, clock: Clock, writer: Writer
    ) -> None:
        self._store = store
        self._book = book
        self._chain = chain
        self._clock = clock
        self._writer = writer

    # ---------------------------------------------------------------- made by a click

    def planned(
        self, policy: PolicyDocument, after: Record, click: Click, who: Approver, nonce: str
    ) -> Grant | None:
        """Return the grant that a click asks for, None when it asks for none.

        Raises InvalidRequest or Unauthorized when it may not be remembered so; nothing is decided
        then either.
        """
        wish = click.remember
        if wish is None:
            return None
        effect = _REMEMBERED.get(click.action)
        if effect is None:
            raise InvalidRequest(f"{click.action} cannot be remembered")
        if not after.final:
            raise InvalidRequest("others must approve too: only the last of them can remember it")
        offer = _chosen(after, wish.offer, effect)
        if wish.everywhere and effect is Effect.ALLOW and who.name in requesters(policy, after):
            raise Unauthorized("who asked may remember it for the session only")
        now = self._clock.now_ms()
        return Grant(
            id=sha256_hex(f"{after.id} {nonce}".encode())[:_ID_LENGTH],
            effect=effect,
            agent=after.request.agent,
            session=None if wish.everywhere else after.request.session,
            match=offer.match,
            made_by=who.name,
            made_at=now,
            expires_at=_expiry(wish.lifetime, now),
            max_uses=wish.max_uses,
            from_request=after.id,
            words=offer.words,
        )

    async def keep(self, grant: Grant) -> Grant:
        """Write a grant, then let it settle what waits. Kept twice, it is made once."""
        outcome = await self._book.store.add(grant)
        if outcome == Outcome.FULL:
            raise Conflict("there are too many grants for this tool; revoke some, or make it exact")
        self._writer.forget_policy()
        if outcome == Outcome.OK:
            await self._settle(grant)
        return grant

    async def _settle(self, grant: Grant) -> None:
        """Decide the waiting requests that the whole policy, with this grant, now decides by it."""
        waiting = await self._store.pending_of(grant.agent)
        for begin in range(0, len(waiting), _PAGE):
            for record in await self._store.load_many(waiting[begin : begin + _PAGE]):
                # Most that waits has nothing to do with it, and need not be judged again.
                if record and not record.final and covers(grant, record) is Cover.YES:
                    await self._settle_one(record, grant)
        if grant.max_uses is not None:
            await self.retire(grant.id)

    async def _settle_one(self, record: Record, grant: Grant) -> None:
        policy = await self._writer.policy()
        found, ending = await judged(self._chain, record, policy)
        if ending is None or found != record:
            return
        if (ending.by.kind, ending.by.name) != (DeciderKind.GRANT, grant.id):
            return
        after = self._writer.ended(record, ending, revision=record.revision + 1)
        await self._store.change(
            Transition(
                before=record,
                after=after,
                event=after.status.value,
                clock="before",
                generation=policy.generation,
                stoppable=after.status is Status.APPROVED,
            )
        )

    # ---------------------------------------------------------------- seen and taken back

    async def create(
        self,
        identity: Identity,
        *,
        agent: str,
        effect: Effect,
        match: Match,
        words: str,
        session: str | None = None,
        lifetime: str = "1h",
        max_uses: int | None = None,
    ) -> Grant:
        """Write a grant that no request asked for; raises Unauthorized unless an admin does it."""
        person = (await self._fresh()).person_of(identity)
        if person is None or not person.admin:
            raise Unauthorized("only an admin may make a grant without a request")
        now = self._clock.now_ms()
        grant = Grant(
            id=new_id(),
            effect=effect,
            agent=agent,
            session=session,
            match=match,
            made_by=person.name,
            made_at=now,
            expires_at=_expiry(lifetime, now),
            max_uses=max_uses,
            words=words,
        )
        return await self.keep(grant)

    async def let_through(
        self,
        identity: Identity,
        *,
        agent: str,
        session: str,
        shape: Shape,
        hours: float,
        max_uses: int | None = None,
    ) -> Grant:
        """Give a session a pass, in place of an earlier one of this shape.

        Raises Unauthorized unless an admin does it, or someone who may approve on every route of
        the agent.
        """
        by = _may_pass(await self._fresh(), agent, identity)
        if shape not in PASSES:
            raise InvalidRequest("a pass is for edits or for all")
        known = await self._book.store.of_session(agent, session)
        earlier = [one for one in known if one.match.shape is shape]
        now = self._clock.now_ms()
        grant = Grant(
            id=new_id(),
            effect=Effect.ALLOW,
            agent=agent,
            session=session,
            match=Match(shape=shape, tool=ANY_TOOL),
            made_by=by,
            made_at=now,
            expires_at=now + int(hours * HOUR_MS),
            max_uses=max_uses,
            words=_PASS_WORDS[shape],
        )
        await self._end(earlier, "replaced", by)
        return await self.keep(grant)

    async def get(self, grant_id: str) -> Grant:
        """Return a grant with its uses; raises NotFound."""
        found = await self._book.store.get(grant_id) if REQUEST_ID.fullmatch(grant_id) else None
        if found is None:
            raise NotFound("no such grant")
        return found

    async def page(self, *, after: str | None, limit: int) -> tuple[list[Grant], str | None]:
        """Return one page of grants, the newest first, and the cursor of the next."""
        return await self._book.store.page(after=after, limit=limit)

    async def all(self, agent: str | None = None, session: str | None = None) -> list[Grant]:
        """Return all grants, or an agent's, or those of one session, the newest first."""
        found: list[Grant] = []
        cursor: str | None = None
        while True:
            grants, cursor = await self.page(after=cursor, limit=_PAGE)
            found += grants
            if cursor is None:
                break
        return [
            one for one in found if agent in (None, one.agent) and session in (None, one.session)
        ]

    async def revoke(self, grant_id: str, identity: Identity) -> Grant:
        """Take a grant back: from then on it decides nothing. Raises NotFound, Unauthorized."""
        grant = await self.get(grant_id)
        by = may_end(await self._fresh(), grant, identity)
        await self._end([grant], "revoked", by)
        return grant

    async def revoke_all(
        self, identity: Identity, *, agent: str | None = None, session: str | None = None
    ) -> list[Grant]:
        """Take back all grants, or those of an agent or a session, that this person may end."""
        policy, mine = await self._fresh(), []
        for grant in await self.all(agent, session):
            with suppress(Unauthorized):
                may_end(policy, grant, identity)
                mine.append(grant)
        return await self._end(mine, "revoked", identity.written)

    async def _end(self, grants: Iterable[Grant], why: str, by: str) -> list[Grant]:
        end = self._book.store.end
        gone = [grant for grant in grants if await end(grant, _ended(grant, why, by))]
        self._writer.forget_policy()
        return gone

    async def _fresh(self) -> PolicyDocument:
        self._writer.forget_policy()
        return await self._writer.policy()

    async def end_session(self, agent: str, session: str) -> None:
        """Drop the grants of a session that ended."""
        grants = await self._book.store.of_session(agent, session)
        if grants:
            await self._end(grants, "session ended", "gateway")

    async def dismiss(self, agent: str) -> None:
        """Drop what an agent was let do, now that it was revoked. What it is denied stays so."""
        allowed = [one for one in await self.all(agent) if one.effect is Effect.ALLOW]
        await self._end(allowed, "agent revoked", "gateway")

    async def forget_all(self, why: str) -> None:
        """Drop every grant there is."""
        await self._end(await self.all(), why, "gateway")

    async def drop_unused(self) -> None:
        """Announce and drop the grants without an end that nobody used for 30 days."""
        since = self._clock.now_ms() - _UNUSED_MS
        idle = [
            grant
            for grant in await self.all()
            if grant.expires_at is None and (grant.last_used or grant.made_at) < since
        ]
        await self._end(idle, "unused for 30 days", "gateway")

    async def run(self) -> None:
        """Look once a day for grants that nobody uses, until cancelled. Replicas may all do so."""
        while True:
            await self.drop_unused()
            await asyncio.sleep(_DAY_SECONDS)

    async def sweep(self, limit: int) -> None:
        """Announce and drop the grants whose time is over."""
        for grant in await self._book.store.expired(limit):
            data = _ended(grant, "expired", "gateway")
            await self._book.store.end(grant, data, only_spent=True)

    async def retire(self, grant_id: str) -> None:
        """Announce and drop a grant, if its last use was just made."""
        grant = await self._book.store.get(grant_id)
        if grant is not None and grant.uses_left == 0:
            data = _ended(grant, "used up", "gateway")
            await self._book.store.end(grant, data, only_spent=True)

    async def reach(self, record: Record, offer_id: str) -> Blast:
        """Return what remembering an approval so would have covered among the recent requests.

        Raises InvalidRequest when there is no such offer.
        """
        offer = _chosen(record, offer_id, Effect.ALLOW)
        agent = record.request.agent
        recent: list[Record] = []
        query = Query(final=True, agent=agent, limit=100)
        while len(recent) < RECENT:
            page = await self._store.page(query)
            recent += page.items
            if page.next is None:
                break
            query = replace(query, after=page.next)
        return blast(offer.match, agent, recent[:RECENT])


def may_end(policy: PolicyDocument, grant: Grant, identity: Identity) -> str:
    """Return the name of someone who may end a grant: an admin, its maker, an approver there.

    Raises Unauthorized.
    """
    person = policy.person_of(identity)
    name = person.name if person else identity.written
    route = policy.route_for(grant.agent, grant.match.tool)
    admitted = {name, identity.written, *identity.groups} & set(route.approvers)
    if not admitted and not (person is not None and person.admin) and name != grant.made_by:
        raise Unauthorized("only an admin or an approver of this agent may end its grants")
    return name


_PASS_WORDS = {
    Shape.EDITS: "all changes of files below where the agent works, but for delicate ones",
    Shape.ALL: "everything but high risk, secrets and what looks destructive",
}


def _may_pass(policy: PolicyDocument, agent: str, identity: Identity) -> str:
    person = policy.person_of(identity)
    name = person.name if person else identity.written
    routes = [route for route in policy.routes if named(route.agents, agent)]
    known = {name, identity.written, *identity.groups}
    everywhere = bool(routes) and all(known & set(route.approvers) for route in routes)
    if not everywhere and not (person is not None and person.admin):
        raise Unauthorized("only an admin, or who may approve all of this agent's requests, may")
    return name


def _expiry(lifetime: str, now: int) -> int | None:
    lengths = {name: length for name, _, length in LIFETIMES}
    if lifetime not in lengths:
        raise InvalidRequest(f"a grant lasts one of {', '.join(lengths)}")
    length = lengths[lifetime]
    return None if length is None else now + length


def _chosen(record: Record, offer_id: str, effect: Effect) -> Offer:
    made = offered(record, offer_id, effect) if offer_id else narrowest(record, effect)
    if made is None:
        raise InvalidRequest("this cannot be remembered so")
    return made


def _ended(grant: Grant, why: str, by: str) -> dict[str, object]:
    return {"why": why, "by": by, "words": grant.words, "used": grant.used}
