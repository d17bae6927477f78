"""Define the messages between the core and an adapter: posted cards, notices and errors. Start
reading at `Outbox`.

An adapter posts each card as one message on its platform and reports the result. The core stores
where each card was posted. An adapter knows neither the policy nor Redis.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from gateway.cards.card import TO_ORIGIN, Card
from gateway.cards.grant_cards import GrantCard
from gateway.domain.records import MessageRef, StoredRequest
from gateway.errors import GatewayError
from gateway.models import Origin
from gateway.wire.codec import Wire

log = logging.getLogger("gateway.ports")

_LINK_SECONDS = 2.0
Shown = Card | GrantCard
"""Content of a posted message: a request, the overflow card of an agent, or a grant."""

# Queues and posted cards identify a grant by this prefix and its ID, a request by its ID alone.
GRANT = "grant:"


def is_grant(subject_id: str) -> bool:
    """Return whether the ID belongs to a grant."""
    return subject_id.startswith(GRANT)


class CopyState(StrEnum):
    """The state of one posted card (a copy)."""

    DUE = "due"  # not posted yet
    INTENDED = "intended"  # being posted; after a crash, unknown whether it was
    POSTED = "posted"
    FAILED = "failed"  # the platform rejected it, so nobody sees it
    GONE = "gone"  # posted once, and can no longer be edited
    STUCK = "stuck"  # posted but outdated: the platform rejected too many edits


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Wire):
    """One posted card, which the code calls a copy: its target, its state, and the revision that it
    currently shows.

    `nonce` is stored before posting and is part of the buttons. So if the gateway crashes just
    after posting, the first click on the card identifies it. `revision` is the revision that the
    card shows. `reminders` counts the reminders sent. `count` is the number of similar requests
    that the card shows, first seen at `counted`. `outcome` marks a notice about the final outcome
    instead of a card. `why` is the platform's error. `tries` counts rejected edits to revision
    `tried`, or attempts to send an outcome. `at` is the time of the last change, or of the next
    attempt. A `disarmed` card has no buttons because the request ended. An `away` card is at a
    place that the gateway cannot reach, so nobody can answer there until an edit succeeds.
    `reposts` counts how often the card was deleted and posted again.
    """

    target: str
    nonce: str
    state: CopyState
    at: int
    ref: MessageRef | None = None
    revision: int = 0
    reminders: int = 0
    count: int = 0
    counted: int = 0
    outcome: bool = False
    why: str = ""
    tries: int = 0
    tried: int = 0
    disarmed: bool = False
    away: bool = False
    reposts: int = 0

    @property
    def key(self) -> str:
        """The key that identifies this copy among the copies of its request."""
        return f"outcome {self.target}" if self.outcome else self.target


class NoticeKind(StrEnum):
    """The subject of a notice."""

    REMINDER = "reminder"  # in the thread of the card, to people who may decide
    OUTCOME = "outcome"  # to the requester, or to people who want to know


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A short message about a card. `ref` is the card that the notice belongs to, or None for a
    separate message.

    `target` is where to post it. `mentions` are the approvers to mention, as identities and groups
    without the platform's name. `deciders` names who may decide, and who is away, in sentences. A
    `discreet` notice shows only the card's summary.
    """

    kind: NoticeKind
    target: str
    nonce: str
    ref: MessageRef | None = None
    mentions: tuple[str, ...] = ()
    deciders: str = ""
    discreet: bool = False


class DeliveryFailed(GatewayError):
    """The platform rejected the call permanently, for example because the channel does not
    exist."""

    code: ClassVar[str] = "delivery_failed"


class CopyGone(DeliveryFailed):
    """The message no longer exists, or can never be edited again.

    `deleted` means that no button is left and that the card may be posted there again. If the
    obstacle can disappear (missing access, a permission, a lock), raise the error of a failed edit
    instead.
    """

    code = "copy_gone"

    def __init__(self, why: str, *, deleted: bool = False) -> None:
        super().__init__(why)
        self.deleted = deleted


class DeliveryUncertain(DeliveryFailed):
    """The message was sent, but no response came, so it may or may not exist."""

    code = "delivery_uncertain"


class RetryLater(DeliveryFailed):
    """Nothing was done; try again in `seconds`. `unsent` means that the call did not reach the
    platform."""

    code = "try_later"

    def __init__(self, seconds: float, why: str = "", *, unsent: bool = False) -> None:
        super().__init__(why or f"try again in {seconds:.1f} s")
        self.seconds, self.unsent = seconds, unsent


class Limited(RetryLater):
    """The platform rejects all calls of this kind for `seconds`, because there were too many."""

    code = "limited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A leased queue entry: a request or grant whose posted cards must be checked."""

    request_id: str
    lease: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxFigures(Wire):
    """The delivery state of one adapter. Times are in seconds.

    `waiting` cards are due, the oldest since `overdue`. `stale` cards still have buttons although
    their request ended, the oldest since `oldest_stale`.
    """

    adapter: str
    waiting: int
    overdue: float
    stale: int
    oldest_stale: float


