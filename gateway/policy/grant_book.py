"""Decide requests by grants, as deciders of the policy chain. Start reading at `GrantBook`.

Grants stay in memory for one generation of the policy. A stale entry cannot decide a request. The
script that stores the decision rejects an old generation, and a grant that has ended or is used up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.domain.policy_document import PolicyDocument, PolicyRule, Route, RuleEffect
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import quote_start
from gateway.domain.risk import is_named
from gateway.domain.time_and_tasks import Clock
from gateway.models import DecidedBy, DeciderKind, Kind, Reason
from gateway.policy.authorization import holds_at_risk, is_backed, lets_through
from gateway.policy.chain import ALLOW, ASK, DENY
from gateway.policy.grants.coverage import covers, names_each, why_asked, why_unplanned
from gateway.policy.grants.grant import (
    ANY_TOOL,
    OF_ALL_TOOLS,
    PASSES,
    Effect,
    Grant,
    MatchResult,
    Outdated,
)
from gateway.policy.grants.line_parts import Part, part_is_covered, split, way_is_covered
from gateway.policy.guardrails import find_dangers
from gateway.policy.rules import fits
from gateway.policy.verdict import Decider, Verdict

DENY_PRIORITY, ALLOW_PRIORITY, LINE_PRIORITY = 900, 500, 200
PAGE = 200
_MOST_TOLD, _LONGEST_PART = 3, 80  # new parts of a line that are named, and characters of each
_MOST_ENTRIES = 10_000

_Entry = tuple[int, tuple[Grant, ...]]


class GrantStore(Protocol):
    """Stores grants. Creating a grant, or ending a grant early, starts a new generation of the
    policy."""

    async def add(self, grant: Grant) -> str:
        """Write a grant and its event. Results: OK, EXISTS (also if the grant existed and ended),
        FULL."""

    async def end(
        self,
        grant: Grant,
        *,
        why: str,
        by: str,
        only_spent: bool = False,
        announced: bool = False,
    ) -> bool:
        """End a grant and return whether it was active. With `only_spent`, end it only if it has
        expired or is used up.

        With `announced`, a message about the end is also posted at its cards.
        """

    async def say(
        self, grant: Grant, field: str, *, before: str, after: str, event: str, announced: bool
    ) -> bool:
        """Set a field of an active grant if its value was `before`; return whether it was."""

    async def mark_outdated(self, grant: Grant, outdated: Outdated | None) -> bool:
        """Suspend an active grant, so that no request finds it; with None, make it active again.
        Return False if the grant changed meanwhile."""

    async def erase(self, grant: Grant) -> None:
        """Erase what an ended grant covered, and keep its other data."""

    async def get(self, grant_id: str) -> Grant | None:
        """Return an active grant with its uses, or None."""

    async def find(self, grant_id: str) -> Grant | None:
        """Return a grant with its uses, even if it has ended, as long as it is stored."""

    async def about(self, agent: str, tool: str, digest: str) -> tuple[int, list[Grant]]:
        """Return the generation, and the grants that may cover a call with this tool and digest,
        without their uses."""

    async def count(self) -> tuple[int, int]:
        """Return the generation, and the number of grants in it."""

    async def page(self, *, after: str | None, limit: int) -> tuple[list[Grant], str | None]:
        """Return one page of grants with their uses, newest first, and the next cursor."""

    async def list_ended(self, limit: int) -> list[Grant]:
        """Return the grants that ended last, the most recent first."""

    async def of_session(self, agent: str, session: str, *, denials: bool = True) -> list[Grant]:
        """Return the grants that end with a session, with or without plain denials (`denials`)."""

    async def due(self, now: int, limit: int) -> tuple[list[Grant], list[Grant]]:
        """Return the grants that have expired at `now`, and those whose end must be announced."""


async def every(store: GrantStore) -> list[Grant]:
    """Return all grants with their uses, newest first."""
    found: list[Grant] = []
    cursor: str | None = None
    while True:
        grants, cursor = await store.page(after=cursor, limit=PAGE)
        found += grants
        if cursor is None:
            return found


class GrantBook:
    """Caches grants, and finds those that may cover a request."""

    def __init__(self, store: GrantStore, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._entries: dict[tuple[str, str, str], _Entry] = {}
        self._spent: set[str] = set()
        self._limited: set[str] = set()
        self.policy = PolicyDocument()
        self._generation = -1
        self._counted = (-1, 0)

    @property
    def deciders(self) -> tuple[Decider, ...]:
        """The deciders: deny grants, grants that allow, and grants that allow each part of a
        command line."""
        return (_Link(self, Effect.DENY, DENY_PRIORITY),
                _Allows(self, Effect.ALLOW, ALLOW_PRIORITY), _Lines(self))  # fmt: skip

    def at(self, policy: PolicyDocument) -> None:
        """Use this policy from now on, and forget entries of another generation."""
        if policy.generation != self._generation:
            self._generation = policy.generation
            self._entries.clear()
        self.policy = policy

    def spend(self, grant_id: str) -> None:
        """Never use this grant again, because the server reported that it has ended."""
        self._spent.add(grant_id)

    def is_limited(self, grant_id: str) -> bool:
        """Return whether a grant that was read before has a limited number of uses."""
        return grant_id in self._limited

    async def about(self, record: StoredRequest) -> tuple[Grant, ...]:
        """Return the grants that may cover a record, those for its session first."""
        request = record.request
        key = (request.agent, request.tool, record.digest)
        return await self._recall(key, lambda: self.store.about(*key))

    async def changing_files(self, agent: str) -> tuple[Grant, ...]:
        """Return an agent's grants for file changes with any tool, deny grants included."""

        async def look() -> tuple[int, list[Grant]]:
            generation = self._generation
            mine = [one for one in await every(self.store) if one.agent == agent]
            return generation, [one for one in mine if _is_about_files(one)]

        return await self._recall((agent, "", ""), look)

    async def _recall(
        self, key: tuple[str, str, str], look: Callable[[], Awaitable[tuple[int, list[Grant]]]]
    ) -> tuple[Grant, ...]:
        """Return the usable grants under a key from the cache, or call `look` for them."""
        if await self.is_empty():
            return ()
        found = self._entries.get(key)
        if found is None or found[0] != self._generation:
            generation, grants = await look()
            speaking = (one for one in grants if is_backed(self.policy, one))
            found = generation, tuple(sorted(speaking, key=_narrow_first))
            self._limited |= {one.id for one in grants if one.max_uses is not None}
            while len(self._entries) >= _MOST_ENTRIES:
                self._entries.pop(next(iter(self._entries)))
            self._entries[key] = found
        now = self._clock.now_ms()
        return tuple(one for one in found[1] if one.live(now) and one.id not in self._spent)

    async def planned(self, record: StoredRequest) -> list[Grant]:
        """Return the unused plan lines of a record's session."""
        if await self.is_empty():
            return []
        request, now = record.request, self._clock.now_ms()
        known = await self.store.of_session(request.agent, request.session, denials=False)
        return [one for one in known if one.line is not None and one.live(now)]

    def redeclare(self, record: StoredRequest) -> StoredRequest:
        """Return the record with its tool's declarations replaced by this policy's."""
        return self.policy.declare(record)

    def fit(self, grant: Grant, record: StoredRequest, route: Route) -> bool:
        """Return whether a grant may decide a request of this risk. Session passes and plans are
        also checked for dangers, because nobody sees their requests."""
        if not holds_at_risk(self.policy, grant, record, route):
            return False
        own = self.policy.own_domains
        if grant.match.shape not in OF_ALL_TOOLS and grant.line is None:
            return names_each(grant, record, own)
        return lets_through(self.policy, grant, record, route) and not find_dangers(record, own)

    async def is_empty(self) -> bool:
        """Return whether there are no grants, so that no request needs a lookup."""
        if self._counted[0] != self._generation:
            self._counted = await self.store.count()
        return self._counted == (self._generation, 0)


