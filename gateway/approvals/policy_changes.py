"""Applies a new policy to waiting requests: votes under the older one are counted again."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from gateway.approvals.writer import Overtaken, Writer
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Record
from gateway.domain.store import Store, Transition
from gateway.domain.time_and_tasks import Clock
from gateway.errors import NotFound
from gateway.policy.authorization import with_valid_votes
from gateway.policy.calls.touches import touches_of
from gateway.policy.deciders import GrantBook
from gateway.policy.grants.grant import (
    PASSES,
    READING,
    Effect,
    Grant,
    Match,
    Rule,
    RuleKind,
    Shape,
    Suspension,
)
from gateway.policy.grants.offers import offers
from gateway.wire.codec import plain

log = logging.getLogger("gateway.recounting")


async def recount(writer: Writer, store: Store) -> None:
    """Take back, on every waiting request, the approvals of those who may not decide it any more.

    They count for nothing in any case: this is for the cards, which say how many have approved.
    """
    for request_id in await store.list_voted():
        try:
            await _recount(writer, request_id)
        except Exception:
            # One that cannot be read keeps neither the others nor the policy from being followed.
            about = {"event": "recount_failed", "request_id": request_id}
            log.exception("votes not counted again", extra=about)


async def _recount(writer: Writer, request_id: str) -> None:
    async def decide(record: Record) -> Transition | None:
        if record.final:
            return None
        policy = await writer.policy()
        counted = with_valid_votes(policy, policy.route_of(record), record)
        if counted == record:
            return None
        return Transition(
            before=record,
            after=replace(counted, revision=record.revision + 1),
            event="recounted",
            data={"votes": plain(counted.votes)},
            generation=policy.generation,
        )

    with suppress(NotFound, Overtaken):
        await writer.update(request_id, decide)


# Re-evaluates grants that were made under earlier rules.
#
# An approval that today's rules would not offer in the same way is suspended: it decides nothing
# until somebody remembers it anew. A grant decides nothing until it has been re-evaluated.

PASSES_CHANGED = "the rules for passes changed"
WIDER = "it may have covered more than its words said, and today it is not offered so any more"
GONE = "its request is no longer kept, so nothing tells whether it covered more than its words said"
BY_HAND = "it was written by hand, before the rules for what a decision covers were made stricter"
CHANGED = "what is declared about its tool was changed since"
_GATEWAY = "gateway"
_TOP = re.compile(r"[^.\[]+")
_DONE = (
    "of what was remembered under earlier rules, %(rest)d are suspended and decide nothing, "
    "%(kept)d stay in force, %(ended)d passes ended, %(failed)d could not be read; see "
    "gateway grant list --suspended"
)


class EarlierGrants:
    """Re-evaluates each grant of earlier rules once. All replicas may do so; after a crash the
    next call does what is left."""

    def __init__(self, store: Store, book: GrantBook, clock: Clock, writer: Writer) -> None:
        self._store = store
        self._book = book
        self._clock = clock
        self._writer = writer
        self._settled: tuple[object, ...] = ()

    async def look(self, grants: Iterable[Grant]) -> None:
        """Re-evaluate those live grants that are of earlier rules; log how many are suspended.

        Results are stored at the end, those that announce a route last: after a crash the next
        call finds what is left, and announces it.
        """
        known = list(grants)
        unread = [grant for grant in known if grant.unread]
        policy = await self._writer.fresh_policy()
        found = [(grant, after) for grant in unread if (after := await self._read(grant))]
        found += await self._list_outdated(policy, known)
        if not unread and not found:
            return
        done = {"kept": 0, "rest": 0, "ended": 0, "failed": 0}
        done["failed"] = len(unread) - sum(grant.unread for grant, _ in found)
        for grant, after in order_announcements(policy, known, found):
            if became := await self._save(grant, after):
                done[became] += 1
        self._writer.forget_policy()
        if any(done.values()):
            log.warning(_DONE, done, extra={"event": "grants_reread"})

    async def _list_outdated(
        self, policy: PolicyDocument, known: Iterable[Grant]
    ) -> list[tuple[Grant, Grant]]:
        """Return the grants whose declarations were changed, once for each set of those of the
        policy, with what becomes of them."""
        declared = (policy.tools, policy.trust_declarations)
        if self._settled == declared:
            return []
        self._book.at(policy)
        found = [
            (one, self._suspend(one, CHANGED)) for one in known if await self._is_outdated(one)
        ]
        self._settled = declared
        return found

    async def _read(self, grant: Grant) -> Grant | None:
        """Return a grant as it is to be from now on; None when that could not be determined."""
        try:
            return await self._reread(grant)
        except Exception:
            # It decides nothing and is tried again; the other grants are re-evaluated all the same.
            about = {"event": "reread_failed", "grant": grant.id}
            log.exception("a remembered decision could not be read", extra=about)
            return None

    async def _reread(self, grant: Grant) -> Grant:
        if grant.match.shape in PASSES:
            return grant
        if grant.from_request is None:
            return self._suspend(grant, BY_HAND)
        record = await self._store.load(grant.from_request)
        if record is None or record.erased:
            return self._suspend(grant, GONE)
        made = [one for one in offers(self._book.redeclare(record))
                if covers_no_more(one.match, grant.match)]  # fmt: skip
        if not made:
            return self._suspend(grant, WIDER)
        return replace(
            grant, reading=READING, words=record.hide(made[-1].words), match=made[-1].match
        )

    async def _is_outdated(self, grant: Grant) -> bool:
        """Tell whether a declaration or a row of the table that a grant rests on was changed."""
        if grant.match.answer is None or grant.rests is not None or grant.from_request is None:
            return False
        record = await self._store.load(grant.from_request)
        if record is None or record.erased:
            return False  # nothing tells; where it was changed, the grant covers nothing
        now = touches_of(self._book.redeclare(record))[0].fingerprint
        return now != grant.match.fingerprint

    def _suspend(self, grant: Grant, why: str) -> Grant:
        return replace(grant, rests=Suspension(why=why, at=self._clock.now_ms()))

    async def _save(self, grant: Grant, after: Grant) -> str:
        """Store the result for a grant; return its name, "" when somebody else was first."""
        store = self._book.store
        if after is grant:
            ended = await store.end(grant, why=PASSES_CHANGED, by=_GATEWAY)
            return "ended" if ended else ""
        became = "kept" if after.rests is None else "rest"
        return became if await store.reread(grant, after) else ""


def covers_no_more(new: Match, old: Match) -> bool:
    """Whether an offer of today's leaves nothing open that a match of earlier rules did not."""
    if new == old:
        return True
    if Shape.PATTERN is not new.shape or new.shape is not old.shape or old.answer is not None:
        return False
    if (new.tool, new.kind, new.cwd, new.host) != (old.tool, old.kind, old.cwd, old.host):
        return False
    if new.base != new.cwd:
        return False
    before = {rule.name: rule for rule in old.rules}
    return all(_is_no_wider(rule, before) for rule in new.rules)


