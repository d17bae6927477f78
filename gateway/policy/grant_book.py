"""The remembered decisions as the policy chain sees them: two links, denials above approvals.

What was read stays in memory for one generation of the policy. It can be out of date for a
moment, and then decides nothing: the script that stores the decision refuses another generation,
and a grant that was ended, has expired or is used up.
"""

from __future__ import annotations

from typing import Protocol

from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import StoredRequest
from gateway.domain.time_and_tasks import Clock
from gateway.models import DecidedBy, DeciderKind, Reason
from gateway.policy.authorization import holds_at_risk, is_backed, lets_through
from gateway.policy.chain import ALLOW, ASK, DENY
from gateway.policy.grants.coverage import covers, names_each, why_asked
from gateway.policy.grants.grant import PASSES, Effect, Grant, MatchResult, Outdated
from gateway.policy.guardrails import find_dangers
from gateway.policy.verdict import Decider, Verdict

DENY_PRIORITY, ALLOW_PRIORITY = 900, 500
PAGE = 200
_MOST_ENTRIES = 10_000

_Entry = tuple[int, tuple[Grant, ...]]


class GrantStore(Protocol):
    """Remembered decisions. Making one counts as a new generation of the policy, and so does
    ending one before its time."""

    async def add(self, grant: Grant) -> str:
        """Write a grant and its event. Results: OK, EXISTS (or ended before), FULL."""

    async def end(
        self,
        grant: Grant,
        *,
        why: str,
        by: str,
        only_spent: bool = False,
        announced: bool = False,
    ) -> bool:
        """Take a grant back, with `only_spent` one that expired or is used up; was it there?

        With `announced` its end is told beside its cards.
        """

    async def say(
        self, grant: Grant, field: str, *, before: str, after: str, event: str, announced: bool
    ) -> bool:
        """Note something about a live grant, if it stood as `before`; return whether it did."""

    async def mark_outdated(self, grant: Grant, outdated: Outdated) -> bool:
        """Suspend a live grant; return False when it changed meanwhile. No request finds it any
        more."""

    async def erase(self, grant: Grant) -> None:
        """Put a grant that ended in the place of what it covered."""

    async def get(self, grant_id: str) -> Grant | None:
        """Return a grant with its uses, None when it is not there any more."""

    async def find(self, grant_id: str) -> Grant | None:
        """Return a grant with its uses, also one that ended and is not forgotten yet."""

    async def about(self, agent: str, tool: str, digest: str) -> tuple[int, list[Grant]]:
        """Return the grants that may cover such a request, without their uses, and the generation
        they are of."""

    async def count(self) -> tuple[int, int]:
        """Return the generation, and how many grants there are in it."""

    async def page(self, *, after: str | None, limit: int) -> tuple[list[Grant], str | None]:
        """Return one page of grants with their uses, the newest first, and the next cursor."""

    async def list_ended(self, limit: int) -> list[Grant]:
        """Return the grants that ended last, the last one first."""

    async def of_session(self, agent: str, session: str) -> list[Grant]:
        """Return the grants that end with a session."""

    async def due(self, now: int, limit: int) -> tuple[list[Grant], list[Grant]]:
        """Return grants whose time is over at `now`, and those whose end is to be announced."""


async def every(store: GrantStore) -> list[Grant]:
    """Return all grants with their uses, the newest first."""
    found: list[Grant] = []
    cursor: str | None = None
    while True:
        grants, cursor = await store.page(after=cursor, limit=PAGE)
        found += grants
        if cursor is None:
            return found