class _Link:
    """Decides with all deny grants, or with all grants that allow."""

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
                planned = f"line {grant.line} of a plan" if grant.line else ""
                return _cite(effect, grant, grant.told or planned or grant.match.scope.value)
        for cover, grant in covered:
            if cover is MatchResult.UNSURE:
                return _cite(ASK, grant, "a deny grant may cover this request")
        return None


class _Allows(_Link):
    """Decides with grants that allow, and can return why none covered a request."""

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Answer with the first grant that covers the request, unless a deny grant matches a part
        of the request."""
        verdict = await super().decide(record, route)
        if verdict is not None and await _Lines(self._book).refuses(record):
            return None
        return verdict

    async def asks_because(self, record: StoredRequest) -> str:
        """Return why the grant that comes nearest, of those for this tool, does not cover the
        request."""
        if said := await _Lines(self._book).tell_new(record):
            return said
        record = self._book.redeclare(record)
        near = [one for one in await self._book.about(record) if one.effect is Effect.ALLOW]
        planned = await self._book.planned(record)
        return why_unplanned(planned, record) if planned else why_asked(near, record)


class _Lines:
    """Allows command lines if a grant or rule covers each part."""

    name = "remembered approvals of each part"
    priority = LINE_PRIORITY
    seconds = None

    def __init__(self, book: GrantBook) -> None:
        self._book = book

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Allow a line by the grant that ends first; the message names the other grants.

        A decision counts only one use, so at most one of the grants may have limited uses."""
        covered = await self._cover(record)
        if not covered or any(one is None for _, one in covered):
            return None
        by_rules = [one.name for _, one in covered if isinstance(one, PolicyRule)]
        grants = list({one.id: one for _, one in covered if isinstance(one, Grant)}.values())
        limited = [one for _, one in covered if isinstance(one, Grant) and one.max_uses is not None]
        if len(limited) > 1:
            return None
        if not grants:
            by = DecidedBy(kind=DeciderKind.RULE, name=by_rules[0])
            return Verdict(effect=ALLOW, by=by, message=_each(by_rules[1:]))
        first = min(limited or grants, key=lambda one: (one.expires_at is None, one.expires_at))
        others = [one.id for one in grants if one is not first]
        return _cite(ALLOW, first, _each([*others, *by_rules]))

    async def refuses(self, record: StoredRequest) -> bool:
        """Return whether a deny grant, or a rule that denies or asks, matches a part of a line."""
        calls = [one for part in split(self._book.redeclare(record))
                 for way in part.ways for one in way]  # fmt: skip
        return any([await self._is_refused(one) for one in calls])

    async def tell_new(self, record: StoredRequest) -> str:
        """Return which parts of a line no grant covers, if grants cover other parts."""
        covered = await self._cover(record)
        new = list(dict.fromkeys(part.text for part, one in covered if one is None))
        if not new or all(one is None for _, one in covered):
            return ""
        said = ", ".join(quote_start(one, _LONGEST_PART) for one in new[:_MOST_TOLD])
        more = f" and {len(new) - _MOST_TOLD} more" if len(new) > _MOST_TOLD else ""
        verb = "are" if new[1:] else "is"
        return f"{said}{more} {verb} new; the rest of the line is remembered"

    async def _cover(self, record: StoredRequest) -> list[tuple[Part, Grant | PolicyRule | None]]:
        rules = any(one.effect is RuleEffect.ALLOW for one in self._book.policy.rules)
        if not rules and await self._book.is_empty():
            return []
        record = self._book.redeclare(record)
        parts = split(record)
        if not parts or find_dangers(record, self._book.policy.own_domains):
            return []
        route = self._book.policy.route_for(record.request.agent, record.request.tool)
        return [(part, await self._find(part, record, route)) for part in parts]

    async def _find(
        self, part: Part, record: StoredRequest, route: Route
    ) -> Grant | PolicyRule | None:
        """Return a grant or rule that covers a part, preferably one without a limit."""
        book = self._book
        found: list[Grant] = []
        if part.written:
            grants = await self._list_writing(record, route)
            found += [one for one in grants if part_is_covered(one, part)]
        for way in part.ways:
            if any([await self._is_refused(call) for call in way]):
                return None
            for one in await book.about(way[0]):
                fits_all = all(book.fit(one, call, route) for call in way)
                mine = one.effect is Effect.ALLOW and one.line is None
                if mine and fits_all and way_is_covered(one, way):
                    found.append(one)
        found = [one for one in found if book.fit(one, record, route)]
        if found:
            return min(
                found, key=lambda one: (one.max_uses is not None, one.expires_at is not None)
            )
        return next((one for one in book.policy.rules if _lets(one, part)), None)

    async def _is_refused(self, call: StoredRequest) -> bool:
        """Return whether a deny grant, or a rule that denies or asks, may match a single part."""
        denials = [one for one in await self._book.about(call) if one.effect is Effect.DENY]
        rules = [one for one in self._book.policy.rules if _refuses(one)]
        return any(covers(one, call) is not MatchResult.NO for one in denials) or any(
            fits(one, call) is not MatchResult.NO for one in rules
        )

    async def _list_writing(self, record: StoredRequest, route: Route) -> tuple[Grant, ...]:
        """Return the grants for file changes that apply in the folder and on the route of a
        line."""
        request, policy = record.request, self._book.policy
        known = await self._book.changing_files(request.agent)
        refused = {one.match.tool for one in known if one.effect is Effect.DENY}
        return tuple(
            one
            for one in known
            if one.effect is Effect.ALLOW
            and one.session in (None, request.session)
            and one.match.host == request.context.host
            and policy.route_for(request.agent, one.match.tool) == route
            and not {one.match.tool, ANY_TOOL} & refused
            and not any(
                is_named(rule.tools, one.match.tool)
                for rule in policy.rules
                if _refuses(rule) and not rule.commands
            )
        )


