"""Define the durable state that the core needs: changes, guards and results. Start reading at
`Store`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from gateway.domain.policy_document import Budget, PolicyDocument
from gateway.domain.records import AuditEvent, Page, Query, Session, Spend, StoredRequest
from gateway.models import Status
from gateway.wire.codec import JsonObject

REROUTING = "rerouting"
"""The outbox that gets every pending request when the policy is replaced."""

DECIDED_DAYS = 14


class WriteResult(StrEnum):
    """The result of a script that writes."""

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
    """The message that caused a store call: the sender, who gets an answer, and the ingress entry
    to delete.

    HTTP messages have no `entry`, because they get a direct answer; `arrived_ms` is when the entry
    was written. `owner` is the owner of the agent's credential. `since` is when the credential got
    this agent's name; earlier requests with the name belong to a previous agent.
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
    """The kind of a change, which determines its guards (see `Transition.guards`).

    DECISION: a person, a rule or a policy hook decided, or votes were counted. USE: an agent claims
    an approval. STEP: a pending request changes without a decision, for example by a reminder.
    EXPIRY: the request's deadline passed. FACT: the request was cancelled, stopped, reported or
    erased, which is valid at any time.
    """

    DECISION = "decision"
    USE = "use"
    STEP = "step"
    EXPIRY = "expiry"
    FACT = "fact"


class Guards(NamedTuple):
    """Conditions that must hold at the moment when a change is written.

    `clock` is `before` (after the deadline, the change is rejected as late), `after` (before the
    deadline, it is rejected as early) or empty. `generation`, unless None, must be the generation
    of the active policy. While the kill switch is on, `stoppable` changes are rejected.
    """

    clock: str = ""
    generation: int | None = None
    stoppable: bool = False


