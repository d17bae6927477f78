"""What the core and an adapter that posts cards say to each other: copies, notices, and failures.

An adapter translates one card into one message of its platform and says plainly what became of it.
It knows neither policy nor Redis; what was posted where is kept by the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from gateway.cards.card import Card
from gateway.cards.grant_cards import GrantCard
from gateway.domain.records import MessageRef
from gateway.errors import GatewayError
from gateway.wire.codec import Wire

Shown = Card | GrantCard
"""What a posted message shows: a request, also the overflow of an agent, or a grant."""

# Queues and copies call a remembered decision by this and its id; a request by its id alone.
GRANT = "grant:"


def is_grant(subject_id: str) -> bool:
    """Whether what queues and copies call so is a remembered decision."""
    return subject_id.startswith(GRANT)


class CopyState(StrEnum):
    """How far one copy has come."""

    DUE = "due"  # not sent yet
    INTENDED = "intended"  # being posted: after a crash nobody knows whether it was
    POSTED = "posted"
    FAILED = "failed"  # the platform refused it; nobody sees it there
    GONE = "gone"  # it was there once and cannot be changed any more
    STUCK = "stuck"  # it stands there, out of date: the platform refused the edit too often


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Wire):
    """One copy of a card: where it should stand, where it stands, and what it shows.

    `nonce` is kept before posting, and stands in the copy's buttons, so that a copy posted just
    before a crash is recognised by its first click. `revision` is the one it shows; `reminders` how
    many it was given; `count` the number that it says, since `counted`. With `outcome` it is no
    card, but the notice of how the request ended. `why` is the platform's answer to a failure.
    `tries` counts the edits to revision `tried` that were refused, and how often an outcome was
    told. `at` is when this was written down, or when it may be tried again. One that is `disarmed`
    offers nothing more to press: it shows the end. Where the gateway is locked out it is `away`:
    nobody can answer on it until it is edited again. `reposts` counts how often it was deleted and
    posted again.
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
        """What tells it from the other copies of its request."""
        return f"outcome {self.target}" if self.outcome else self.target


class NoticeKind(StrEnum):
    """What a notice is about."""

    REMINDER = "reminder"  # in the copy's thread, to those who may decide
    OUTCOME = "outcome"  # to who asked, or who wants to know


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A short message beside a card. `ref` is the copy it belongs to, None for one of its own.

    `target` is where it goes. `mentions` are the approvers to call, as this platform's identities
    and groups without its name. A `discreet` one says only the card's summary.
    """

    kind: NoticeKind
    target: str
    nonce: str
    ref: MessageRef | None = None
    mentions: tuple[str, ...] = ()
    discreet: bool = False


class DeliveryFailed(GatewayError):
    """The platform refuses this for good, for example because the channel is not there."""

    code: ClassVar[str] = "delivery_failed"


class CopyGone(DeliveryFailed):
    """The message is not there any more, or can never be changed again.

    One that was `deleted` left nothing to press, at a place where another may be posted. What may
    come back (access, a permission, a lock) is an edit that was refused, not a copy that is gone.
    """

    code = "copy_gone"

    def __init__(self, why: str, *, deleted: bool = False) -> None:
        super().__init__(why)
        self.deleted = deleted


class DeliveryUncertain(DeliveryFailed):
    """It was sent, and no answer came: it may be there."""

    code = "delivery_uncertain"


class RetryLater(DeliveryFailed):
    """Nothing was done; the platform may take it in `seconds`. What is `unsent` it never saw."""

    code = "try_later"

    def __init__(self, seconds: float, why: str = "", *, unsent: bool = False) -> None:
        super().__init__(why or f"try again in {seconds:.1f} s")
        self.seconds, self.unsent = seconds, unsent


class Limited(RetryLater):
    """The platform refuses such calls, not only this one, for so long: too many were made."""

    code = "limited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One request, or remembered decision, that an outbox must look at, and the lease on it."""

    request_id: str
    lease: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxFigures:
    """How true an adapter's cards are. Times are in seconds.

    `waiting` cards are to be looked at, the longest of them `overdue`. `stale` copies still have
    buttons although their request ended, the first of them `oldest_stale` ago.
    """

    adapter: str
    waiting: int
    overdue: float
    stale: int
    oldest_stale: float


class Outbox(Protocol):
    """The durable queues behind every adapter that posts. Leases are scores of the server's
    clock."""

    async def lease_due(self, queue: str, *, limit: int, lease_ms: int) -> list[Task]:
        """Lease up to `limit` requests that are due."""

    async def ack(self, queue: str, task: Task, *, again_ms: int | None = None) -> bool:
        """Take a request off the queue, or put it off; False when it became dirty meanwhile."""

    async def renew(self, queue: str, task: Task, *, lease_ms: int) -> Task | None:
        """Make a lease longer; None when the request became dirty meanwhile."""

    async def queued(self, queue: str, *, limit: int) -> list[tuple[str, int]]:
        """Return up to `limit` of what is on a queue, each with when it is due, in ms."""

    async def mark(self, queue: str, request_id: str) -> None:
        """Have a queue look at a request now."""

    async def copies(self, request_id: str) -> dict[str, Copy]:
        """Return what is known of a request's copies, by key."""

    async def put_copy(self, request_id: str, copy: Copy, *, before: Copy | None) -> bool:
        """Store a copy if it is still as it was before."""

    async def forget(self, request_id: str, copy: Copy) -> None:
        """Forget a copy, if it is still like this: another one may be posted at its place."""


class AdapterStorage(Protocol):
    """What an adapter keeps for itself: small texts by name, each with an end."""

    async def get(self, name: str) -> str | None:
        """Return a note."""

    async def put(self, name: str, text: str, *, seconds: float | None = None) -> None:
        """Keep a note, for ever without an end."""

    async def put_new(self, name: str, text: str, *, seconds: float) -> bool:
        """Keep a note unless there is one; return whether it was kept."""

    async def extend(self, name: str, text: str, *, seconds: float) -> bool:
        """Give a note that still says `text` a new end; return whether it did."""

    async def delete(self, name: str) -> None:
        """Drop a note."""

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
        """Take a turn of a budget that all replicas share: at most so many calls in so many
        seconds, `leave` of which are left to others. Return the seconds to wait first, 0 when the
        turn is taken; meanwhile the name stands in line, the lowest rank first. When its turn comes
        sooner than that, the adapter's queue looks at the subject with the id `about` again."""

    async def leave_line(self, budget: str, name: str, *, most: int, seconds: float) -> None:
        """Give up a place in the line of a budget."""

    async def return_turn(self, budget: str, name: str) -> None:
        """Give back the last turn that this name took of a budget."""

    async def shut(self, budget: str, *, seconds: float) -> None:
        """Have nobody take a turn of a budget for so long."""

    async def delay(self, budget: str, *, per_minute: float, burst: int) -> float:
        """Spend one of a budget that all replicas share; return the seconds to wait first."""
