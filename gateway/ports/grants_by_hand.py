"""What an admin names to have something remembered without being asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from gateway.domain.records import Identity
from gateway.models import ApprovalRequest, Context, Kind, digest_of, new_id
from gateway.policy.grants.grant import Effect, Grant, Match
from gateway.policy.grants.remember_offers import Offer
from gateway.wire.codec import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an admin wants remembered. `chosen` is the id of an offer of the example, or its
    match."""

    agent: str
    effect: Effect
    chosen: str | Match
    session: str | None = None
    lifetime: str = "1h"
    max_uses: int | None = None


class HandCalls(Protocol):
    """Grants that no request asked for: offers of an example call, and a grant of one of them."""

    async def offers(
        self, identity: Identity, agent: str, example: str | ApprovalRequest, effect: Effect
    ) -> tuple[Offer, ...]:
        """Return what may be remembered of an example: a call, or the id of a request.

        Raises Unauthorized unless an admin asks, NotFound, and InvalidRequest when nothing may be.
        """

    async def create(
        self, identity: Identity, example: str | ApprovalRequest, wish: Wish, *, nonce: str = ""
    ) -> Grant:
        """Write a grant of one of the example's offers; sent again with its nonce, the same one.

        Raises as `offers` does, and Conflict when the nonce made another grant.
        """


def build_example(
    *, agent: str, tool: str, kind: Kind, arguments: JsonObject, context: Context
) -> ApprovalRequest:
    """Return a call as this agent would send it. Raises InvalidRequest for what none could send."""
    call = ApprovalRequest(
        id=new_id(),
        agent=agent,
        tool=tool,
        kind=kind,
        arguments=arguments,
        context=context,
        digest="0" * 64,
    )
    return replace(call, digest=digest_of(call))