class Outbox(Protocol):
    """Durable delivery queues, one for each adapter that posts. Leases expire by the Redis server's
    clock."""

    async def lease_due(self, queue: str, *, limit: int, lease_ms: int) -> list[Task]:
        """Lease up to `limit` entries that are due."""

    async def ack(self, queue: str, task: Task, *, again_ms: int | None = None) -> bool:
        """Remove an entry or, with `again_ms`, postpone it. Return False if the entry changed since
        the lease."""

    async def renew(self, queue: str, task: Task, *, lease_ms: int) -> Task | None:
        """Extend a lease. Return None if the entry changed since the lease."""

    async def queued(self, queue: str, *, limit: int) -> list[tuple[str, int]]:
        """Return up to `limit` entries of a queue, each with its due time in ms since the epoch."""

    async def mark(self, queue: str, request_id: str) -> None:
        """Make an entry due now."""

    async def copies(self, request_id: str) -> dict[str, Copy]:
        """Return the posted cards of a request by key."""

    async def put_copy(self, request_id: str, copy: Copy, *, before: Copy | None) -> bool:
        """Save a copy if the stored one still equals `before`. Return whether it was saved."""

    async def forget(self, request_id: str, copy: Copy) -> None:
        """Delete a copy if it is unchanged, so that a new card can be posted there."""


class AdapterStorage(Protocol):
    """The storage of an adapter: short strings by name, shared by its replicas."""

    async def get(self, name: str) -> str | None:
        """Return the string with this name, or None."""

    async def put(self, name: str, text: str, *, seconds: float | None = None) -> None:
        """Save a string for `seconds`, or permanently if None."""

    async def put_new(self, name: str, text: str, *, seconds: float) -> bool:
        """Save a string unless the name exists. Return whether it was saved."""

    async def extend(self, name: str, text: str, *, seconds: float) -> bool:
        """Set a new expiry if the stored string still equals `text`. Return whether it did."""

    async def delete(self, name: str) -> None:
        """Delete a string."""

    async def take_turn(
        self,
        budget: str,
        name: str,
        *,
        rank: int,
        most: int,
        seconds: float,
        leave: int,
        about: str = "",
    ) -> float:
        """Take a turn of a rate budget that all replicas share, and return the seconds to wait. 0
        means that the turn was taken.

        The budget allows `most` calls in `seconds`; `leave` of them stay free for other calls. A
        `name` that must wait joins a line, lowest `rank` first. If its turn comes early, the
        adapter's queue handles the subject with the ID `about` again.
        """

    async def leave_line(self, budget: str, name: str, *, most: int, seconds: float) -> None:
        """Remove a name from the line of a budget."""

    async def return_turn(self, budget: str, name: str) -> None:
        """Return the last turn that this name took from a budget."""

    async def shut(self, budget: str, *, seconds: float) -> None:
        """Block all turns of a budget for `seconds`."""

    async def delay(self, budget: str, *, per_minute: float, burst: int) -> float:
        """Take one call from a budget that all replicas share. Return the seconds to wait first."""


Link = Callable[[str, MessageRef], Awaitable[str]]
"""Returns the web address of a message at a target, built from ids only; or "" for a malformed id,
and for a workspace or server that the gateway does not serve. May raise anything."""


class MessageLinks:
    """Web addresses of messages in chats. Each running adapter adds its own to `links`."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.links: dict[str, Link] = {}

    async def link(self, target: str, ref: MessageRef) -> str:
        """Return the web address of a message, or "". Never raises: a link is optional."""
        if (link := self.links.get(ref.adapter)) is None:
            return ""
        try:
            async with asyncio.timeout(_LINK_SECONDS):
                found = await link(target, ref)
        except Exception as error:  # the platform is down, or the adapter is third-party code
            log.debug("no link: %s", type(error).__name__, extra={"event": "no_link"})
            return ""
        return found if found.startswith("https://") else ""

    async def link_cards(self, request_id: str) -> dict[str, str]:
        """Return the web addresses of a request's cards, with labels."""
        copies = (await self._outbox.copies(request_id)).values()
        found = {
            await self.link(copy.target, copy.ref): f"Open the card in {copy.ref.adapter.title()}"
            for copy in copies
            if copy.ref is not None and copy.state in (CopyState.POSTED, CopyState.STUCK)
        }
        return {url: label for url, label in found.items() if url}

    async def link_origin(self, origin: Origin) -> str:
        """Return the web address of the message that an agent names as the origin, or ""."""
        if not (origin.channel and origin.chat and origin.message):
            return ""
        ref = MessageRef(adapter=origin.channel, channel=origin.chat, message=origin.message)
        return await self.link(f"{origin.channel}:{origin.chat}", ref)

    async def link_all(self, record: StoredRequest) -> dict[str, str]:
        """Return the web addresses of a request's cards and its origin, with labels."""
        origin = await self.link_origin(record.request.origin)
        return {**await self.link_cards(record.id), **({origin: TO_ORIGIN} if origin else {})}
