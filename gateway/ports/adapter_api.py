"""The calls that adapters may make, in groups: requests, grants, operators.

Whoever acts is checked in the core, at that moment. The services of `gateway.approvals` implement
the groups.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from gateway.cards.blocks import CardSizes
from gateway.cards.card import Card
from gateway.cards.grant_cards import GrantCard
from gateway.cards.shared_texts import KillSwitch
from gateway.domain.records import (
    AuditEvent,
    Click,
    Identity,
    MessageRef,
    Page,
    Paused,
    Person,
    Query,
    Session,
    StoredRequest,
)
from gateway.domain.statistics import PeriodReport
from gateway.errors import GatewayError
from gateway.models import ApprovalRequest, Context, Kind, digest_of, new_id
from gateway.policy.declared_tools import ToolWord
from gateway.policy.grants.grant import Effect, Grant, Match
from gateway.policy.grants.offers import Offer
from gateway.ports.claims import ClaimCalls
from gateway.ports.devices import DeviceCalls
from gateway.ports.outgoing import AdapterStorage
from gateway.ports.sign_in import LoginLinks, Logins, Prove
from gateway.wire.codec import JsonObject

# What people list and look for: the queue from where they stand, and what ended or happened.


class QueueFilter(StrEnum):
    """A side of the queue, as one person sees it: `mine` is what they may decide now and have not,
    `others` what waits for somebody else."""

    MINE = "mine"
    OTHERS = "others"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How much waits on each side. `more` says that not all that waits was looked at. Of theirs,
    `fresh` were asked since a moment, and `newest` is when the last was."""

    mine: int
    others: int
    more: bool
    fresh: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What somebody looks for; empty members narrow nothing.

    `text` stands somewhere in what a card shows, `who` decided or did it, `outcome` is how it ended
    or what happened. It happened from `since` on and before `until`, in ms. `after` is the cursor
    that an earlier answer named.
    """

    text: str = ""
    agent: str = ""
    outcome: str = ""
    who: str = ""
    since: int | None = None
    until: int | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The requests that a search found among the newest `looked`; `next` is where one looks on."""

    items: tuple[StoredRequest, ...]
    looked: int
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvents:
    """The events that a search found among the newest `looked`, the newest first, and what each
    says as a sentence. `more` says that there are older ones, or that more fit than were returned.
    """

    items: tuple[AuditEvent, ...]
    sentences: tuple[str, ...]
    looked: int
    more: bool


# What an admin names to have something remembered without being asked.


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualGrantRequest:
    """What an admin wants remembered. `chosen` is the id of an offer of the example, or its
    match."""

    agent: str
    effect: Effect
    chosen: str | Match
    session: str | None = None
    lifetime: str = "1h"
    max_uses: int | None = None


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


Wait = Callable[[float], Awaitable[bool]]
"""Waits up to so many seconds; returns whether an event came since the last call."""


class Feed(Protocol):
    """The event stream as it grows, from all replicas."""

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[AuditEvent]]:
        """Subscribe to events from now on; entering has registered, so read state after it."""

    def controls(self) -> AbstractAsyncContextManager[AsyncIterator[AuditEvent]]:
        """Subscribe, without their data, to the events that every replica acts on: the policy, and
        what is remembered. It costs nothing while anything else happens."""

    def watch(self, request_id: str | None) -> AbstractAsyncContextManager[Wait]:
        """Watch one request, or with None whatever happens; entering has registered."""


Groups = Callable[[], Awaitable[tuple[str, ...]]]
"""Asks the platform which of its groups somebody is in, as identities are written. Raises what the
adapter raises where the platform does not say."""


