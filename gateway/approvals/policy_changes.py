"""Apply a new policy to existing state: recount votes, and suspend outdated grants."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from gateway.approvals.request_writer import Overtaken, Writer
from gateway.domain.policy_document import PolicyDocument, Ruling
from gateway.domain.records import StoredRequest
from gateway.domain.store import Store, Transition
from gateway.domain.time_and_tasks import Clock
from gateway.errors import NotFound
from gateway.policy.authorization import with_valid_votes
from gateway.policy.calls.call_effects import effects_of
from gateway.policy.grant_book import GrantBook
from gateway.policy.grants.grant import Effect, Grant, Outdated
from gateway.wire.codec import plain

log = logging.getLogger("gateway.approvals")

_SUSPENDED = (
    "declarations of tools were changed, so %d grants are suspended; run gateway grant list "
    "--suspended to see them"
)


async def recount(writer: Writer, store: Store) -> None:
    """Remove approvals on pending requests by people who may no longer decide them.

    The gateway never counts such votes; `recount` updates the cards, which show the number of
    votes.
    """
    for request_id in await store.list_voted():
        try:
            with suppress(NotFound, Overtaken):
                await writer.update(request_id, _recount)
        except Exception:
            # One unreadable request must not stop the others, or following the policy.
            about = {"event": "recount_failed", "request": request_id}
            log.exception("could not count the votes again", extra=about)


async def _recount(record: StoredRequest, ruling: Ruling) -> Transition | None:
    counted = with_valid_votes(ruling, record)
    if record.final or counted == record:
        return None
    return Transition(
        before=record,
        after=replace(counted, revision=record.revision + 1),
        event="recounted",
        data={"votes": plain(counted.votes)},
        generation=ruling.policy.generation,
    )


# Suspends grants that rest on changed declarations, until a person remembers them again.

CHANGED = "the declaration of its tool has changed since"


class OutdatedGrants:
    """Suspends each grant once if a declaration that it depends on changed. All replicas may run
    it; after a crash the next call handles the remaining grants."""

    def __init__(self, store: Store, book: GrantBook, clock: Clock, writer: Writer) -> None:
        self._store = store
        self._book = book
        self._clock = clock
        self._writer = writer
        self._settled: tuple[object, ...] = ()

    async def look(self, grants: Iterable[Grant]) -> None:
        """Check active grants, once for each set of declarations. Log how many are suspended.

        Grants that announce a route are suspended last, so after a crash the next call finds the
        remaining grants and announces the route.
        """
        policy, known = await self._writer.fresh_policy(), list(grants)
        declared = (policy.tools, policy.trust_declarations)
        if self._settled == declared:
            return
        self._book.at(policy)
        found = [one for one in known if await self._is_outdated(one)]
        mark = Outdated(why=CHANGED, at=self._clock.now_ms())
        count = 0
        for grant, announced in order_announcements(policy, known, found):
            count += await self._book.store.mark_outdated(grant, replace(mark, announced=announced))
        self._settled = declared
        if count:
            self._writer.forget_policy()
            log.warning(_SUSPENDED, count, extra={"event": "grants_suspended"})

    async def _is_outdated(self, grant: Grant) -> bool:
        """Return whether a declaration that a grant depends on was changed."""
        if grant.match.answer is None or grant.outdated is not None or grant.from_request is None:
            return False
        if grant.line is not None:
            return False  # a plan's grant rests on no declaration: it stops matching and expires
        record = await self._store.load(grant.from_request)
        if record is None or record.erased:
            return False  # unknown; if the declaration changed, the grant matches nothing
        now = effects_of(self._book.redeclare(record))[0].fingerprint
        return now != grant.match.fingerprint


def order_announcements(
    policy: PolicyDocument, known: Iterable[Grant], found: Iterable[Grant]
) -> list[tuple[Grant, bool]]:
    """Return the outdated grants, each with a flag that says whether it announces its route. One
    grant announces each route; those grants are at the end of the list."""
    said = {
        route_of(policy, one)
        for one in known
        if one.outdated is not None and one.outdated.announced
    }
    first: list[tuple[Grant, bool]] = []
    last: list[tuple[Grant, bool]] = []
    for grant in found:
        route = route_of(policy, grant)
        if grant.queues and route not in said:
            said.add(route)
            last.append((grant, True))
        else:
            first.append((grant, False))
    return first + last


def route_of(policy: PolicyDocument, grant: Grant) -> str:
    """Return the name of the route on which a grant's card is posted."""
    return policy.route_for(grant.agent, grant.match.tool).name


def tally(policy: PolicyDocument, route: str, grants: Iterable[Grant]) -> str:
    """Describe how many approving grants of a route are suspended, and what people can do."""
    mine = [one for one in grants if one.effect is Effect.ALLOW and route_of(policy, one) == route]
    count = sum(one.outdated is not None for one in mine)
    suspended = f"{count} {'grant is' if count == 1 else 'grants are'} suspended"
    tools = "its tool" if count == 1 else "their tools"
    kept = len(mine) - count
    return (
        f"{suspended}: the declarations of {tools} were changed. {kept} "
        f"{'stays' if kept == 1 else 'stay'} active. "
        "Let the agent ask again and remember your decision, or revoke the suspended grants "
        "(gateway grant list --suspended)"
    )