class Transition(NamedTuple):
    """One change of a record, applied only if all its guards hold at that moment.

    `after` replaces `before` if the revision of `before` is still current. A decision names the
    `generation` of the policy that it was made under. If `number` is set, it must equal the
    request's verification code. If the agent's `budget` is given, which it is for a person's
    decision, denials in a row are counted. For `minutes` after a denial, an identical call is
    denied too. `grants`, each a `gateway.policy.grants.grant.Grant`, are saved in the same step.
    `data` is added to the event; a decision's event also has the decision.
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
    grants: tuple[Any, ...] = ()

    def guards(self) -> Guards:
        """Return the guards. Raises ValueError for a decision without a policy generation."""
        match self.kind:
            case ChangeKind.DECISION:
                if self.generation is None:
                    raise ValueError("a decision needs the generation of its policy")
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
    """Work that is due at `now`, in ms of the Redis server's time.

    The work consists of expired requests, processes with expired leases, idle sessions, and
    requests that the kill switch must end.
    """

    now: int
    expired: tuple[str, ...] = ()
    lapsed: tuple[tuple[str, str], ...] = ()
    idle: tuple[tuple[str, str], ...] = ()
    stopped: tuple[str, ...] = ()


class Store(Protocol):
    """Durable state. Each write is one atomic script, which checks its guards before it writes.

    None of these methods sets the status of a request: see `WritableStore`.
    """

    async def load(self, request_id: str) -> StoredRequest | None:
        """Return the current record, or None."""

    def recent(self, request_id: str) -> StoredRequest | None:
        """Return a pending record as this process last saw it, or None. It may be out of date, so
        never show it. Use it only to begin a transition, whose guards check it."""

    async def load_many(self, request_ids: Sequence[str]) -> list[StoredRequest | None]:
        """Return the records in the same order, with None for each that is missing or unreadable.
        Unreadable records are logged."""

    async def attach(self, request_ids: Sequence[str], origin: MessageContext) -> list[str]:
        """Attach a process to requests, renew its lease, and answer each request. Return the ids
        that it may see."""

    async def answer(
        self,
        origin: MessageContext,
        *,
        request_id: str = "",
        state: JsonObject | None = None,
        error: JsonObject | None = None,
    ) -> None:
        """Answer a message that changed nothing, and delete its ingress entry."""

    async def add_version(self, call: str, request_id: str) -> list[str]:
        """Add a request to the versions of one part of a coding agent's call. Return the ids of the
        other versions. All versions are forgotten after an hour unless one of them is stored."""

    async def keep_versions(self, call: str) -> None:
        """Keep the versions of a part for the longest lifetime of a request, because one of them
        was stored."""

    async def secrets(self, request_id: str) -> JsonObject | None:
        """Return the secret answers to a form, which are stored until its deadline."""

    async def number_of(self, request_id: str) -> str | None:
        """Return the verification code that a pending request's agent shows, or None.

        Return it only to that agent, and compare it with the code that a person typed.
        """

    async def counted(self, spends: Sequence[Spend]) -> list[int]:
        """For each of these, return the amount that its counter already has within the window."""

    async def forget_secrets(self, request_id: str) -> None:
        """Delete the secret answers, after the process that asked has received them."""

    async def page(self, query: Query) -> Page:
        """Return one page of requests, in the order that the query names."""

    async def list_decided(self, agent: str, tool: str, *, limit: int) -> list[str]:
        """Return the ids of requests with this agent and tool that people approved or denied within
        DECIDED_DAYS, newest first."""

    async def pending_of(self, agent: str) -> list[str]:
        """Return the ids of an agent's pending requests, oldest first."""

    async def list_voted(self) -> list[str]:
        """Return the ids of pending requests that already have a vote."""

    async def count_pending(self) -> int:
        """Return how many requests are pending."""

    async def oldest_pending(self) -> int | None:
        """Return when the oldest pending request was submitted, in ms, or None."""

    async def event_counts(self) -> dict[str, int]:
        """Return the number of sealed events by name; `gateway.domain.audit` defines the names."""

    async def sessions(self, agent: str | None) -> list[Session]:
        """Return the sessions that have not ended, most recent first."""

    async def touch_session(self, agent: str, session: str) -> None:
        """Restart the idle time of a session, unless the session has ended."""

    async def end_session(self, agent: str, session: str) -> bool:
        """Forget a session; return whether there was one."""

    async def due(self, *, idle_ms: int, limit: int) -> Due:
        """Return the work that is due, by the Redis server's time."""

    async def expire_process(self, agent: str, process: str) -> list[str]:
        """Record on the requests of a process that it is gone, because its lease expired. Return
        their ids."""

    async def policy(self) -> PolicyDocument:
        """Return the active policy."""

    async def generation(self) -> int:
        """Return the generation of the active policy."""

    async def apply(self, policy: PolicyDocument, *, by: str) -> int:
        """Replace the policy whose generation `policy` carries. Return the new generation.

        All pending requests are added to the outbox REROUTING. Raises Conflict if a different
        policy was applied meanwhile.
        """

    async def note(
        self, event: str, *, agent: str = "", data: JsonObject, urgent: bool = False
    ) -> str:
        """Append an event that changes no request, and return its id. An `urgent` event is written
        even if the server's memory is full."""

    async def set_stopped(self, stopped: bool, *, by: str) -> None:
        """Turn the kill switch on or off."""

    async def stopped_by(self) -> tuple[str, int] | None:
        """Return who turned the kill switch on and when, in ms, or None while it is off. If its
        state is unknown, return "" and 0."""

    async def is_stopped(self) -> bool | None:
        """Return whether the kill switch is on, or None if unknown. Callers must treat None as
        on."""

    async def history(self, after: str | None, limit: int) -> list[AuditEvent]:
        """Return up to `limit` events after a stream id. None starts at the oldest stored event."""

    async def latest(self, count: int) -> list[AuditEvent]:
        """Return the last `count` events, newest last."""


class WritableStore(Store, Protocol):
    """Durable state, including the calls that set a request's status. Only
    `gateway.approvals.request_writer` uses them."""

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

        The answer contains the verification code `number`, which is stored separately from the
        record. The deadline is min(arrival, server's time) + timeout. A pending request must fit
        the agent's `budget`; `posts` says whether it would get cards. Results: OK with the stored
        record. EXISTS, AGAIN, STOPPED, LATE, SPENT, OVER_LIMIT, CROWDED, PAUSED with nothing
        written. CLOCK if the decision's expiry differs from the deadline: `created` of the returned
        record is then the server's time.
        """

    async def change(
        self, transition: Transition, origin: MessageContext | None = None
    ) -> WriteResult:
        """Apply a transition, answer the message, and push a final state to every attached process.

        Results: OK, REPLAY, STALE, GONE, AGAIN, STOPPED, LATE, EARLY, SPENT, OVER_LIMIT, FULL.
        """

    async def change_all(self, transitions: Sequence[Transition]) -> tuple[WriteResult, str]:
        """Apply all these transitions in one step, or none of them. Return the same result as
        `change`, and the id of the request that caused a rejection."""
