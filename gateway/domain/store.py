"""What the core asks of durable state: one atomic step for each change, and how it came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from gateway.domain.policy_document import Budget, PolicyDocument
from gateway.domain.records import AuditEvent, Page, Query, Session, Spend, StoredRequest
from gateway.models import Status
from gateway.wire.codec import JsonObject

REROUTING = "rerouting"
"""The outbox on which every waiting request is put when the policy is replaced."""

DECIDED_DAYS = 14


class WriteResult(StrEnum):
    """What a script did: one of these words."""

    OK = "ok"
    REPLAY = "replay"
    EXISTS = "exists"
    STALE = "stale"
    GONE = "gone"
    AGAIN = "again"
    STOPPED = "stopped"
    LATE = "late"
    EARLY = "early"
    CLOCK = "clock"
    SPENT = "spent"
    OVER_LIMIT = "over limit"
    CROWDED = "crowded"
    PAUSED = "paused"
    FULL = "full"
    DENIED = "denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext:
    """The message behind a store call: whom to answer, and the ingress entry to delete with it.

    `entry` is None for messages that came over HTTP, which is answered directly; `arrived_ms` is
    when an entry was written. `owner` is the person whom the agent's credential belongs to, and
    `since` when it was given this name: requests from before are somebody else's.
    """

    agent: str
    process: str | None = None
    owner: str | None = None
    since: int = 0
    arrived_ms: int | None = None
    verb: str = ""
    nonce: str = ""
    entry: str | None = None


class ChangeKind(StrEnum):
    """The kind of a change. What protects a change follows from its kind (see `Transition.guards`).

    DECISION: a person, a rule or a policy hook decided, or votes were counted. USE: an agent takes
    an approval. STEP: what waits moves on, such as a reminder or a claim. EXPIRY: its time is over.
    FACT: it was withdrawn, stopped, reported or erased, which holds at any time.
    """

    DECISION = "decision"
    USE = "use"
    STEP = "step"
    EXPIRY = "expiry"
    FACT = "fact"


class Guards(NamedTuple):
    """What must hold at the instant when a change is written.

    `clock` is `before` (refused as late once the deadline has passed), `after` (refused as early
    until then) or empty. `generation` must be that of the policy in force, unless it is None. The
    kill switch refuses what is `stoppable`.
    """

    clock: str = ""
    generation: int | None = None
    stoppable: bool = False


class Transition(NamedTuple):
    """One change of a record, applied only if all its guards hold at that instant.

    `after` replaces `before` if its revision is still current. A decision names the `generation` of
    the policy that it was made under. What rests on a `number` is refused unless that is the
    request's. With the agent's `budget`, as when a person decided, denials in a row are counted. A
    denial answers the same call for so many `minutes`. The event says `data`, that of an ending
    what the decision says.
    """

    before: StoredRequest
    after: StoredRequest
    event: str
    kind: ChangeKind = ChangeKind.DECISION
    data: JsonObject | None = None
    generation: int | None = None
    secrets: JsonObject | None = None
    budget: Budget | None = None
    number: str = ""
    minutes: int = 0

    def guards(self) -> Guards:
        """Return what protects this change. Raises ValueError for a decision without a policy."""
        match self.kind:
            case ChangeKind.DECISION:
                if self.generation is None:
                    raise ValueError("a decision names the policy that it was made under")
                goes_on = self.after.status in (Status.PENDING, Status.APPROVED)
                return Guards("before", self.generation, stoppable=goes_on)
            case ChangeKind.USE:
                return Guards("before", stoppable=True)
            case ChangeKind.STEP:
                return Guards("before")
            case ChangeKind.EXPIRY:
                return Guards("after")
            case ChangeKind.FACT:
                return Guards()


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What the clock asks for at `now`, in ms by the server's time: requests past their deadline,
    lapsed processes, idle sessions, and requests that wait although the kill switch is on."""

    now: int
    expired: tuple[str, ...] = ()
    lapsed: tuple[tuple[str, str], ...] = ()
    idle: tuple[tuple[str, str], ...] = ()
    stopped: tuple[str, ...] = ()


