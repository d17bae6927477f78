"""Grants that an admin makes without being asked: always an offer of an example, in its words.

So nothing is written down that says one thing and covers another, or that could never cover
anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.approvals.grant_creation import GrantCreation, expiry_of, queues_of_grant
from gateway.approvals.writer import TOMBSTONE_DIGEST, Writer
from gateway.domain.policy_document import PolicyDocument
from gateway.domain.records import Identity, Record
from gateway.domain.redaction import secrets_in
from gateway.domain.store import MessageContext, Store
from gateway.errors import Conflict, InvalidRequest, NotFound, Unauthorized
from gateway.models import ApprovalRequest, new_id
from gateway.policy.authorization import ADMIN
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import Effect, Grant, GrantVoter, Match, MatchResult
from gateway.policy.grants.remember_offers import Offer, offers
from gateway.policy.guardrails import assess
from gateway.ports.grants_by_hand import Wish
from gateway.ports.proven_masks import hides_offer
from gateway.wire.canonical_json import sha256_hex

_ID_LENGTH = 32
# What may have become of a grant since it was made, or is counted from that moment.
_LATER: dict[str, Any] = {"made_at": 0, "expires_at": None, "used": 0, "last_used": None,
                          "generation": 1, "notices": 0, "queues": ()}  # fmt: skip


class GrantsByHand:
    """A `gateway.ports.HandCalls`: offers of an example call, and a grant of one of them."""

    def __init__(self, store: Store, writer: Writer, remembering: GrantCreation) -> None:
        self._store = store
        self._writer = writer
        self._remembering = remembering

    async def offers(
        self, identity: Identity, agent: str, example: str | ApprovalRequest, effect: Effect
    ) -> tuple[Offer, ...]:
        """Return what may be remembered of an example: a call, or the id of a request.

        Raises Unauthorized unless an admin asks, NotFound, and InvalidRequest when nothing may be.
        """
        policy = await self._policy_of(identity)
        record = await self._read(example, agent, policy)
        return tuple(_hide_secrets(record, one) for one in _offers(record, effect))

    async def create(
        self, identity: Identity, example: str | ApprovalRequest, wish: Wish, *, nonce: str = ""
    ) -> Grant:
        """Write a grant of one of the example's offers; sent again with its nonce, the same one.

        Raises as `offers` does, InvalidRequest also when what is chosen is none of them, and
        Conflict when the nonce made another grant.
        """
        policy = await self._policy_of(identity)
        record = await self._read(example, wish.agent, policy)
        offer = _choose(record, wish)
        stored = isinstance(example, str)
        if stored and hides_offer(record, offer, wish.effect):
            raise InvalidRequest(
                "a mask hides what this would cover: it is remembered in the inbox only, once it "
                "is revealed there"
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
        known = await self._writer.book.store.find(grant.id)
        if known is None:
            return await self._remembering.keep(grant)
        if replace(known, **_LATER) != replace(grant, **_LATER):
            raise Conflict("this was sent before, and made another grant or has ended since")
        return known

    async def _policy_of(self, identity: Identity) -> PolicyDocument:
        policy = await self._writer.fresh_policy()
        if not policy.is_admin(identity):
            raise Unauthorized("only an admin may make a grant without a request")
        return policy

    async def _read(
        self, example: str | ApprovalRequest, agent: str, policy: PolicyDocument
    ) -> Record:
        """Return the example as a request of this agent, as the policy has it now."""
        if isinstance(example, ApprovalRequest):
            record, _ = self._writer.new_record(example, policy, MessageContext(agent=agent), None)
            return record
        found = await self._store.load(example)
        if found is None or found.unreviewed:
            raise NotFound("no such request")
        if found.request.agent != agent:
            raise InvalidRequest(f"the example is a request of {found.request.agent}")
        if found.erased or found.canary or found.digest == TOMBSTONE_DIGEST:
            raise InvalidRequest("nothing can be remembered of this request: name another one")
        return assess(policy.declare(found), policy)


def _offers(record: Record, effect: Effect) -> tuple[Offer, ...]:
    made = offers(record, effect)
    if not made:
        raise InvalidRequest(
            "this cannot be remembered: high risk, questions and text that hides something are "
            "asked about each time"
        )
    return made


def _hide_secrets(record: Record, offer: Offer) -> Offer:
    """Return an offer whose words say no secret that only its place in the request tells."""
    if record.find_secrets(offer.words) == [*secrets_in(offer.words)]:
        return offer
    words = record.hide(offer.words)
    return replace(offer, words=words)


def _choose(record: Record, wish: Wish) -> Offer:
    """Return the offer that a wish names. Raises InvalidRequest with the reason when there is
    none."""
    made = _offers(record, wish.effect)
    for offer in made:
        if wish.chosen in (offer.id, offer.match):
            return offer
    if isinstance(wish.chosen, Match) and not _covers(wish, wish.chosen, record):
        raise InvalidRequest(
            "this match would never cover anything: it does not even cover its own example"
        )
    raise InvalidRequest("this is none of the example's offers: list them, and name one by its id")


def _covers(wish: Wish, match: Match, record: Record) -> bool:
    drawn = Grant(
        id=new_id(), effect=wish.effect, agent=wish.agent, match=match, made_by="", made_at=0
    )
    return covers(drawn, record) is MatchResult.YES
