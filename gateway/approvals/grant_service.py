"""List and revoke grants, and create them without a request (`GrantService`)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gateway.approvals.grant_creation import GrantCreation, expiry_of, queues_of_grant
from gateway.approvals.grant_lifecycle import GrantLifecycle
from gateway.approvals.request_writer import TOMBSTONE_DIGEST, PostedCopies, Writer
from gateway.cards.grant_cards import GrantCard
from gateway.cards.masks import hides_offer
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Identity, MessageRef, StoredRequest
from gateway.domain.redaction import secrets_in
from gateway.domain.store import MessageContext, Store
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized
from gateway.models import ApprovalRequest, new_id
from gateway.policy.authorization import ADMIN, matching_approver, refuse_auditor
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Effect, Grant, GrantVoter, Match, MatchResult
from gateway.policy.grants.offers import Offer, offers
from gateway.policy.guardrails import assess
from gateway.ports.adapter_api import ManualGrantRequest
from gateway.ports.outgoing import GRANT
from gateway.wire.canonical_json import sha256_hex

_MOST_LISTED, _MOST_ENDED = 500, 50  # as many as people read
_ID_LENGTH = 32
# Members that may change after creation, or count from that moment.
_LATER: dict[str, Any] = {"made_at": 0, "expires_at": None, "used": 0, "last_used": None,
                          "generation": 1, "notices": 0, "queues": ()}  # fmt: skip


class GrantService:
    """Implements `gateway.ports.GrantCalls`. A grant without a request is always one of the offers
    for an example call. So its text describes real calls, and there are calls that it can cover."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        lifecycle: GrantLifecycle,
        remembering: GrantCreation,
        copies: PostedCopies,
    ) -> None:
        self._store = store
        self._writer = writer
        self._book = writer.book
        self._lifecycle = lifecycle
        self._remembering = remembering
        self._copies = copies

    async def newest(
        self, *, ended: bool = False, revocable_by: Identity | None = None
    ) -> list[Grant]:
        """Return the newest grants, or those that ended last. Their number is limited to what
        people read."""
        if ended:
            return await self._book.store.list_ended(_MOST_ENDED)
        found, _ = await self._lifecycle.page(after=None, limit=_MOST_LISTED)
        return found if revocable_by is None else await self._of_person(revocable_by, found)

    async def card(self, grant_id: str) -> GrantCard:
        """Return the card of a grant, even if the grant ended."""
        shown = await self._lifecycle.view(grant_id)
        if shown is None:
            raise NotFound("there is no such grant")
        return shown.card

    async def revoke(
        self, grant_id: str, identity: Identity, *, copy: str = "", ref: MessageRef | None = None
    ) -> Grant:
        """Revoke a grant if this person may end it."""
        grant = await self._lifecycle.get(grant_id)
        by = may_end(await self._writer.fresh_policy(), grant, identity)
        if grant.end is None and await self._lifecycle.end([grant], "revoked", by):
            if ref is not None:
                await self._copies.adopt(GRANT + grant_id, copy, ref)
            return grant
        end = (await self._lifecycle.get(grant_id)).end
        said = f": {end.why}, by {end.by}" if end is not None else ""
        raise Conflict(f"this grant has ended already{said}")

    async def revoke_all(
        self, identity: Identity, *, agent: str | None = None, session: str | None = None
    ) -> list[Grant]:
        """Revoke all grants that this person may end, or only those of one agent or session."""
        refuse_auditor(await self._writer.fresh_policy(), identity)
        mine = await self._of_person(identity, await self._lifecycle.all(agent, session))
        name = (await self._writer.policy()).name_of(identity)
        return await self._lifecycle.end(mine, "revoked", name)

    async def _of_person(self, identity: Identity, grants: Iterable[Grant]) -> list[Grant]:
        """Return the grants in this list that this person may end."""
        policy, mine = await self._writer.fresh_policy(), []
        for grant in grants:
            with suppress(Unauthorized):
                may_end(policy, grant, identity)
                mine.append(grant)
        return mine

    async def offers(
        self, identity: Identity, agent: str, example: str | ApprovalRequest, effect: Effect
    ) -> tuple[Offer, ...]:
        """Return the grants that could be created from an example."""
        policy = await self._policy_of(identity)
        record = await self._read(example, agent, policy)
        return tuple(_hide_secrets(record, one) for one in _offers(record, effect))

    async def create(
        self,
        identity: Identity,
        example: str | ApprovalRequest,
        wish: ManualGrantRequest,
        *,
        nonce: str = "",
    ) -> Grant:
        """Create a grant from one of the example's offers."""
        policy = await self._policy_of(identity)
        record = await self._read(example, wish.agent, policy)
        offer = _choose_offer(record, wish)
        stored = isinstance(example, str)
        if stored and hides_offer(record, offer, wish.effect):
            raise InvalidRequest(
                "masked text hides what this grant would cover: reveal the text in the inbox, "
                "and remember the decision there"
            )
        name, now = policy.name_of(identity), self._writer.now()
        named = sha256_hex(f"by hand {name} {nonce}".encode())[:_ID_LENGTH]
        grant = Grant(
            id=named if nonce else new_id(),
            effect=wish.effect,
            agent=wish.agent,
            session=wish.session,
            match=offer.match,
            made_by=name,
            made_at=now,
            expires_at=expiry_of(wish.lifetime, now),
            max_uses=wish.max_uses,
            from_request=record.id if stored else None,
            words=record.hide(offer.words),
            backers=(GrantVoter(person=name, via=(ADMIN,)),),
            queues=queues_of_grant(policy, wish.agent, offer.match),
        )
        known = await self._book.store.find(grant.id)
        if known is None:
            return await self._remembering.keep(grant)
        if replace(known, **_LATER) != replace(grant, **_LATER):
            raise Conflict(
                "this nonce was used before, for a different grant or for one that has ended"
            )
        return known

    async def _policy_of(self, identity: Identity) -> PolicyDocument:
        policy = await self._writer.fresh_policy()
        if not policy.is_admin(identity):
            raise Unauthorized("only an admin may create a grant without a request")
        return policy

    async def _read(
        self, example: str | ApprovalRequest, agent: str, policy: PolicyDocument
    ) -> StoredRequest:
        """Return the example as a request of this agent, under the current policy."""
        if isinstance(example, ApprovalRequest):
            ruling, origin = policy.ruling_on(example), MessageContext(agent=agent)
            return self._writer.new_record(example, ruling, origin, None)[0]
        found = await self._store.load(example)
        if found is None or found.unreviewed:
            raise NotFound("there is no such request")
        if found.request.agent != agent:
            raise InvalidRequest(
                f"the example is a request of another agent, {found.request.agent}"
            )
        if found.erased or found.digest == TOMBSTONE_DIGEST:
            raise InvalidRequest(
                "a decision on this request cannot be remembered: choose "
                "another request as the example"
            )
        return assess(policy.declare(found), policy.ruling_on(found.request))


