"""Define the calls that adapters may make, in groups: requests, grants, suggestions and operators.
Start reading at `AdapterApi`.

The core checks the person's rights at each call. `gateway.approvals` implements the groups.
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
from gateway.domain.absences import Absence
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
from gateway.ports.operations import Operations
from gateway.ports.outgoing import AdapterStorage, MessageLinks
from gateway.ports.sign_in import LoginLinks, Logins, Prove
from gateway.wire.codec import JsonObject

# Queue filters, counts and searches.


class QueueFilter(StrEnum):
    """A part of the queue as one person sees it. `mine` has the requests that they may decide and
    have not decided; `others` has the requests that other people must decide."""

    MINE = "mine"
    OTHERS = "others"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """Number of pending requests in each part of the queue. `more` means that some pending requests
    were not counted. In `mine`, `fresh` are newer than `since`, and `newest` is the time of the
    latest."""

    mine: int
    others: int
    more: bool
    fresh: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Search criteria. An empty criterion matches everything.

    `text` must occur in the text of a card. `who` is the person who decided or acted. `outcome` is
    the final status or the kind of event. `since` (inclusive) and `until` (exclusive) are in ms
    since the epoch. `after` is the cursor of an earlier result.
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
    """The requests that match a search. `looked` is how many of the newest requests were searched;
    `next` is the cursor for the next call, or None at the end."""

    items: tuple[StoredRequest, ...]
    looked: int
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvents:
    """The events that match a search, newest first, each with a sentence that describes it.
    `looked` is how many events were searched. `more` means that there are older events or more
    matches."""

    items: tuple[AuditEvent, ...]
    sentences: tuple[str, ...]
    looked: int
    more: bool


# Creating grants without a request.


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualGrantRequest:
    """The grant that an admin wants to create. `chosen` is the ID of an offer for the example call,
    or the offer's match."""

    agent: str
    effect: Effect
    chosen: str | Match
    session: str | None = None
    lifetime: str = "1h"
    max_uses: int | None = None


def build_example(
    *, agent: str, tool: str, kind: Kind, arguments: JsonObject, context: Context
) -> ApprovalRequest:
    """Build a call as this agent would send it. Raises InvalidRequest if no agent could send it."""
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
"""Wait for at most this many seconds. Return whether an event arrived since the last call."""


class Feed(Protocol):
    """A live stream of the events of all replicas."""

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[AuditEvent]]:
        """Subscribe to new events. The subscription is active on entry, so read state
        afterwards."""

    def controls(self) -> AbstractAsyncContextManager[AsyncIterator[AuditEvent]]:
        """Subscribe to policy and grant events, without their data. All other events are
        ignored."""

    def watch(self, request_id: str | None) -> AbstractAsyncContextManager[Wait]:
        """Watch one request, or every request with None. The watch is active on entry."""


Groups = Callable[[], Awaitable[tuple[str, ...]]]
"""Ask the platform for the groups of a person, written as in identities. Raises the adapter's own
error if the platform does not answer."""