def _is_about_files(grant: Grant) -> bool:
    denies_all = grant.effect is Effect.DENY and grant.match.tool == ANY_TOOL
    return grant.outdated is None and (denies_all or grant.match.kind is Kind.FILE_CHANGE)


def _refuses(rule: PolicyRule) -> bool:
    return rule.effect is not RuleEffect.ALLOW and not rule.shadow


def _lets(rule: PolicyRule, part: Part) -> bool:
    """Return whether an active rule without limits allows a part of a line."""
    allows = rule.effect is RuleEffect.ALLOW and not (rule.shadow or rule.limits)
    return allows and any(
        all(fits(rule, call) is MatchResult.YES for call in way) for way in part.ways
    )


def _each(others: list[str]) -> str:
    return f"each part of it, also {', '.join(others)}" if others else "each part of it"


def _cite(effect: str, grant: Grant, message: str) -> Verdict:
    # Agents and the audit log read the message: it must not tell what the grant covers, only
    # what the agent was told when it was denied.
    by = DecidedBy(kind=DeciderKind.GRANT, name=grant.id)
    return Verdict(effect=effect, by=by, reason=Reason.GRANT, message=message)


def _narrow_first(grant: Grant) -> tuple[bool, bool, int, bool]:
    is_pass, everywhere = grant.match.shape in PASSES, grant.session is None
    return is_pass, everywhere, grant.made_at, grant.match.digest is None