class Store(Protocol):
    """Durable state. Every write is one atomic script that validates before it writes.

    None of these methods sets the status of a request: see `WritableStore`.
    """

    async def load(self, request_id: str) -> StoredRequest | None:
        """Return the record as it stands, or None."""

    def recent(self, request_id: str) -> StoredRequest | None:
        """Return a pending record as this process last saw it, or None. Perhaps out of date:
        it may begin a transition, whose guards have the last word, and is told to nobody."""

    async def load_many(self, request_ids: Sequence[str]) -> list[StoredRequest | None]:
        """Return the records in the order asked for, None where there is none, or one that cannot
        be read: it is logged, and does not hide the others."""

    async def attach(self, request_ids: Sequence[str], origin: MessageContext) -> list[str]:
        """Attach a process to requests, renew its lease, answer each; return the ids it may see."""

    async def answer(
        self,
        origin: MessageContext,
        *,
        request_id: str = "",
        state: JsonObject | None = None,
        error: JsonObject | None = None,
    ) -> None:
        """Answer a message that changed nothing, and delete its entry."""

    async def add_version(self, call: str, request_id: str) -> list[str]:
        """Note a request of a part of a host's call, for an hour unless one of them is stored;
        return the ids of the others of that part."""

    async def keep_versions(self, call: str) -> None:
        """Keep the versions of a part of a call as long as a request may live: one was stored."""

    async def secrets(self, request_id: str) -> JsonObject | None:
        """Return the secret answers of a question, kept until its deadline."""

    async def number_of(self, request_id: str) -> str | None:
        """Return the number that is shown where a waiting request's agent waits; None without.

        It is for that agent, and for the comparison with what somebody typed: no record holds it.
        """

    async def counted(self, spends: Sequence[Spend]) -> list[int]:
        """Return what is counted already in the window of each of these."""

    async def forget_secrets(self, request_id: str) -> None:
        """Drop the secret answers, now that the asking process has them."""

    async def page(self, query: Query) -> Page:
        """Return one page of requests, in the order that the query names."""

    async def list_decided(self, agent: str, tool: str, *, limit: int) -> list[str]:
        """Return the ids of what people approved or denied of an agent's use of a tool within
        DECIDED_DAYS, the newest first."""

    async def pending_of(self, agent: str) -> list[str]:
        """Return the ids of an agent's pending requests, oldest first."""

    async def list_voted(self) -> list[str]:
        """Return the ids of the waiting requests that somebody has approved already."""

    async def count_pending(self) -> int:
        """Return how many requests wait."""

    async def oldest_pending(self) -> int | None:
        """Return when the oldest request that waits was asked, in ms; None when none waits."""

    async def event_counts(self) -> dict[str, int]:
        """Return how often each thing happened, as far as events are sealed; see
        `gateway.domain.audit`."""

    async def sessions(self, agent: str | None) -> list[Session]:
        """Return the sessions that have not ended, the most recent first."""

    async def touch_session(self, agent: str, session: str) -> None:
        """Begin the idle time of a session anew, unless it has ended."""

    async def end_session(self, agent: str, session: str) -> bool:
        """Forget a session; return whether there was one."""

    async def due(self, *, idle_ms: int, limit: int) -> Due:
        """Return what has become due by the server's time."""

    async def expire_process(self, agent: str, process: str) -> list[str]:
        """Say on its requests that a process is gone, once its lease ran out; return their ids."""

    async def policy(self) -> PolicyDocument:
        """Return the policy in force."""

    async def generation(self) -> int:
        """Return the generation of the policy in force."""

    async def apply(self, policy: PolicyDocument, *, by: str) -> int:
        """Replace the policy whose generation this one carries; return the new generation.

        Every waiting request comes upon the outbox REROUTING with it. Raises Conflict when another
        one was applied meanwhile.
        """

    async def note(
        self, event: str, *, agent: str = "", data: JsonObject, urgent: bool = False
    ) -> str:
        """Append an event that changes no request, an urgent one also while the server's memory is
        full; return its id."""

    async def set_stopped(self, stopped: bool, *, by: str) -> None:
        """Turn the kill switch on or off."""

    async def stopped_by(self) -> tuple[str, int] | None:
        """Return who turned the kill switch on and when, in ms, "" and 0 where nobody knows whether
        it is on; None while it is off."""

    async def is_stopped(self) -> bool | None:
        """Tell whether the kill switch is on; None where nobody knows, which counts as on."""

    async def history(self, after: str | None, limit: int) -> list[AuditEvent]:
        """Return up to `limit` events after a stream id, from the oldest kept when it is None."""

    async def latest(self, count: int) -> list[AuditEvent]:
        """Return the last events, the newest last."""


class WritableStore(Store, Protocol):
    """Durable state with the three calls that set what a request is: made by
    `gateway.approvals.request_writer` alone."""

    async def create(
        self,
        record: StoredRequest,
        origin: MessageContext,
        *,
        generation: int,
        data: JsonObject,
        timeout_ms: int,
        budget: Budget,
        posts: bool,
        number: str = "",
    ) -> tuple[WriteResult, StoredRequest]:
        """Create a record, pending or already decided, and answer the message.

        A `number` is kept beside the record, and told to who waits.

        The deadline is min(arrival, server's time) + timeout. What waits is held to the agent's
        `budget`; `posts` tells whether it would get cards. Results: OK with the record as stored;
        EXISTS, AGAIN, STOPPED, LATE, SPENT, OVER_LIMIT, CROWDED, PAUSED with nothing written; CLOCK
        when the decision's expiry is not that deadline: `created` of the returned record is then
        the server's time.
        """

    async def change(
        self, transition: Transition, origin: MessageContext | None = None
    ) -> WriteResult:
        """Apply a transition, answer the message, push terminal ones to every attached process.

        Results: OK, REPLAY, STALE, GONE, AGAIN, STOPPED, LATE, EARLY, SPENT, OVER_LIMIT.
        """

    async def change_all(self, transitions: Sequence[Transition]) -> tuple[WriteResult, str]:
        """Apply all these transitions in one step, or none; return `change`'s outcome, and the id
        of the request for which they were refused."""
