"""The messages of the HTTP API: bodies, query strings and answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from gateway.domain.parsing import check_agent_reason, check_agent_report, check_request
from gateway.domain.records import Approvers, Edit, Remember, Session, StoredRequest, Vote
from gateway.domain.redaction import mask
from gateway.domain.risk import RaisedRisk, StepUpDone
from gateway.errors import InvalidRequest
from gateway.models import (
    AGENT_EXECUTIONS,
    AGENT_REASONS,
    MAX_SYNC_IDS,
    Action,
    ApprovalRequest,
    Decision,
    Reason,
    Report,
    Risk,
    State,
    Status,
)
from gateway.wire.codec import JsonObject, Wire, plain
from gateway.wire.schema import AGENT_NAME, PROCESS_TOKEN, REQUEST_ID, SESSION_NAME, Says, matching

MAX_WAIT_SECONDS = 60.0
MAX_PAGE = 200
CURSOR = re.compile(r"[0-9]{1,20}-[0-9a-f]{32}")
_LIKE_A_MASK = re.compile(r"⟨(?=secret (?:number )?of |U\+27E8⟩)")
NONCE = re.compile(r"[0-9A-Za-z_-]{8,64}")
EVENT_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit(Wire):
    """A request, and the process that waits for its answer; with `detached` nobody waits."""

    request: ApprovalRequest
    process: Annotated[str, matching(PROCESS_TOKEN)] | None = None
    detached: bool = False

    def __post_init__(self) -> None:
        check_match(PROCESS_TOKEN, "process", self.process)
        check_request(self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Wire):
    """A request without its digest, for a client that writes no canonical JSON."""

    request: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Wire):
    """The request with its digest and id, which the client submits as it is.

    `arguments` is the canonical JSON of its arguments: what the digest covers, and all that may
    run.
    """

    request: ApprovalRequest
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Wire):
    """Why the agent withdraws its request."""

    reason: Annotated[
        Reason, Field(json_schema_extra={"enum": [reason.value for reason in AGENT_REASONS]})
    ] = Reason.CANCELLED_BY_AGENT
    message: str = ""

    def __post_init__(self) -> None:
        check_agent_reason(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume(Wire):
    """The process that takes the approval.

    With `once` an approval that another process had, or of which anything was reported, is refused
    as `approval_used` instead of being handed out with a warning.
    """

    process: Annotated[str, matching(PROCESS_TOKEN)]
    once: bool = False

    def __post_init__(self) -> None:
        check_match(PROCESS_TOKEN, "process", self.process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Wire):
    """What became of the action."""

    report: Annotated[
        Report, Says(properties={"execution": {"enum": [one.value for one in AGENT_EXECUTIONS]}})
    ]

    def __post_init__(self) -> None:
        check_agent_report(self.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Wire):
    """The requests that a process waits for; with none, its lease alone is renewed."""

    process: Annotated[str, matching(PROCESS_TOKEN)]
    ids: Annotated[
        tuple[Annotated[str, matching(REQUEST_ID)], ...], Field(max_length=MAX_SYNC_IDS)
    ] = ()

    def __post_init__(self) -> None:
        check_match(PROCESS_TOKEN, "process", self.process)
        for one in self.ids:
            check_match(REQUEST_ID, "ids", one)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide(Wire):
    """What an approver wants done with the revision that was seen.

    `nonce` makes a repeated call the same call; one is made when it is left out. High risk is only
    approved with `confirmed`, which says that the person was asked again. `remember` names one of
    the request's offers. `number` is what the person typed for the one that is shown where the
    agent waits; it confirms, too.
    """

    revision: int
    action: Action
    message: str = ""
    note: str = ""
    arguments: JsonObject | None = None
    answers: JsonObject | None = None
    result: Any = None
    abort: str | None = None
    feedback: bool = False
    confirmed: bool = False
    remember: Remember | None = None
    number: str = ""
    nonce: Annotated[str, matching(NONCE)] | None = None

    def __post_init__(self) -> None:
        check_match(NONCE, "nonce", self.nonce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enroll(Wire):
    """The name under which a local agent wants a credential."""

    agent: Annotated[str, matching(AGENT_NAME)]

    def __post_init__(self) -> None:
        check_match(AGENT_NAME, "agent", self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQuery(Wire):
    """How long to wait (seconds), for a newer revision than which, and who waits.

    Without `revision` the wait is for the end of the request. With `reveal` an approver who may
    decide it, or an admin, gets its secrets unmasked, and the audit says so. With `record` an agent
    also gets what it asked, when that was decided, and what was reported of it.
    """

    wait: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    revision: Annotated[int, Field(ge=0)] | None = None
    process: Annotated[str, matching(PROCESS_TOKEN)] | None = None
    reveal: bool = False
    record: bool = False

    def __post_init__(self) -> None:
        check_match(PROCESS_TOKEN, "process", self.process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Wire):
    """Which requests to list, newest first: those that wait, or with `final` those that ended.

    Any other status than pending narrows the ended ones. `after` is the cursor that the page before
    named.
    """

    status: Status | None = None
    final: bool = False
    agent: Annotated[str, matching(AGENT_NAME)] | None = None
    session: Annotated[str, matching(SESSION_NAME)] | None = None
    after: Annotated[str, matching(CURSOR)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50

    def __post_init__(self) -> None:
        check_match(AGENT_NAME, "agent", self.agent)
        check_match(SESSION_NAME, "session", self.session)
        check_match(CURSOR, "after", self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichAgent(Wire):
    """The agent that is meant; an agent's own token needs none."""

    agent: Annotated[str, matching(AGENT_NAME)] | None = None

    def __post_init__(self) -> None:
        check_match(AGENT_NAME, "agent", self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAgent(Wire):
    """The agent whose session is meant."""

    agent: Annotated[str, matching(AGENT_NAME)]

    def __post_init__(self) -> None:
        check_match(AGENT_NAME, "agent", self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView(Wire):
    """A request as people see it.

    `arguments` are what would run now, `digest` theirs; `shown_since` is the first revision that
    shows them. Agents get it without `decision`, `votes`, `note`, `findings`, which are what the
    guardrails found, `raised`, which says who raised the risk, `edits`, which are who changed the
    arguments, `approvers`, who may approve it now, and what that takes, `guesses`, how many wrong
    numbers were typed, `stepped`, how the approval was confirmed, and `asks_because`, which says
    what kept a remembered approval, or an allow rule with a limit, from covering it: a decision
    reaches only the process that may act on it.
    Approvers get secrets masked, unless they ask for one request with `reveal`; so the digest of
    what they read may be another one. A `warning` in the response to an answer says what should
    have followed it and failed; the answer is recorded.
    """

    request: ApprovalRequest
    status: Status
    revision: int
    shown_since: int
    digest: str
    created: int
    deadline: int
    route: str
    risk: Risk
    arguments: JsonObject
    quorum: int = 1
    owner: str | None = None
    waiting: bool = True
    warning: str = ""
    votes: tuple[Vote, ...] = ()
    decision: Decision | None = None
    note: str = ""
    report: Report | None = None
    erased: bool = False
    findings: tuple[str, ...] = ()
    raised: tuple[RaisedRisk, ...] = ()
    asks_because: str = ""
    edits: tuple[Edit, ...] = ()
    approvers: Approvers | None = None
    guesses: int = 0
    stepped: tuple[StepUpDone, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests(Wire):
    """One page of requests and the cursor of the next; null at the end."""

    items: tuple[RequestView, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class States(Wire):
    """The states of those requests asked for that are the agent's own."""

    items: tuple[State, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionList(Wire):
    """Sessions that have not ended."""

    items: tuple[Session, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded(Wire):
    """The ids of the requests that were cancelled with their session."""

    cancelled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolled(Wire):
    """A local agent's credential. `redis_url` is null where agents have to use HTTP; `namespace`
    begins the keys that it writes and reads there."""

    agent: str
    token: str = field(repr=False)
    public_key: str
    namespace: str
    redis_url: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReply(Wire):
    """Whether the gateway lives, or is `ready`, `degraded` or `not ready`; `problems` says in
    sentences what is wrong."""

    status: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Wire):
    """Why a call was refused (RFC 9457). `code` is for machines and stays the same.

    `reasons` say of a batch which requests stopped it, and why.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    reasons: dict[str, str] = field(default_factory=dict)


def view(record: StoredRequest, *, whole: bool) -> RequestView:
    """Return the view of a record; `whole` adds what is for approvers alone."""
    return RequestView(
        request=record.request,
        status=record.status,
        revision=record.revision,
        shown_since=record.shown_since,
        digest=record.digest,
        created=record.created,
        deadline=record.deadline,
        route=record.route,
        risk=record.risk,
        raised=record.raised if whole else (),
        arguments=record.arguments,
        quorum=record.quorum,
        owner=record.owner,
        waiting=record.waiting,
        votes=record.votes if whole else (),
        decision=record.decision if whole else None,
        note=record.note if whole else "",
        report=record.report,
        erased=record.erased,
        findings=record.located_findings if whole else (),
        asks_because=record.asks_because if whole else "",
        edits=record.edits if whole else (),
        approvers=record.approvers if whole else None,
        guesses=record.guesses if whole else 0,
        stepped=record.stepped if whole else (),
    )


def masked_view(record: StoredRequest) -> JsonObject:
    """Return the whole view of a record, with its secrets masked as on cards.

    Where an agent wrote what looks like a mask, its bracket is spelled ⟨U+27E8⟩.
    """
    written = plain(view(record, whole=True))
    told = {name: mask(written.pop(name), _spell_masks) for name in ("request", "arguments")}
    if record.secrets:  # the agent's own words may say them, too
        said = told["request"]
        words = (said, "hint"), (said.get("preview", {}), "text")
        for values, name in words:
            if name in values:
                values[name] = record.hide(values[name])
    return {**record.hide_in(written), **told}


def _spell_masks(text: str) -> str:
    """Return text around secrets in which nothing passes for a mask."""
    return _LIKE_A_MASK.sub("⟨U+27E8⟩", text) if "⟨" in text else text


def check_match(pattern: re.Pattern[str], name: str, text: str | None) -> None:
    """Raise InvalidRequest, naming the member, unless `text` is None or matches as a whole."""
    if text is not None and not pattern.fullmatch(text):
        raise InvalidRequest(f"{name} does not match {pattern.pattern}")