class RequestCalls(Protocol):
    """Requests, and the answers of people. What policy hooks are still asked about is not found."""

    async def get(self, request_id: str, *, revision: int | None = None) -> StoredRequest:
        """Return a request; raises NotFound.

        With the `revision` that a card shows, it may have changed since: `decide` has the last
        word, and refuses what the card is too old for.
        """

    async def page(self, query: Query) -> Page:
        """Return one page of requests, newest first or soonest first, as the query says."""

    async def list_queue(
        self, identity: Identity, side: QueueFilter, *, after: str | None = None, limit: int = 50
    ) -> Page:
        """Return one page of a side of the queue, the soonest deadline first. A page may hold fewer
        than `limit`, and go on all the same."""

    async def count_queue(self, identity: Identity, *, since: int = 0) -> QueueCounts:
        """Return how much waits on each side, of the soonest thousand, and how much of theirs was
        asked after a moment."""

    async def search(self, search: Search) -> Found:
        """Return which requests that ended fit, the newest first, from where the search goes on."""

    async def search_events(self, identity: Identity, search: Search) -> FoundEvents:
        """Return which of the newest events fit. Raises Unauthorized for all but admins."""

    async def draw(self, record: StoredRequest, platform: str, *, lines: int, chars: int) -> Card:
        """Return the card of a request as it is posted on a platform, of so many lines and
        characters of what would run. `Card.deciders` are accounts there."""

    async def decide(
        self, click: Click, *, groups: Groups | None = None, prove: Prove | None = None
    ) -> StoredRequest:
        """Apply a click; return the request as it then stands.

        Rights are asked here and nowhere else. `groups` is called for who may not decide without
        their groups, where to know them takes a call of the platform. `prove` checks the passkey of
        a step-up, over the subject that it is given, where the click came with one.

        Raises NotFound, Unauthorized (no approver, the requester, or a card that the gateway did
        not post there), Conflict (ended, or an older revision was seen), InvalidRequest (action not
        allowed, bad arguments).
        """

    async def decide_all(self, clicks: Sequence[Click]) -> list[StoredRequest]:
        """Apply the clicks of one person, all of them or none: one answer to requests of one agent.

        Raises BatchRefused, which says for each request why not, and InvalidRequest.
        """

    async def claim(
        self,
        request_id: str,
        identity: Identity,
        *,
        on: bool = True,
        groups: Groups | None = None,
    ) -> StoredRequest:
        """Say that this person is looking at a request, or is not any more.

        Raises as `decide` does.
        """

    async def reveal(self, request_id: str, identity: Identity) -> StoredRequest:
        """Return a request whose masked secrets this person is about to see; that is audited.

        Raises NotFound, and Unauthorized unless they may decide it, or are an admin.
        """

    async def reach(self, request_id: str, offer: str) -> str:
        """Say how many recent requests an offer would have covered, and what people said to
        those. Raises NotFound, InvalidRequest."""

    async def person(self, identity: Identity) -> Person | None:
        """Return the person whom an identity belongs to."""

    async def may_pass(self, identity: Identity, record: StoredRequest) -> bool:
        """Whether this identity may give the request's session a pass.

        It is for what people see: `decide` asks again.
        """

    async def may_decide(self, identity: Identity, record: StoredRequest) -> str | None:
        """Return None when this identity may decide the request, else the reason as a sentence.

        It is for what people see: `decide` asks again.
        """

    async def doubt_copies(
        self, stood: Callable[[str, MessageRef], bool], *, away: str = ""
    ) -> None:
        """Have the posted cards of waiting requests looked at again, those for which `stood` says
        so of their target and place: the platform tells that they may be gone.

        With `away`, why, nobody can answer there, and the request goes elsewhere.
        """

    async def refuse(self, request_id: str, identity: Identity, why: str) -> None:
        """Write down that somebody was turned away before a click was made of what they did."""


