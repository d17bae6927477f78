"""What the gateway keeps: requests as they stand, people, routes, events. Values only, no I/O.

Times are milliseconds since the Unix epoch unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gateway.models import Action, ApprovalRequest, Decision, Report, Risk, RiskLevel, State, Status
from gateway.wire import JsonObject, Wire

SCHEMA_VERSION = 1
DEFAULT_TIMEOUT_SECONDS = 900.0


class Mode(StrEnum):
    """What a route does with a request that no other decider settled."""

    ASK = "ask"
    AUTO_APPROVE = "auto-approve"
    AUTO_DENY = "auto-deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Wire):
    """A verified identity of someone who clicks: the platform that verified it, and its stable
    id."""

    platform: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Person(Wire):
    """One human. `identities` are written `platform:id`, for example `slack:T1/U1`."""

    name: str
    identities: tuple[str, ...] = ()
    admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Wire):
    """Which requests go where and who may decide them.

    `approvers` name people; empty means nobody. `quorum` counts distinct people; one deny ends it.
    `timeout` is in seconds, 0 for none but the 30-day cap. `agents` and `tools` are exact names,
    empty
    for all. With `self_approval` off, a requester may never decide; high risk always behaves so.
    """

    name: str = "default"
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    self_approval: bool = True
    mode: Mode = Mode.ASK


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument(Wire):
    """Everything an operator wrote. Replaced as a whole; `generation` counts the replacements."""

    generation: int = 0
    people: tuple[Person, ...] = ()
    routes: tuple[Route, ...] = ()

    def person_of(self, identity: Identity) -> Person | None:
        """Return the person whom this verified identity belongs to."""
        wanted = f"{identity.platform}:{identity.id}"
        return next((person for person in self.people if wanted in person.identities), None)

    def route_for(self, agent: str, tool: str) -> Route:
        """Return the first route that fits; without one, a route on which nobody may approve."""
        for route in self.routes:
            if (not route.agents or agent in route.agents) and (
                not route.tools or tool in route.tools
            ):
                return route
        return Route()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote(Wire):
    """One person's approval while a quorum is open."""

    person: str
    action: Action
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Wire):
    """One request as it stands.

    `revision` rises with every visible change; `shown_since` is the revision at which what would
    run
    last changed, so a click that saw an older one is refused. `digest` and `arguments` are of what
    would run now. `process` submitted it, `attached` ones are told how it ends, `consumers` were
    handed the approval, in order. `waiting` is False when nobody waits for the answer any more.
    `note` is the decider's, for the record only: no agent is ever told.
    """

    request: ApprovalRequest
    status: Status
    revision: int
    shown_since: int
    digest: str
    created: int
    deadline: int
    route: str
    quorum: int = 1
    owner: str | None = None
    process: str | None = None
    attached: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    waiting: bool = True
    risk: Risk = field(default_factory=lambda: Risk(level=RiskLevel.MEDIUM))
    edited: JsonObject | None = None
    votes: tuple[Vote, ...] = ()
    decision: Decision | None = None
    note: str = ""
    report: Report | None = None
    nonce: str | None = None
    erased: bool = False

    @property
    def id(self) -> str:
        """The request's id."""
        return self.request.id

    @property
    def arguments(self) -> JsonObject:
        """The arguments that would run now: the agent's, or an editor's."""
        return self.request.arguments if self.edited is None else self.edited

    @property
    def final(self) -> bool:
        """Whether the request has ended."""
        return self.status is not Status.PENDING

    def state_for(self, process: str | None) -> State:
        """Return what a process is told: the decision of an approval only if it may act on it."""
        acts = self.status is not Status.APPROVED or (
            process is not None and self.consumers[-1:] == (process,)
        )
        return State(
            id=self.id,
            status=self.status,
            revision=self.revision,
            digest=self.digest,
            deadline=self.deadline,
            decision=self.decision if acts else None,
            may_have_run=acts and len(self.consumers) > 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Wire):
    """One entry of the event stream, which is the audit. `id` is the stream's, and orders
    events."""

    id: str
    type: str
    at: int
    agent: str = ""
    request_id: str = ""
    revision: int = 0
    data: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef(Wire):
    """One posted copy of a card: where an adapter can find it again."""

    adapter: str
    channel: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Click(Wire):
    """What a verified identity wants done with the revision it saw.

    `nonce` is derived from the interaction, so that a retried click is told what it did itself.
    """

    request_id: str
    revision: int
    identity: Identity
    action: Action
    nonce: str
    message: str = ""
    note: str = ""
    arguments: JsonObject | None = None
    answers: JsonObject | None = None
    result: Any = None
    abort: str | None = None
    feedback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Wire):
    """Which requests to list, newest first: those that wait, or with `final` those that ended.

    `status` narrows the ended ones. `after` is the cursor that the page before named.
    """

    final: bool = False
    status: Status | None = None
    agent: str | None = None
    session: str | None = None
    after: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Wire):
    """One page of a listing and the cursor of the next, None at the end."""

    items: tuple[Record, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Wire):
    """A session of an agent that has not ended."""

    agent: str
    name: str
    last_seen: int


def place_of(event_id: str) -> tuple[int, int]:
    """Return where an event stands in the stream, for comparing: ids are `<ms>-<number>`."""
    milliseconds, _, number = event_id.partition("-")
    return int(milliseconds), int(number)


def raised(risk: Risk, claimed: Risk | None) -> Risk:
    """Return `risk`, lifted by an agent's claim when that is higher; a claim never lowers."""
    order = list(RiskLevel)
    if claimed is None or order.index(claimed.level) <= order.index(risk.level):
        return risk
    reasons = tuple(f"the agent says: {reason}" for reason in claimed.reasons)
    return Risk(level=claimed.level, reasons=risk.reasons + (reasons or ("the agent says so",)))
