"""Handle grants after their creation: cards, notices, suspension and end (`GrantLifecycle`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from gateway.approvals.policy_changes import OutdatedGrants, route_of, tally
from gateway.approvals.request_writer import Writer
from gateway.cards.grant_cards import GrantCard, grant_card_of
from gateway.domain.records import Query, StoredRequest
from gateway.domain.store import Store
from gateway.domain.time_and_tasks import Clock
from gateway.errors import NotFound
from gateway.models import DeciderKind
from gateway.policy.authorization import is_backed
from gateway.policy.grant_book import GrantBook, every
from gateway.policy.grants.coverage import MatchPreview, blast
from gateway.policy.grants.grant import PASSES, Effect, Grant, Match, Rule, RuleKind
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.schema import REQUEST_ID

RECENT = 500  # how many past requests a preview of matches reads
_ALL_ENDED = 1_000_000
_GATEWAY = "gateway"
_DAY_SECONDS = 24 * 3600
_UNUSED_MS = 30 * _DAY_SECONDS * 1000
_ID_LENGTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantView:
    """The content of a grant's cards, and the places where they are posted.

    `news` is the card that contains the latest notice.
    """

    grant: Grant
    card: GrantCard
    news: GrantCard
    places: tuple[str, ...]


class GrantLifecycle:
    """Handles existing grants. Agents cannot call these methods."""

    def __init__(
        self,
        store: Store,
        book: GrantBook,
        clock: Clock,
        writer: Writer,
    ) -> None:
        self._store = store
        self._book = book
        self._clock = clock
        self._writer = writer
        self._outdated = OutdatedGrants(store, book, clock, writer)
        self._policy_changed = asyncio.Event()

    # ---------------------------------------------------------------- seen

    async def get(self, grant_id: str) -> Grant:
        """Return a grant with its number of uses, even if it ended recently. Raises NotFound."""
        known = await self._book.store.find(grant_id) if REQUEST_ID.fullmatch(grant_id) else None
        if known is None:
            raise NotFound("there is no such grant")
        return known

    async def page(self, *, after: str | None, limit: int) -> tuple[list[Grant], str | None]:
        """Return one page of grants, newest first, and the cursor of the next page."""
        return await self._book.store.page(after=after, limit=limit)

    async def all(self, agent: str | None = None, session: str | None = None) -> list[Grant]:
        """Return all grants, or those of one agent or session, newest first."""
        found = await every(self._book.store)
        return [
            one for one in found if agent in (None, one.agent) and session in (None, one.session)
        ]

    async def view(self, grant_id: str) -> GrantView | None:
        """Return the current content of a grant's cards, or None if the grant was deleted."""
        grant = await self._book.store.find(grant_id)
        if grant is None:
            return None
        record = await self._store.load(grant.from_request) if grant.from_request else None
        reach = ""
        if grant.end is None and record is not None:
            reach = (await self.count_reach(grant.match, grant.agent, grant.session)).words()
        policy = await self._writer.policy()
        route = policy.route_for(grant.agent, grant.match.tool)
        card = news = grant_card_of(grant, record, reach=reach)
        if grant.end is None and grant.outdated is not None and grant.outdated.announced:
            # The notice covers all suspended grants of its route.
            said = tally(policy, route_of(policy, grant), await self.all())
            news = replace(card, notices=(said,))
        places = policy.ruling_on(record.request).places(record) if record else route.places(0)
        return GrantView(grant=grant, card=card, news=news, places=places)

    async def count_reach(self, match: Match, agent: str, session: str | None) -> MatchPreview:
        """Return the recent requests that such a grant would have covered."""
        recent: list[StoredRequest] = []
        query = Query(final=True, agent=agent, limit=100)
        while len(recent) < RECENT:
            page = await self._store.page(query)
            recent += page.items
            if page.next is None:
                break
            query = replace(query, after=page.next)
        if match.shape not in PASSES:
            session = None  # the preview covers all sessions
        return blast(match, agent, recent[:RECENT], session)

    async def erase(self, record: StoredRequest, *, by: str) -> None:
        """Revoke the grants that were created from a request, and delete their stored arguments.

        Idempotent. A grant from a click is found by the click's nonce; grants that an admin created
        are found by searching all grants.
        """
        ids = [record.id, *(grant_id_of(record.id, nonce) for nonce in record.nonces)]
        clicked = [await self._book.store.find(one) for one in ids]
        kept = [*await self.all(), *await self._book.store.list_ended(_ALL_ENDED)]
        by_hand = [one for one in kept if one.from_request == record.id]
        found = {one.id: one for one in (*clicked, *by_hand) if one is not None}
        for grant in found.values():
            if not grant.erased:
                await self.end([grant], "the content of its request was erased", by)
                await self._book.store.erase(_erase_content(grant))

    # ---------------------------------------------------------------- announced and taken back

    async def end(
        self, grants: Iterable[Grant], why: str, by: str, *, announced: bool = False
    ) -> list[Grant]:
        """End grants and return those that were active. With `announced`, post a notice at each
        grant's card."""
        end = self._book.store.end
        gone = [one for one in grants if await end(one, why=why, by=by, announced=announced)]
        self._writer.forget_policy()
        return gone

    async def end_session(self, agent: str, session: str) -> None:
        """End the grants of an ended session."""
        grants = await self._book.store.of_session(agent, session)
        if grants:
            await self.end(grants, "session ended", _GATEWAY)

    async def dismiss(self, agent: str) -> None:
        """End the approving grants of a revoked agent. Its deny grants stay active."""
        allowed = [one for one in await self.all(agent) if one.effect is Effect.ALLOW]
        await self.end(allowed, "agent revoked", _GATEWAY)

    async def forget_all(self, why: str) -> None:
        """End every grant."""
        await self.end(await self.all(), why, _GATEWAY)

    async def suspend_outdated(self) -> None:
        """Suspend grants that depend on declarations that changed."""
        await self._outdated.look(await self.all())

    async def look_over(self) -> None:
        """End grants without expiry that were unused for 30 days since creation or suspension.
        Suspend grants whose creators may no longer approve on the grant's route."""
        policy, since = await self._writer.fresh_policy(), self._clock.now_ms() - _UNUSED_MS
        for grant in await self.all():
            if grant.told:  # a short denial ends soon, whoever may still deny
                continue
            last = grant.outdated.at if grant.outdated else grant.last_used or grant.made_at
            if grant.expires_at is None and last < since:
                spoke = grant.outdated is None
                await self.end([grant], "unused for 30 days", _GATEWAY, announced=spoke)
            elif grant.outdated is None and grant.suspended == is_backed(policy, grant):
                await self._suspend(grant, on=not grant.suspended)
            await asyncio.sleep(0)

    def policy_changed(self) -> None:
        """Make `run` check all grants now, because the policy changed."""
        self._policy_changed.set()

    async def run(self) -> None:
        """Check all grants once a day and after each policy change, until cancelled. All replicas
        may run it."""
        while True:
            self._policy_changed.clear()
            await self.suspend_outdated()
            await self.look_over()
            with suppress(TimeoutError):
                async with asyncio.timeout(_DAY_SECONDS):
                    await self._policy_changed.wait()

    async def sweep(self, now: int, limit: int) -> None:
        """Announce grants that expire soon, and end those that expired at `now`."""
        over, ending = await self._book.store.due(now, limit)
        for grant in over:
            await self._book.store.end(grant, why="expired", by=_GATEWAY, only_spent=True)
        for grant in ending:
            await self._book.store.say(
                grant, "warned", before="", after="1", event="grant_ending", announced=True
            )

    async def retire_used(self, record: StoredRequest) -> None:
        """End the grant that made this decision if that was its last use."""
        by = record.decision and record.decision.decided_by
        if by and by.kind is DeciderKind.GRANT and self._book.is_limited(by.name):
            await self.retire(by.name)

    async def retire(self, grant_id: str) -> None:
        """End a grant if its last use was just made."""
        grant = await self._book.store.get(grant_id)
        if grant is not None and grant.uses_left == 0:
            await self._book.store.end(grant, why="used up", by=_GATEWAY, only_spent=True)

    # ---------------------------------------------------------------- inside

    async def _suspend(self, grant: Grant, *, on: bool) -> None:
        event, before, after = ("grant_suspended", "", "1") if on else ("grant_resumed", "1", "")
        say = self._book.store.say
        await say(grant, "suspended", before=before, after=after, event=event, announced=False)


def grant_id_of(request_id: str, nonce: str) -> str:
    """Return the ID of the grant that a click creates. It is the same each time the click is
    sent."""
    return sha256_hex(f"{request_id} {nonce}".encode())[:_ID_LENGTH]


def _erase_content(grant: Grant) -> Grant:
    """Return a grant with the names of its arguments, but without their values."""
    rules = tuple(Rule(name=rule.name, kind=RuleKind.ANY) for rule in grant.match.rules)
    match = replace(grant.match, rules=rules, cwd=None, host=None)
    return replace(grant, match=match, words="", told="", erased=True)
