"""Define the durable state that the core needs: changes, guards and results; start at `Store`."""

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
    """The message behind a store call: its sender, to be answered, and the ingress entry to delete.

    HTTP messages, which get a direct answer, have no `entry`; `arrived_ms` is when it was
    written. `owner` is the owner of the agent's credential. `since` is when the credential got this
    agent's name; earlier requests under the name are not this agent's.
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
    an approval. STEP: a pending request moves on, for example by a reminder. EXPIRY: its deadline
    passed. FACT: it was cancelled, stopped, reported or erased, which is valid at any time.
    """

    DECISION = "decision"
    USE = "use"
    STEP = "step"
    EXPIRY = "expiry"
    FACT = "fact"


class Guards(NamedTuple):
    """Conditions that must hold at the moment when a change is written.

    `clock` is `before` (after the deadline the change is rejected as late), `after` (until then it
    is rejected as early) or empty. `generation`, unless None, must be that of the active policy.
    The kill switch rejects `stoppable` changes.
    """

    clock: str = ""
    generation: int | None = None
    stoppable: bool = False


class Transition(NamedTuple):
    """One change of a record, applied only if all its guards hold at that moment.

    `after` replaces `before` if its revision is still current. A decision names the `generation` of
    the policy that it was made under. If `number` is set, it must be the request's. With the
    agent's `budget`, as after a person's decision, denials in a row are counted. For `minutes`
    after a denial, an identical call is denied too. `grants`, each a
    `gateway.policy.grants.grant.Grant`, are saved in the same step. `data` goes into the event; a
    decision's event gets the decision.
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
    """Work that is due at `now`, in ms of the server's time.

    It lists expired requests, processes with lapsed leases, idle sessions, and requests that the
    kill switch must end.
    """

    now: int
    expired: tuple[str, ...] = ()
    lapsed: tuple[tuple[str, str], ...] = ()
    idle: tuple[tuple[str, str], ...] = ()
    stopped: tuple[str, ...] = ()


class Store(Protocol):
    """Durable state. Each write is one atomic script, which validates before it writes.

    None of these methods sets the status of a request: see `WritableStore`.
    """

    async def load(self, request_id: str) -> StoredRequest | None:
        """Return the current record, or None."""

    def recent(self, request_id: str) -> StoredRequest | None:
        """Return a pending record as this process last saw it, or None. It may be out of date: use
        it only to begin a transition, whose guards decide, and never show it."""

    async def load_many(self, request_ids: Sequence[str]) -> list[StoredRequest | None]:
        """Return the records in the same order, None for those that are missing or unreadable; the
        latter are logged."""

    async def attach(self, request_ids: Sequence[str], origin: MessageContext) -> list[str]:
        """Attach a process to requests, renew its lease, answer each; return the visible ids."""

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
        """Add a request to the versions of one part of a coding agent's call; return the ids of the
        others. They are forgotten after an hour unless one of them is stored."""

    async def keep_versions(self, call: str) -> None:
        """Keep the versions of a part as long as a request can live, because one was stored."""

    async def secrets(self, request_id: str) -> JsonObject | None:
        """Return the secret answers to a form, which are stored until its deadline."""

    async def number_of(self, request_id: str) -> str | None:
        """Return the number that a pending request's agent shows, or None.

        Give it only to that agent, and compare it with the number that a person typed.
        """

    async def counted(self, spends: Sequence[Spend]) -> list[int]:
        """Return the amount already counted in the window of each of these."""

    async def forget_secrets(self, request_id: str) -> None:
        """Delete the secret answers, once the process that asked has them."""

    async def page(self, query: Query) -> Page:
        """Return one page of requests, in the order that the query names."""

    async def list_decided(self, agent: str, tool: str, *, limit: int) -> list[str]:
        """Return ids of requests that people approved or denied for this agent and tool within
        DECIDED_DAYS, newest first."""

    async def pending_of(self, agent: str) -> list[str]:
        """Return the ids of an agent's pending requests, oldest first."""

    async def list_voted(self) -> list[str]:
        """Return the ids of pending requests that have a vote already."""

    async def count_pending(self) -> int:
        """Return how many requests are pending."""

    async def oldest_pending(self) -> int | None:
        """Return when the oldest pending request was submitted, in ms, or None."""

    async def event_counts(self) -> dict[str, int]:
        """Return the counts of sealed events by name; see `gateway.domain.audit`."""

    async def sessions(self, agent: str | None) -> list[Session]:
        """Return the sessions that have not ended, the most recent first."""

    async def touch_session(self, agent: str, session: str) -> None:
        """Restart the idle time of a session, unless it has ended."""

    async def end_session(self, agent: str, session: str) -> bool:
        """Forget a session; return whether there was one."""

    async def due(self, *, idle_ms: int, limit: int) -> Due:
        """Return the work that is due by the server's time."""

    async def expire_process(self, agent: str, process: str) -> list[str]:
        """Record on its requests that a process whose lease ran out is gone; return their ids."""

    async def policy(self) -> PolicyDocument:
        """Return the active policy."""

    async def generation(self) -> int:
        """Return the generation of the active policy."""

    async def apply(self, policy: PolicyDocument, *, by: str) -> int:
        """Replace the policy of the generation that `policy` carries; return the new generation.

        All pending requests go on the outbox REROUTING. Raises Conflict if another policy was
        applied meanwhile.
        """

    async def note(
        self, event: str, *, agent: str = "", data: JsonObject, urgent: bool = False
    ) -> str:
        """Append an event that changes no request; return its id. An `urgent` one is written even
        if the server's memory is full."""

    async def set_stopped(self, stopped: bool, *, by: str) -> None:
        """Turn the kill switch on or off."""

    async def stopped_by(self) -> tuple[str, int] | None:
        """Return who turned the kill switch on and when, in ms; None while it is off. If its state
        is unknown, return "" and 0."""

    async def is_stopped(self) -> bool | None:
        """Return whether the kill switch is on; None if unknown, which counts as on."""

    async def history(self, after: str | None, limit: int) -> list[AuditEvent]:
        """Return up to `limit` events after a stream id; None starts at the oldest stored one."""

    async def latest(self, count: int) -> list[AuditEvent]:
        """Return the last `count` events, the newest last."""


class WritableStore(Store, Protocol):
    """Durable state with the calls that set a request's status. Only
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

        The agent's side is told the `number`, which is stored beside the record. The deadline is
        min(arrival, server's time) + timeout. A pending request must fit the agent's `budget`;
        `posts` says whether it would get cards. Results: OK with the stored record. EXISTS, AGAIN,
        STOPPED, LATE, SPENT, OVER_LIMIT, CROWDED, PAUSED with nothing written. CLOCK if the
        decision's expiry differs from the deadline: `created` of the returned record is then the
        server's time.
        """

    async def change(
        self, transition: Transition, origin: MessageContext | None = None
    ) -> WriteResult:
        """Apply a transition, answer the message, and push a final state to every attached process.

        Results: OK, REPLAY, STALE, GONE, AGAIN, STOPPED, LATE, EARLY, SPENT, OVER_LIMIT, FULL.
        """

    async def change_all(self, transitions: Sequence[Transition]) -> tuple[WriteResult, str]:
        """Apply all these transitions in one step, or none. Return `change`'s result, and the id of
        the request that caused a rejection."""
