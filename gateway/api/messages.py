"""Define the messages of the HTTP API: bodies, query strings and responses."""

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
    """A request, and the process that waits for its decision; with `detached`, none waits."""

    request: ApprovalRequest
    process: Annotated[str, matching(PROCESS_TOKEN)] | None = None
    detached: bool = False

    def __post_init__(self) -> None:
        check_match(PROCESS_TOKEN, "process", self.process)
        check_request(self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare(Wire):
    """A request without its digest, for clients that cannot write canonical JSON."""

    request: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Wire):
    """The request with its digest and id, which the client submits unchanged.

    `arguments` is the canonical JSON of its arguments, as the digest covers them. Run only these.
    """

    request: ApprovalRequest
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Wire):
    """The agent's reason to cancel its request."""

    reason: Annotated[
        Reason, Field(json_schema_extra={"enum": [reason.value for reason in AGENT_REASONS]})
    ] = Reason.CANCELLED_BY_AGENT
    message: str = ""

    def __post_init__(self) -> None:
        check_agent_reason(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume(Wire):
    """The process that claims the approval.

    With `once`, an approval that another process claimed, or that has a report, is refused as
    `approval_used`. Without it, such an approval is returned with a warning.
    """

    process: Annotated[str, matching(PROCESS_TOKEN)]
    once: bool = False

    def __post_init__(self) -> None:
        check_match(PROCESS_TOKEN, "process", self.process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Wire):
    """The outcome of the call."""

    report: Annotated[
        Report, Says(properties={"execution": {"enum": [one.value for one in AGENT_EXECUTIONS]}})
    ]

    def __post_init__(self) -> None:
        check_agent_report(self.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync(Wire):
    """The requests that a process waits for; without any, only its lease is renewed."""

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
    """An approver's decision on the revision that they saw.

    A repeated call with the same `nonce` is one decision; the default is a new one. High risk needs
    `confirmed`, which says that the person confirmed the approval. `remember` names an offer of the
    request. `number` is the number that the agent's side shows, as the person typed it; it also
    confirms.
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
    """The agent name for which a local agent wants a credential."""

    agent: Annotated[str, matching(AGENT_NAME)]

    def __post_init__(self) -> None:
        check_match(AGENT_NAME, "agent", self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQuery(Wire):
    """How long to wait (in seconds), for a revision newer than `revision`, and which process waits.

    Without `revision`, the wait ends with the decision. With `reveal`, an admin, or an approver who
    may decide the request, gets its secrets unmasked, and the audit records it. With `record`, an
    agent also gets its request, the time of the decision, and the reported outcome.
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
    """Selects requests to list, newest first: pending ones, or decided ones with `final`.

    Any status but pending selects decided ones with it. `after` is the cursor that the previous
    page returned.
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
    """The agent's name; not needed with the agent's own token."""

    agent: Annotated[str, matching(AGENT_NAME)] | None = None

    def __post_init__(self) -> None:
        check_match(AGENT_NAME, "agent", self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAgent(Wire):
    """The agent that has the session."""

    agent: Annotated[str, matching(AGENT_NAME)]

    def __post_init__(self) -> None:
        check_match(AGENT_NAME, "agent", self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView(Wire):
    """A request as people see it.

    `arguments` and `digest` are those of the current call; `shown_since` is the revision that it
    appeared in. A decision goes only to the process that may act on it. So agents do not get
    `decision`, `votes`, `note`, and `findings` of the guardrails. Nor do they get `raised` (who
    raised the risk), `edits` (who changed the arguments), and `approvers` (who may approve now, and
    the step-up). The same goes for `guesses` (wrong numbers typed), `stepped` (step-ups done),
    `consumed` (how many processes claimed the approval), and `asks_because` (why no grant or rule
    with a limit covered it). Approvers get secrets masked, unless they read one request with
    `reveal`; so `digest` can differ from that of the shown text. A `warning` in the response to a
    decision names a follow-up step that failed; the decision itself is recorded. `messages` are the
    addresses of its cards in chats.
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
    consumed: int = 0
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests(Wire):
    """A page of requests and the cursor of the next; null at the end."""

    items: tuple[RequestView, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class States(Wire):
    """The states of the agent's own requests among those asked for."""

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
    """A local agent's credential.

    `redis_url` is null if agents must use HTTP; `namespace` is the prefix of its Redis keys.
    """

    agent: str
    token: str = field(repr=False)
    public_key: str
    namespace: str
    redis_url: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReply(Wire):
    """Whether the gateway is alive, or is `ready`, `degraded` or `not ready`.

    `problems` are sentences.
    """

    status: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Wire):
    """Why a call was refused (RFC 9457). `code` is stable, for programs.

    `reasons` gives, for a batch, the requests that stopped it, and why.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    reasons: dict[str, str] = field(default_factory=dict)


def view(record: StoredRequest, *, whole: bool) -> RequestView:
    """Return the view of a record; `whole` adds the members for approvers only."""
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
        consumed=record.consumed if whole else 0,
    )


def masked_view(record: StoredRequest) -> JsonObject:
    """Return the whole view of a record, with secrets masked as on cards.

    If an agent wrote something like a mask, its bracket is replaced by ⟨U+27E8⟩.
    """
    written = plain(view(record, whole=True))
    told = {name: mask(written.pop(name), _spell_masks) for name in ("request", "arguments")}
    if record.secrets:  # the agent's own words may contain them too
        said = told["request"]
        words = (said, "hint"), (said.get("preview", {}), "text")
        for values, name in words:
            if name in values:
                values[name] = record.hide(values[name])
    return {**record.hide_in(written), **told}


def _spell_masks(text: str) -> str:
    """Escape everything in text around secrets that looks like a mask."""
    return _LIKE_A_MASK.sub("⟨U+27E8⟩", text) if "⟨" in text else text


def check_match(pattern: re.Pattern[str], name: str, text: str | None) -> None:
    """Raise InvalidRequest with the member's name if a text does not match completely."""
    if text is not None and not pattern.fullmatch(text):
        raise InvalidRequest(f"{name} does not match {pattern.pattern}")