def may_end(policy: PolicyDocument, grant: Grant, identity: Identity) -> str:
    """Return the person's name if they may end a grant: an admin, its creator, or an approver of
    its route.

    Raises Unauthorized.
    """
    refuse_auditor(policy, identity)
    names = policy.names_of(identity)
    route = policy.route_for(grant.agent, grant.match.tool)
    if not (
        matching_approver(route, names) or policy.is_admin(identity) or names[0] == grant.made_by
    ):
        raise Unauthorized("only an admin or an approver of this agent may end its grants")
    return names[0]


def _offers(record: StoredRequest, effect: Effect) -> tuple[Offer, ...]:
    made = offers(record, effect)
    if not made:
        raise InvalidRequest(
            "this request cannot be remembered: high risk, forms and hidden text require "
            "approval each time"
        )
    return made


def _hide_secrets(record: StoredRequest, offer: Offer) -> Offer:
    """Return an offer without the secrets that can be recognised only by where they are in the
    request."""
    if record.find_secrets(offer.words) == [*secrets_in(offer.words)]:
        return offer
    words = record.hide(offer.words)
    return replace(offer, words=words)


def _choose_offer(record: StoredRequest, wish: ManualGrantRequest) -> Offer:
    """Return the offer that a wish names. Raises InvalidRequest with a reason if it is unknown."""
    made = _offers(record, wish.effect)
    for offer in made:
        if wish.chosen in (offer.id, offer.match):
            return offer
    if isinstance(wish.chosen, Match) and not _covers(wish, wish.chosen, record):
        raise InvalidRequest(
            "this match does not cover its own example, so it would never cover a request"
        )
    raise InvalidRequest("unknown offer: list the example's offers and choose one by its ID")


def _covers(wish: ManualGrantRequest, match: Match, record: StoredRequest) -> bool:
    drawn = Grant(
        id=new_id(), effect=wish.effect, agent=wish.agent, match=match, made_by="", made_at=0
    )
    return covers(drawn, record) is MatchResult.YES