class GrantBook:
    """Remembered decisions by what they may cover."""

    def __init__(self, store: GrantStore, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._entries: dict[tuple[str, str, str], _Entry] = {}
        self._spent: set[str] = set()
        self._limited: set[str] = set()
        self._policy = PolicyDocument()
        self._generation = -1
        self._counted = (-1, 0)

    @property
    def deciders(self) -> tuple[Decider, Decider]:
        """The two links of the chain."""
        return _Link(self, Effect.DENY, DENY_PRIORITY), _Allows(self, Effect.ALLOW, ALLOW_PRIORITY)

    def at(self, policy: PolicyDocument) -> None:
        """Use only what is of this policy's generation from now on."""
        if policy.generation != self._generation:
            self._generation = policy.generation
            self._entries.clear()
        self._policy = policy

    def spend(self, grant_id: str) -> None:
        """Never use this grant again: the server says that it is over."""
        self._spent.add(grant_id)

    def is_limited(self, grant_id: str) -> bool:
        """Whether a grant that was seen here may be used so many times only."""
        return grant_id in self._limited

    async def about(self, record: StoredRequest) -> tuple[Grant, ...]:
        """Return the grants that may cover a record, the session's first."""
        if await self._empty():
            return ()
        request = record.request
        key = (request.agent, request.tool, record.digest)
        found = self._entries.get(key)
        if found is None or found[0] != self._generation:
            generation, grants = await self.store.about(*key)
            speaking = (one for one in grants if is_backed(self._policy, one))
            found = generation, tuple(sorted(speaking, key=_narrow_first))
            self._limited |= {one.id for one in grants if one.max_uses is not None}
            while len(self._entries) >= _MOST_ENTRIES:
                self._entries.pop(next(iter(self._entries)))
            self._entries[key] = found
        now = self._clock.now_ms()
        return tuple(one for one in found[1] if one.live(now) and one.id not in self._spent)

    def redeclare(self, record: StoredRequest) -> StoredRequest:
        """Return the record as this policy declares its tool, whatever was declared before."""
        return self._policy.declare(record)

    def fit(self, grant: Grant, record: StoredRequest, route: Route) -> bool:
        """Whether a grant may decide a request of this risk, and a pass, whose requests nobody
        sees, one like this."""
        if not holds_at_risk(self._policy, grant, record, route):
            return False
        own = self._policy.own_domains
        if grant.match.shape not in PASSES:
            return names_each(grant, record, own)
        return lets_through(self._policy, grant, record, route) and not find_dangers(record, own)

    async def _empty(self) -> bool:
        """Tell whether nothing is remembered: then nothing need be looked up for each request."""
        if self._counted[0] != self._generation:
            self._counted = await self.store.count()
        return self._counted == (self._generation, 0)


class _Link:
    """All remembered denials, or all remembered approvals, as one decider."""

    def __init__(self, book: GrantBook, effect: Effect, priority: int) -> None:
        self._book = book
        self._effect = effect
        self.name = f"remembered {effect.value}"
        self.priority = priority
        self.seconds = None

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Answer with the first grant that covers the request."""
        record = self._book.redeclare(record)
        mine = [one for one in await self._book.about(record) if one.effect is self._effect]
        mine = [one for one in mine if self._book.fit(one, record, route)]
        covered = [(covers(grant, record), grant) for grant in mine]
        for cover, grant in covered:
            if cover is MatchResult.YES:
                effect = DENY if self._effect is Effect.DENY else ALLOW
                return _cite(effect, grant, grant.told or grant.match.scope.value)
        for cover, grant in covered:
            if cover is MatchResult.UNSURE:
                return _cite(ASK, grant, "may be what a remembered denial covers")
        return None


class _Allows(_Link):
    """The remembered approvals, which can tell what kept them from covering a request."""

    async def asks_because(self, record: StoredRequest) -> str:
        """Return what kept the nearest remembered approval of the tool from covering it."""
        record = self._book.redeclare(record)
        near = [one for one in await self._book.about(record) if one.effect is Effect.ALLOW]
        return why_asked(near, record)


def _cite(effect: str, grant: Grant, message: str) -> Verdict:
    # Agents and the audit read the message: nothing of what the grant covers stands in it, but
    # what they were told when it was denied.
    by = DecidedBy(kind=DeciderKind.GRANT, name=grant.id)
    return Verdict(effect=effect, by=by, reason=Reason.GRANT, message=message)


def _narrow_first(grant: Grant) -> tuple[bool, bool, int]:
    return grant.match.shape in PASSES, grant.session is None, grant.made_at