def _is_no_wider(rule: Rule, before: Mapping[str, Rule]) -> bool:
    found = _TOP.match(rule.address)
    was = before.get(found[0]) if found is not None else None
    if was is None:
        return False
    if rule.kind is RuleKind.EQUALS:
        return was.kind is not RuleKind.EQUALS or was.value == rule.value
    if rule.kind is RuleKind.COMMAND and rule.type == "list" and rule.value is None:
        return False  # a list was one command or several then
    return (rule.kind, rule.value, rule.command) == (was.kind, was.value, was.command)


def order_announcements(
    policy: PolicyDocument, known: Iterable[Grant], found: list[tuple[Grant, Grant]]
) -> list[tuple[Grant, Grant]]:
    """Return the results with one suspended grant per route marked as announced, those last."""
    said = {route_of(policy, one) for one in known if one.rests is not None and one.rests.announced}
    first: list[tuple[Grant, Grant]] = []
    last: list[tuple[Grant, Grant]] = []
    for grant, after in found:
        route = route_of(policy, grant)
        if after.rests is not None and after.queues and route not in said:
            said.add(route)
            last.append((grant, replace(after, rests=replace(after.rests, announced=True))))
        else:
            first.append((grant, after))
    return first + last


def route_of(policy: PolicyDocument, grant: Grant) -> str:
    """Return the name of the route that a grant's card belongs to."""
    return policy.route_for(grant.agent, grant.match.tool).name


def tally(policy: PolicyDocument, route: str, grants: Iterable[Grant]) -> str:
    """Say how many remembered approvals of a route are suspended, and what to do about it."""
    mine = [one for one in grants if one.effect is Effect.ALLOW and route_of(policy, one) == route]
    count = sum(one.rests is not None for one in mine)
    suspended = f"{count} remembered {'answer is' if count == 1 else 'answers are'} suspended"
    covered = "it" if count == 1 else "they"
    kept = len(mine) - count
    return (
        f"{suspended}: {covered} may have covered more than the words said. {kept} "
        f"{'stays' if kept == 1 else 'stay'} in force. Let the agent ask again and remember that "
        "anew, or revoke what is suspended: gateway grant list --suspended"
    )