class RequestCalls(Protocol):
    """Read and decide requests. Requests that still wait for a policy hook are not found."""

    async def get(self, request_id: str, *, revision: int | None = None) -> StoredRequest:
        """Return a request. Raises NotFound.

        `revision` is the revision that a card shows. The request may have changed since then, but
        `decide` rejects a click on an outdated card.
        """

    async def page(self, query: Query) -> Page:
        """Return one page of requests, in the order that the query names."""

    async def list_queue(
        self, identity: Identity, side: QueueFilter, *, after: str | None = None, limit: int = 50
    ) -> Page:
        """Return one page of a part of the queue, earliest deadline first. A page may hold fewer
        than `limit` requests even if more pages follow."""

    async def count_queue(self, identity: Identity, *, since: int = 0) -> QueueCounts:
        """Count the pending requests in each part of the queue, among the thousand with the
        earliest deadlines. `since` is in ms since the epoch (`QueueCounts.fresh`)."""

    async def search(self, search: Search) -> Found:
        """Return the ended requests that match, newest first, starting after the cursor
        `Search.after`."""

    async def search_events(self, identity: Identity, search: Search) -> FoundEvents:
        """Return the newest events that match. Raises Unauthorized unless the person is an
        admin."""

    async def draw(self, record: StoredRequest, platform: str, *, lines: int, chars: int) -> Card:
        """Build the card of a request for a platform. `lines` and `chars` limit how much of the
        call it shows. `Card.deciders` holds accounts of that platform."""

    async def decide(
        self, click: Click, *, groups: Groups | None = None, prove: Prove | None = None
    ) -> StoredRequest:
        """Apply a click and return the updated request.

        This is the only place that checks rights. `groups` fetches the person's groups from the
        platform; it is called only if the person has no right without them. `prove` verifies the
        passkey for the subject that it gets. Pass `prove` if the click has a passkey assertion.

        Raises NotFound; Conflict if the request ended or the revision is outdated; InvalidRequest
        if the action is not allowed or its content is bad. Raises Unauthorized for people who are
        not approvers, for the requester, and for a card that the gateway did not post there.
        """

    async def decide_all(self, clicks: Sequence[Click]) -> list[StoredRequest]:
        """Apply one person's decision to several requests of one agent: either all clicks are
        applied, or none.

        Raises BatchRefused with a reason for each request, and InvalidRequest.
        """

    async def claim(
        self,
        request_id: str,
        identity: Identity,
        *,
        on: bool = True,
        groups: Groups | None = None,
    ) -> StoredRequest:
        """Record that a person is looking at a request or, with `on=False`, that they stopped.

        Raises the same errors as `decide`.
        """

    async def reveal(self, request_id: str, identity: Identity) -> StoredRequest:
        """Return a request so that this person can see its masked secrets. The audit log records
        this.

        Raises NotFound, and Unauthorized unless they may decide the request or are an admin.
        """

    async def reach(self, request_id: str, offer: str) -> str:
        """Describe how many recent requests an offer would have covered, and how people decided
        them. Raises NotFound, InvalidRequest."""

    async def person(self, identity: Identity) -> Person | None:
        """Return the person with this identity, or None."""

    async def may_pass(self, identity: Identity, record: StoredRequest) -> bool:
        """Return whether this identity may give the request's session a pass.

        Use it for display only; `decide` checks again.
        """

    async def may_decide(self, identity: Identity, record: StoredRequest) -> str | None:
        """Return None if this identity may decide the request, or the reason why not as a sentence.

        Use it for display only; `decide` checks again.
        """

    async def doubt_copies(
        self, stood: Callable[[str, MessageRef], bool], *, away: str = ""
    ) -> None:
        """Check the cards of pending requests again, because the platform reports that some may be
        gone. The callback selects the cards by target and message reference.

        `away` is the reason why nobody can answer there. If it is set, the requests are posted at
        other targets.
        """

    async def refuse(self, request_id: str, identity: Identity, why: str) -> None:
        """Record in the audit log an attempt that the adapter rejected before it built a click."""


class GrantCalls(Protocol):
    """List, revoke and create grants."""

    async def newest(
        self, *, ended: bool = False, revocable_by: Identity | None = None
    ) -> list[Grant]:
        """Return the newest grants with their use counts, at most 500. With `revocable_by`, return
        only grants that this identity may revoke. With `ended=True`, return the last 50 ended
        grants instead, without expired denials that lasted only a few minutes."""

    async def card(self, grant_id: str) -> GrantCard:
        """Return the card of a grant, even of an ended one. Raises NotFound."""

    async def revoke(
        self, grant_id: str, identity: Identity, *, copy: str = "", ref: MessageRef | None = None
    ) -> Grant:
        """Revoke a grant. Matching requests require approval again.

        `copy` and `ref` identify the posted card that was clicked. Raises NotFound, and Conflict if
        the grant already ended. Raises Unauthorized unless the person is an admin, made the grant,
        or may approve on its route.
        """

    async def revoke_all(
        self, identity: Identity, *, agent: str | None = None, session: str | None = None
    ) -> list[Grant]:
        """Revoke all grants of an agent, of a session, or of all agents, if this person may revoke
        them. Return these grants."""

    async def offers(
        self, identity: Identity, agent: str, example: str | ApprovalRequest, effect: Effect
    ) -> tuple[Offer, ...]:
        """Return the grants that an example allows. `example` is a call or the ID of a request.

        Raises Unauthorized unless the person is an admin, NotFound, and InvalidRequest if no grant
        is possible.
        """

    async def create(
        self,
        identity: Identity,
        example: str | ApprovalRequest,
        wish: ManualGrantRequest,
        *,
        nonce: str = "",
    ) -> Grant:
        """Create a grant from one of the example's offers. Idempotent for the same `nonce`.

        Raises the same errors as `offers`, InvalidRequest if `wish.chosen` is not an offer, and
        Conflict if the nonce created a different grant.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A suggested grant. `offer` is the ID of its offer. `text` says why it is suggested, which
    requests it would have approved, and its scope. Secrets are masked."""

    offer: str
    text: str