class GrantCalls(Protocol):
    """Remembered decisions."""

    async def newest(
        self, *, ended: bool = False, revocable_by: Identity | None = None
    ) -> list[Grant]:
        """Return the newest with their uses, 500 at most, or those of them that somebody may take
        back. With `ended`, the last 50 that ended, but for denials of a few minutes that ran
        out."""

    async def card(self, grant_id: str) -> GrantCard:
        """Return the card of one, also of one that ended. Raises NotFound."""

    async def revoke(
        self, grant_id: str, identity: Identity, *, copy: str = "", ref: MessageRef | None = None
    ) -> Grant:
        """Take one back: from then on it decides nothing.

        `copy` and `ref` say on which posted card it was pressed. Raises NotFound, Conflict, which
        says how it ended before, and Unauthorized unless they are an admin, made it, or may approve
        there.
        """

    async def revoke_all(
        self, identity: Identity, *, agent: str | None = None, session: str | None = None
    ) -> list[Grant]:
        """Take back all that this person may, or an agent's, or a session's; return those."""

    async def offers(
        self, identity: Identity, agent: str, example: str | ApprovalRequest, effect: Effect
    ) -> tuple[Offer, ...]:
        """Return what may be remembered of an example: a call, or the id of a request.

        Raises Unauthorized unless an admin asks, NotFound, and InvalidRequest when nothing may be.
        """

    async def create(
        self,
        identity: Identity,
        example: str | ApprovalRequest,
        wish: ManualGrantRequest,
        *,
        nonce: str = "",
    ) -> Grant:
        """Write a grant of one of the example's offers; sent again with its nonce, the same one.

        Raises as `offers` does, InvalidRequest also when what is chosen is none of them, and
        Conflict when the nonce made another grant.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """An offer that somebody could have remembered: its id, and in a text why, what it would have
    let through, and what it covers. Secrets are masked."""

    offer: str
    text: str


class SuggestionCalls(Protocol):
    """What people's past answers say about what to remember."""

    async def find_usual(self, record: StoredRequest) -> str:
        """Return the id of the narrowest offer that covers the last ten similar requests. "" where
        people refused one of them, or there are fewer."""

    async def suggest(self, identity: Identity, record: StoredRequest) -> Suggestion | None:
        """Return what this person approves again and again, at most once a week and beside one
        request: one that they may decide, or approved."""

    async def decline(self, identity: Identity, record: StoredRequest, offer: str) -> None:
        """Suggest an offer to this person no more for 90 days. Raises InvalidRequest where the
        request has no such offer, and Unauthorized for whom the policy does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """How the gateway stands: its kill switch, the agents that ask nobody for now, as people denied
    too much of them in a row, and what is wrong, in sentences."""

    switch: KillSwitch
    paused: tuple[Paused, ...]
    troubles: tuple[str, ...]


class OperatorCalls(Protocol):
    """The kill switch, paused agents, sessions, what is declared of tools, and the report."""

    async def status(self, identity: Identity | None = None) -> GatewayStatus:
        """Return how the gateway stands. Troubles are for admins, others are told of none."""

    async def stop_all(self, identity: Identity, *, on: bool) -> None:
        """Deny everything from now on, or lift that again. Raises Unauthorized unless they are an
        admin; that somebody else tried is audited."""

    async def lift(self, agent: str, identity: Identity) -> bool:
        """Let an agent ask again; return whether it was paused. Raises Unauthorized unless the
        person is an admin, or an approver of the agent; that somebody else tried is audited."""

    async def list_sessions(self, agent: str | None) -> list[Session]:
        """Return the sessions that have not ended, of one agent or of all."""

    async def end_session(self, identity: Identity, agent: str, session: str) -> list[str]:
        """End a session, cancel what waits in it, return the ids. Raises Unauthorized unless the
        person is an admin, or an approver of the agent."""

    async def declare(
        self,
        identity: Identity,
        word: ToolWord,
        *,
        confirmed: bool = False,
        about: StoredRequest | None = None,
    ) -> None:
        """Write into the policy what an argument is, or that a tool is harmless. Saying the same
        again changes nothing.

        `about` is the request on whose card it is said. Raises Unauthorized unless they are an
        admin, InvalidRequest for what no policy holds, Unconfirmed where it frees what a name or a
        look holds for an action or a path, and Conflict while the policy keeps changing.
        """

    async def report(
        self, identity: Identity, *, since: int | None = None, until: int | None = None
    ) -> PeriodReport:
        """Return how people decided, in the last 30 days where no period is given. Raises
        Unauthorized for all but admins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterApi:
    """What an adapter works at. `notes` are what it keeps for itself, shared by its replicas;
    `feed` tells what happens, from all replicas of the gateway. `sizes` knows which cards show all
    that would run. `links` sign people in to the inbox; `inbox` is its address as people open it,
    "" where nobody said it. For pages, `logins` sign people in, and `secure` says that browsers
    come over TLS. `claims` take new channels and accounts into the policy."""

    requests: RequestCalls
    grants: GrantCalls
    suggestions: SuggestionCalls
    operator: OperatorCalls
    feed: Feed
    notes: AdapterStorage
    sizes: CardSizes
    links: LoginLinks
    logins: Logins
    claims: ClaimCalls
    inbox: str = ""
    devices: DeviceCalls | None = None
    secure: bool = False

    def address_of(self, request_id: str) -> str:
        """Return where the inbox shows this request, "" where it has no address."""
        return address_of(self.inbox, request_id)

    async def lead_to(self, request_id: str, identity: Identity) -> str:
        """Return where somebody answers what takes a step-up: a link that signs them in once, or
        the request's address where they can be made none, "" without one. It is for them alone."""
        try:
            return (await self.links.make(identity, request_id=request_id)).url
        except GatewayError:  # they sign in as they are used to, and rights are asked there
            return self.address_of(request_id)


def address_of(inbox: str, request_id: str) -> str:
    """Return where the inbox at this address shows a request, "" for no address."""
    return f"{inbox}/r/{request_id}" if inbox else ""
