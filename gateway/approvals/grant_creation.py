"""Create grants from clicks or by an admin, and apply them to pending requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from gateway.approvals.grant_lifecycle import GrantLifecycle, grant_id_of
from gateway.approvals.request_writer import FOLLOWUPS, TOO_LATE, Overtaken, Writer
from gateway.approvals.transitions import RememberRequest, agreeing_votes
from gateway.cards.masks import hides_offer
from gateway.domain.policy_document import PolicyDocument, Ruling, adapters_of
from gateway.domain.records import Click, Identity, Remember, ScopeQuorum, StoredRequest
from gateway.domain.risk import is_named
from gateway.domain.store import Store, Transition, WriteResult
from gateway.domain.time_and_tasks import Clock
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized
from gateway.models import Action, DeciderKind, new_id
from gateway.policy.authorization import (
    ADMIN,
    REMEMBERED,
    Approver,
    count_needed,
    matching_approver,
    refuse_requester,
    refuse_unknown,
)
from gateway.policy.chain import Chain, judge
from gateway.policy.grant_book import PAGE
from gateway.policy.grants.coverage import MatchPreview, covers
from gateway.policy.grants.denials import is_plain_denial
from gateway.policy.grants.grant import (
    ANY_TOOL,
    OF_ALL_TOOLS,
    PASSES,
    Effect,
    Grant,
    GrantVoter,
    Match,
    MatchResult,
    Shape,
)
from gateway.policy.grants.line_parts import split
from gateway.policy.grants.offers import (
    HOUR_MS,
    LIFETIMES,
    PASS_LIFETIMES,
    Offer,
    find_host_rule,
    find_offer,
    find_pass,
    narrowest,
    offers,
    pass_words,
)

_REMEMBERED = {
    Action.APPROVE: Effect.ALLOW,
    Action.EDIT: Effect.ALLOW,
    Action.DENY: Effect.DENY,
    Action.ABORT: Effect.DENY,
}


class GrantCreation:
    """Creates grants; start with `keep`. `GrantLifecycle` handles them afterwards."""

    def __init__(
        self,
        store: Store,
        chain: Chain,
        clock: Clock,
        writer: Writer,
        granted: GrantLifecycle,
        *,
        denial_minutes: int,
    ) -> None:
        self._store = store
        self._chain = chain
        self._clock = clock
        self._writer = writer
        self._granted = granted
        self._denial_minutes = denial_minutes

    # ---------------------------------------------------------------- made by a click

    def check_wish(
        self, ruling: Ruling, shown: StoredRequest, click: Click
    ) -> RememberRequest | None:
        """Return the grant that an approval should create, or None if the click asks for none.

        Raises InvalidRequest or Unauthorized if the grant is not allowed; then the request stays
        undecided.
        """
        wish = click.remember
        if wish is None:
            return None
        if ruling.step_up(shown).asked:
            raise InvalidRequest("a decision that needs extra verification cannot be remembered")
        rule = find_host_rule(shown, wish.offer)
        if rule is not None:
            _check_host_rule(ruling, shown, click)
            return RememberRequest(remember=Remember(offer=wish.offer), needs=1, host_rule=rule)
        offer = _readable(shown, click, wish.offer, Effect.ALLOW)
        if wish.everywhere:
            refuse_requester(
                ruling.policy, shown, click.identity, "remember the decision for this session only"
            )
        _refuse_unlimited(wish, offer.match)
        if offer.match.shape in OF_ALL_TOOLS:
            _may_pass(ruling.policy, shown.request.agent, offer.match, click.identity)
        needs = count_needed(
            shown.quorum, ruling.route.scope_quorum, offer.match, everywhere=wish.everywhere
        )
        if needs > 1:
            refuse_unknown(ruling.policy, click.identity)
        return RememberRequest(remember=replace(wish, offer=offer.id), needs=needs)

    def minutes_of(self, after: StoredRequest, click: Click) -> int:
        """Return for how many minutes a denial also denies an equal call; 0 for other decisions."""
        plain = click.remember is None and is_plain_denial(after)
        return self._denial_minutes if plain else 0

    def plan_grant(
        self, ruling: Ruling, after: StoredRequest, click: Click, who: Approver, nonce: str
    ) -> Grant | None:
        """Return the grant to create after a click decided a request, or None.

        The grant gets the shortest lifetime and the fewest uses that any of its voters chose. A
        session pass has one backer: the person who created it last. Raises InvalidRequest; for a
        session pass also Unauthorized.
        """
        wish = click.remember
        if after.decision is not None and after.decision.host_rule is not None:
            return None  # the coding agent stores it
        if wish is None:
            return None
        effect = _REMEMBERED.get(click.action)
        if effect is None:
            raise InvalidRequest(f"{click.action} cannot be remembered")
        offer = _readable(after, click, wish.offer, effect)
        _refuse_unlimited(wish, offer.match)
        own = replace(wish, offer=offer.id)
        voted = agreeing_votes(after.votes, own) if effect is Effect.ALLOW else ()
        wishes = [vote.remember for vote in voted if vote.remember is not None] or [own]
        backers = [GrantVoter(person=vote.person, via=(vote.via,)) for vote in voted]
        if offer.match.shape in OF_ALL_TOOLS:
            backers = [_may_pass(ruling.policy, after.request.agent, offer.match, click.identity)]
        now = self._clock.now_ms()
        return Grant(
            id=grant_id_of(after.id, nonce),
            effect=effect,
            agent=after.request.agent,
            session=None if wish.everywhere else after.request.session,
            match=offer.match,
            made_by=who.name,
            made_at=now,
            expires_at=min((expiry_of(one.lifetime, now) for one in wishes), key=_end_of),
            max_uses=min((one.max_uses for one in wishes), key=_end_of),
            from_request=after.id,
            words=after.hide(offer.words),
            backers=tuple(backers) or (GrantVoter(person=who.name, via=(who.via,)),),
            queues=tuple(name for name in after.queues if name != FOLLOWUPS),
        )

    async def keep(self, grant: Grant) -> Grant:
        """Save a grant and apply it to pending requests. Idempotent.

        A session pass replaces other passes with its scope; if two are created at once, one
        remains. Raises Conflict for an approving grant while the kill switch is on.
        """
        outcome = await self._writer.book.store.add(grant)
        if outcome == WriteResult.FULL:
            raise Conflict(
                "there are too many grants for this tool; revoke some, or choose the exact offer"
            )
        if outcome == WriteResult.STOPPED:
            raise Conflict(
                f"{TOO_LATE[WriteResult.STOPPED]}: no grant can be created until it is off"
            )
        if grant.match.shape in PASSES and outcome == WriteResult.OK:
            await self._replace_passes(grant)
        await self.settle((grant,) if outcome == WriteResult.OK else ())
        return grant

    async def settle(self, grants: Sequence[Grant]) -> None:
        """Apply grants that were just saved to pending requests."""
        self._writer.forget_policy()
        for grant in grants:
            await self._settle(grant)

    async def _replace_passes(self, grant: Grant) -> None:
        """End all session passes with this scope except the newest. All replicas agree on which is
        the newest."""
        assert grant.session is not None  # a pass belongs to one session
        known = await self._writer.book.store.of_session(grant.agent, grant.session)
        alike = [one for one in known if one.match.shape is grant.match.shape]
        newest = max(alike, key=lambda one: (one.made_at, one.id), default=grant)
        await self._granted.end([one for one in alike if one != newest], "replaced", grant.made_by)

    async def _settle(self, grant: Grant) -> None:
        """Apply this grant to the pending requests that it decides under the complete policy."""
        waiting = await self._store.pending_of(grant.agent)
        for begin in range(0, len(waiting), PAGE):
            for record in await self._store.load_many(waiting[begin : begin + PAGE]):
                # Most pending requests are unrelated and need not be judged again.
                if not record or record.final or record.unreviewed:
                    continue
                if covers(grant, record) is MatchResult.YES or split(record):
                    await self._settle_one(record, grant)
        if grant.max_uses is not None:
            await self._granted.retire(grant.id)

    async def _settle_one(self, known: StoredRequest, grant: Grant) -> None:
        with suppress(NotFound, Overtaken):
            step = partial(self._settle_by, grant)
            await self._writer.update(known.id, step, known=known)

    async def _settle_by(
        self, grant: Grant, record: StoredRequest, ruling: Ruling
    ) -> Transition | None:
        if record.final or record.unreviewed:
            return None
        found, ending = await judge(self._chain, record, ruling)
        if ending is None or found != record:
            return None
        cited = ending.by.name == grant.id or grant.id in ending.message
        if ending.by.kind is not DeciderKind.GRANT or not cited:
            return None
        return self._writer.plan_end(record, ending, ruling)

    # ---------------------------------------------------------------- made without a request

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
        """Create a session pass. It replaces an earlier pass with the same scope.

        Raises Unauthorized unless the person is an admin, or may approve on every route of the
        agent.
        """
        if shape not in PASSES:
            raise InvalidRequest(f"unknown pass {shape.value!r}; choose one of {', '.join(PASSES)}")
        policy, match = await self._writer.fresh_policy(), Match(shape=shape, tool=ANY_TOOL)
        backer = _may_pass(policy, agent, match, identity)
        if not any(one.name == session for one in await self._store.sessions(agent)):
            raise InvalidRequest(
                f"{agent} has no open session with that name; run `gateway sessions` to list them"
            )
        now = self._clock.now_ms()
        grant = Grant(
            id=new_id(),
            effect=Effect.ALLOW,
            agent=agent,
            session=session,
            match=match,
            made_by=backer.person,
            made_at=now,
            expires_at=now + int(hours * HOUR_MS),
            max_uses=max_uses,
            words=pass_words(shape),
            backers=(backer,),
            queues=queues_of_grant(policy, agent, match),
        )
        return await self.keep(grant)

    async def reach(self, record: StoredRequest, offer_id: str) -> MatchPreview:
        """Return the recent requests that a grant from this offer would have covered.

        Raises InvalidRequest if there is no such offer.
        """
        offer = _choose(record, offer_id, Effect.ALLOW)
        return await self._granted.count_reach(
            offer.match, record.request.agent, record.request.session
        )


def _check_host_rule(ruling: Ruling, shown: StoredRequest, click: Click) -> None:
    """Raise InvalidRequest or Unauthorized unless this click may store a rule in the coding agent.
    The coding agent decides how long it keeps the rule."""
    refuse_requester(
        ruling.policy, shown, click.identity, "remember the decision for this session only"
    )
    route = ruling.route
    if route.quorum > 1 or route.scope_quorum != ScopeQuorum():
        raise InvalidRequest(
            "the coding agent cannot save this rule, because several people "
            "must approve it; choose an offer of the gateway"
        )


def may_pass(policy: PolicyDocument, agent: str, identity: Identity) -> bool:
    """Return whether a person may create session passes for an agent."""
    try:
        _may_pass(policy, agent, Match(shape=Shape.WORK, tool=ANY_TOOL), identity)
    except Unauthorized:
        return False
    return True


def _may_pass(policy: PolicyDocument, agent: str, match: Match, identity: Identity) -> GrantVoter:
    """Return the person and the route entry that entitle them to create a pass. Raises
    Unauthorized."""
    names = policy.names_of(identity)
    if policy.is_admin(identity):
        return GrantVoter(person=names[0], via=(ADMIN,))
    named = [route for route in policy.routes if is_named(route.agents, agent)]
    routes = [route.at(level) for route in named for level in REMEMBERED]
    entries = [matching_approver(route, names) for route in routes]
    via = tuple(dict.fromkeys(one for one in entries if one is not None))
    alone = all(
        count_needed(one.quorum, one.scope_quorum, match, everywhere=False) <= 1 for one in routes
    )
    if not routes or None in entries or not alone:
        raise Unauthorized(
            "only an admin, or a person who alone may approve every request of this agent, may "
            "give its session a pass or allow looking below a folder"
        )
    return GrantVoter(person=names[0], via=via)


def queues_of_grant(policy: PolicyDocument, agent: str, match: Match) -> tuple[str, ...]:
    """Return the delivery queues that post the card of a grant created without a request."""
    route = policy.route_for(agent, match.tool)
    return adapters_of(route.places(len(route.escalations)))


def _refuse_unlimited(wish: Remember, match: Match) -> None:
    expiry_of(wish.lifetime, 0)
    if match.shape in PASSES and wish.everywhere:
        raise InvalidRequest("a pass is for one session, not for all sessions: choose this session")
    if match.shape in PASSES and wish.lifetime not in PASS_LIFETIMES:
        raise InvalidRequest("a pass lasts 8 hours at most: choose a shorter time")
    if wish.max_uses is not None and wish.max_uses < 1:
        raise InvalidRequest("the limit of a grant must be at least one use")


def _end_of(limit: int | None) -> float:
    return math.inf if limit is None else limit


def expiry_of(lifetime: str, now: int) -> int | None:
    """Return when a grant created now expires, or None if it never does. Raises InvalidRequest."""
    lengths = {name: length for name, _, length in LIFETIMES}
    if lifetime not in lengths:
        raise InvalidRequest(f"unknown lifetime; choose one of {', '.join(lengths)}")
    length = lengths[lifetime]
    return None if length is None else now + length


def _readable(record: StoredRequest, click: Click, offer_id: str, effect: Effect) -> Offer:
    """Return the offer that a click names. Raises InvalidRequest if a mask on the card hid a part
    of the offer that could change what runs."""
    offer = _choose(record, offer_id, effect)
    if not click.revealed and hides_offer(record, offer, effect):
        raise InvalidRequest(
            "masked text hides what this grant would cover: reveal the text in the inbox, and "
            "remember the decision there"
        )
    return offer


def _choose(record: StoredRequest, offer_id: str, effect: Effect) -> Offer:
    made = find_offer(record, offer_id, effect) if offer_id else narrowest(record, effect)
    if made is None and effect is Effect.ALLOW:
        made = find_pass(record, offer_id)
    if made is not None:
        return made
    if not offers(record, effect):
        raise InvalidRequest(
            "this request cannot be remembered: high risk, forms and hidden text require "
            "approval each time"
        )
    raise InvalidRequest(
        f'unknown offer: run "gateway grant offers {record.id}" to list the valid ones'
    )