class SuggestionCalls(Protocol):
    """Suggest grants from people's past decisions."""

    async def find_usual(self, record: StoredRequest) -> str:
        """Return the ID of the narrowest offer that covers the last ten similar requests. Return ""
        if there are fewer than ten, or if people denied one of them."""

    async def suggest(self, identity: Identity, record: StoredRequest) -> Suggestion | None:
        """Return an offer that covers requests that this person often approves, at most once a
        week. Show it on one request that they may decide or have approved."""

    async def decline(self, identity: Identity, record: StoredRequest, offer: str) -> None:
        """Stop suggesting an offer to this person for 90 days. Raises InvalidRequest if the request
        has no such offer, and Unauthorized if the policy does not know the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """The state of the gateway: the kill switch, the agents in a cool-down after several denials in
    a row, and current problems as sentences."""

    switch: KillSwitch
    paused: tuple[Paused, ...]
    troubles: tuple[str, ...]


class OperatorCalls(Protocol):
    """Control the kill switch, agents in a cool-down, sessions and tool declarations, and get the
    report."""

    async def status(self, identity: Identity | None = None) -> GatewayStatus:
        """Return the state of the gateway. Only admins get `troubles`."""

    async def stop_all(self, identity: Identity, *, on: bool) -> None:
        """Turn the kill switch on, which denies every request, or off. Raises Unauthorized unless
        the person is an admin; a rejected attempt is audited."""

    async def lift(self, agent: str, identity: Identity) -> bool:
        """End an agent's cool-down; return whether there was one. Raises Unauthorized unless the
        person is an admin or an approver of the agent; a rejected attempt is audited."""

    async def list_sessions(self, agent: str | None) -> list[Session]:
        """Return the active sessions of one agent, or of all agents."""

    async def end_session(self, identity: Identity, agent: str, session: str) -> list[str]:
        """End a session, cancel its pending requests and return their IDs. Raises Unauthorized
        unless the person is an admin or an approver of the agent."""

    async def declare(
        self,
        identity: Identity,
        word: ToolWord,
        *,
        confirmed: bool = False,
        about: StoredRequest | None = None,
    ) -> None:
        """Save a declaration in the policy: the role of an argument, or that a tool is harmless.
        Idempotent.

        `about` is the request whose card was used. Raises Unauthorized unless the person is an
        admin, InvalidRequest if no policy can hold the declaration, and Conflict if the policy
        keeps changing. Raises Unconfirmed if it relaxes an argument that looks like an action or a
        path.
        """

    async def report(
        self, identity: Identity, *, since: int | None = None, until: int | None = None
    ) -> PeriodReport:
        """Return statistics of decisions, by default for the last 30 days. Raises Unauthorized
        unless the person is an admin."""


class AwayCalls(Protocol):
    """A person's own absence. The calls raise Unauthorized for people not in the policy."""

    async def find(self, identity: Identity) -> tuple[Absence | None, tuple[str, ...]]:
        """Return the person's absence, if any, and the people whom they may name."""

    async def leave(self, identity: Identity, delegate: str, until: int, zone: str) -> str:
        """Have a delegate, a name or an identity, asked instead of this person until a time in ms.
        Return a sentence that confirms it. Idempotent. Raises InvalidRequest for a time that is
        past or too late, and for anybody whom the person may not name."""

    async def come_back(self, identity: Identity) -> str:
        """End the person's absence. Return a sentence that confirms it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterApi:
    """Everything from the gateway that a running adapter can use.

    `notes` is a storage that the adapter's replicas share. `feed` delivers the events of all
    replicas. `sizes` knows which cards show the complete call. `links` creates sign-in links.
    `inbox` is the public address of the inbox, or "". `logins` signs people in on web pages.
    `secure` means that browsers connect over TLS. `claims` adds new channels and accounts to the
    policy. `messages` has the addresses of messages in chats; an adapter adds its own function for
    them when it runs. `away` names delegates. `inspect` returns the state of all gateways. It
    raises Unauthorized unless the person is an admin.
    """

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
    messages: MessageLinks
    away: AwayCalls
    inspect: Callable[[Identity], Awaitable[Operations]]
    inbox: str = ""
    devices: DeviceCalls | None = None
    secure: bool = False

    def address_of(self, request_id: str) -> str:
        """Return the inbox address of this request, or "" if the inbox has no address."""
        return address_of(self.inbox, request_id)

    async def lead_to(self, request_id: str, identity: Identity) -> str:
        """Return a link to the inbox for a decision that needs extra verification. The link signs
        this person in once, so show it only to them. If there can be no sign-in link, return the
        request's address, or ""."""
        try:
            return (await self.links.make(identity, request_id=request_id)).url
        except GatewayError:  # they sign in the usual way, and the core checks their rights
            return self.address_of(request_id)


def address_of(inbox: str, request_id: str) -> str:
    """Return the address of a request in the inbox with this address, or "" if the inbox has no
    address."""
    return f"{inbox}/r/{request_id}" if inbox else ""
