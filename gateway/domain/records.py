"""Define the records that the gateway stores: requests, people, clicks, events and outcomes. Start
reading at `StoredRequest`. Values only, no I/O.

Times are milliseconds since the Unix epoch unless a name says otherwise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gateway.domain.absences import Absence
from gateway.domain.redaction import (
    find_known,
    hide_in,
    hide_known,
    list_known,
    mask,
    render_safe,
    start_of,
)
from gateway.domain.risk import GUARDRAILS, RaisedRisk, StepUp, StepUpDone
from gateway.domain.safe_text import Span, Visible
from gateway.models import (
    Action,
    ApprovalRequest,
    DecidedBy,
    DeciderKind,
    Decision,
    HostRule,
    Kind,
    ReadBack,
    Reason,
    Report,
    Risk,
    RiskLevel,
    State,
    Status,
    digest_of,
)
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject, Wire, plain
from gateway.wire.outcome_text import join_names, sentence

_MOST_NAME = 256
SCHEMA_VERSION = 4
"""The version of the data in Redis that `gateway.stores.record_codec` writes, and alone reads."""


_MOST_PLACE = 60
_KEPT = "_secrets"

NOBODY = "-"
"""The last consumer of an approval that its agent gave up; no process has this token."""

OVERFLOW_MARK = "~"
"""Prefix of an agent's name in the id of its overflow card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Wire):
    """The verified identity of a person who clicks: the platform that verified it, and a stable id.

    `groups` lists the user groups or roles that the platform currently reports for the person. They
    are written like identities, for example `slack:T1/S9`.
    """

    platform: str
    id: str
    groups: tuple[str, ...] = ()

    @property
    def written(self) -> str:
        """The identity as it is written in the policy file."""
        return f"{self.platform}:{self.id}"


AUDITOR = "you are an auditor: you can read everything, but change nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person(Wire):
    """One person. `identities` have the form `platform:id`, for example `slack:T1/U1`.

    Only a member of a group of the identity provider has `groups`; the gateway adds and removes
    members.
    """

    name: str
    identities: tuple[str, ...] = ()
    admin: bool = False
    auditor: bool = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember(Wire):
    """A person's choice of a grant to save with a decision.

    `offer` is the id of one of the request's offers; empty means the narrowest. `lifetime` is one
    of 15m, 1h, 8h, 1d, 1w and revoked. Without `everywhere`, the grant covers only the request's
    session.
    """

    offer: str = ""
    everywhere: bool = False
    lifetime: str = "1h"
    max_uses: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeQuorum(Wire):
    """How many votes a grant needs, by its scope: a pattern over arguments, a folder, the whole
    tool, or any scope in all sessions. The request's own quorum is the minimum."""

    pattern: int = 1
    folder: int = 1
    tool: int = 1
    everywhere: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote(Wire):
    """One person's approval of a request that needs several. `via` is the approver entry of the
    route that admitted them: their name, an identity or a group. `remember` is the grant that they
    want, `needs` the number of votes for it. `stepped` is the step-up that they completed."""

    person: str
    action: Action
    at: int
    via: str = ""
    remember: Remember | None = None
    needs: int = 0
    stepped: StepUpDone | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(Wire):
    """One change of the call, by a person or a rule, such as a policy hook. `digest` is the digest
    of the changed call, `why` the rule's reason."""

    by: DecidedBy
    digest: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvers(Wire):
    """The people, identities and groups who may approve a request under the current policy.
    `nobody` says why nobody may approve. `step_up` lists the step-ups of which an approval requires
    one."""

    names: tuple[str, ...] = ()
    nobody: str = ""
    step_up: tuple[StepUp, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Wire):
    """A note by a person that they are looking at a request, so that others need not."""

    person: str
    at: int


# The outbox of requests that slow deciders judge before people see them.
REVIEWS = "reviews"


@dataclass(frozen=True, kw_only=True)  # without slots, for `revised`
class StoredRequest(Wire):
    """The current state of one request.

    `revision` rises with every visible change. `shown_since` is the revision of the last change to
    the call; a click that saw an earlier one is rejected. `digest` and `arguments` belong to the
    current call. The process `process` submitted the request, the `attached` processes get the
    decision, and `consumers` lists the processes that claimed the approval, in order. `waiting`
    becomes False when no process waits any more. `note` is the decider's private note, which no
    agent sees. `nonces` lists the clicks that were applied, the newest last. `queues` lists the
    outboxes that must process the request's next change. `tier` counts escalations, the last one at
    `tier_at`; `reminders` counts reminders that were due. If `behind` is set, the card of another
    request, or the agent's overflow card, also covers this request. `alike` counts the requests
    that this request's card also covers. `conversation` is the target of the conversation where it
    began, "" if its card cannot go there. `findings` lists the guardrails' results for the current
    call, none if they are off; `finding_places` gives the place of each in the arguments.
    `harmless` says that the operator, or a trusted author, declared the tool harmless. `declared`
    has the operator's roles for its arguments; with `trusted`, the roles in the request may free
    arguments too. Decisions use the current policy for these three (`PolicyDocument.declare`).
    `asks_because` says why a grant of the same tool, or a rule with a limit, did not cover the
    request; it contains no secrets. `raised` lists who raised the risk above the level that the
    policy and the agent gave. `risk` includes these levels; they are also stored separately,
    because the call may be assessed again. `edits` lists the last change of the call by each
    editor, the newest last. `numbered` says that a verification code is shown where the agent runs;
    no record contains the code. `guesses` counts wrong codes, and `stepped` lists completed
    step-ups. `away` lists the people whose delegate is asked instead; they may still decide.
    `proof` tells gateways that the masks hide nothing (`gateway.cards.masks.MaskProofs`).
    `approvers` is not stored: it is looked up for each reader, otherwise None. `spends` is not
    stored: the script that stores an approval by a rule counts it.
    """

    request: ApprovalRequest
    status: Status
    revision: int
    shown_since: int = 1
    digest: str
    created: int
    deadline: int
    route: str = "default"
    quorum: int = 1
    scope_quorum: ScopeQuorum = field(default_factory=ScopeQuorum)
    owner: str | None = None
    harmless: bool = False
    declared: dict[str, str] = field(default_factory=dict)
    trusted: bool = False
    asks_because: str = ""
    process: str | None = None
    attached: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    waiting: bool = True
    risk: Risk = field(default_factory=lambda: Risk(level=RiskLevel.MEDIUM))
    raised: tuple[RaisedRisk, ...] = ()
    findings: tuple[str, ...] = ()
    finding_places: tuple[str, ...] = ()
    edited: JsonObject | None = None
    edits: tuple[Edit, ...] = ()
    votes: tuple[Vote, ...] = ()
    decision: Decision | None = None
    note: str = ""
    report: Report | None = None
    nonces: tuple[str, ...] = ()
    erased: bool = False
    queues: tuple[str, ...] = ()
    tier: int = 0
    tier_at: int = 0
    reminders: int = 0
    claim: Claim | None = None
    behind: str = ""
    conversation: str = ""
    numbered: bool = False
    guesses: int = 0
    away: tuple[Absence, ...] = ()
    stepped: tuple[StepUpDone, ...] = ()
    proof: str = ""
    alike: int = field(default=0, compare=False)
    approvers: Approvers | None = field(default=None, compare=False)
    spends: tuple[Spend, ...] = field(default=(), compare=False)

    def copy_with(self, **members: Any) -> StoredRequest:
        """Return a copy with these members changed. This is five times faster than
        `dataclasses.replace`, because it validates nothing."""
        twin = object.__new__(StoredRequest)
        twin.__dict__.update(self.__dict__, **members)
        return twin

    @property
    def id(self) -> str:
        """The request's id."""
        return self.request.id

    @property
    def arguments(self) -> JsonObject:
        """The current arguments: an editor's if the call was changed, else the agent's."""
        return self.request.arguments if self.edited is None else self.edited

    @property
    def editors(self) -> tuple[Edit, ...]:
        """The edits of the current call."""
        return () if self.edited is None else self.edits

    def edited_as(self, arguments: JsonObject, by: DecidedBy, why: str = "") -> StoredRequest:
        """Return the record with edited arguments, which replace an earlier edit by the same
        editor."""
        edit = Edit(by=by, digest=digest_of(self.request, arguments), why=why)
        edits = (*(one for one in self.edits if one.by != by), edit)
        return replace(self, edited=arguments, digest=edit.digest, edits=edits)

    @property
    def parts(self) -> tuple[JsonObject, ...]:
        """The arguments and any payload of the current call, to search in."""
        payload = self.request.payload
        return (self.arguments,) if payload is None else (self.arguments, payload)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the request, which must be masked in every text made from it. They are
        cached in the record, together with the objects in which they were found."""
        request, context, ended = self.request, self.request.context, self.decision
        given = (ended.arguments, ended.answers, ended.result) if ended else (None, None, None)
        rests_on = (request, self.edited, *given)
        known, found = self.__dict__.get(_KEPT, ((), ()))
        if known and all(one is two for one, two in zip(known, rests_on, strict=True)):
            return found  # type: ignore[no-any-return]
        values = [request.tool, request.arguments, request.payload, self.edited, *given]
        values += [context.cwd, context.host, context.env, context.files]
        preview = request.preview.text if request.preview else ""
        found = list_known(values, (request.agent, request.session), (request.hint, preview))
        self.__dict__[_KEPT] = rests_on, found
        return found

    def find_secrets(self, text: str, *, named: bool = False) -> list[Span]:
        """Return the positions of secrets in a text made from the request; see `find_known`."""
        return find_known(text, self.secrets, named=named)

    def hide(self, text: str) -> str:
        """Return a text made from the request, with secrets masked."""
        return hide_known(text, self.secrets)

    def hide_in(self, value: Any) -> Any:
        """Return a JSON value made from the request, with secrets masked."""
        return hide_in(value, self.secrets)

    def show(self, text: str, *, reveal: bool = False) -> Visible:
        """Return a text made from the request in the form that people may see."""
        return render_safe(text, reveal=reveal, found=self.find_secrets(text))

    @property
    def for_people(self) -> bool:
        """Whether only people may approve it: its risk is high, or `demands_person` is true."""
        return self.demands_person or self.risk.level is RiskLevel.HIGH

    @property
    def demands_person(self) -> bool:
        """Whether only people may approve it at any risk: its agent requires a person, or it is a
        plan."""
        return self.request.human or self.request.kind is Kind.CALLS

    @property
    def alarms(self) -> bool:
        """Whether the guardrails raised its risk: they are active and have findings."""
        return any(one.decider == GUARDRAILS for one in self.raised)

    @property
    def located_findings(self) -> tuple[str, ...]:
        """The guardrails' findings, each with its place if known."""
        places = (*self.finding_places, *("" for _ in self.findings))
        return tuple(map(locate_finding, self.findings, places))

    @property
    def follows(self) -> bool:
        """Whether the card of an identical request also covers it, so that no card is posted for
        it."""
        return bool(self.behind) and not self.behind.startswith(OVERFLOW_MARK)

    @property
    def unreviewed(self) -> bool:
        """Whether the request waits for slow deciders, before people may decide it."""
        return REVIEWS in self.queues and not self.final

    @property
    def final(self) -> bool:
        """Whether the request has ended."""
        return self.status is not Status.PENDING

    def state_for(self, process: str | None) -> State:
        """Return the state that a process may see. An approval is included only if the process may
        run the call."""
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

    @property
    def given_up(self) -> bool:
        """Whether the agent gave the approval up, so that no process can claim it."""
        return self.consumers[-1:] == (NOBODY,)

    @property
    def untaken(self) -> bool:
        """Whether the request is approved, but no process claimed the approval and no outcome is
        reported."""
        return self.status is Status.APPROVED and not self.consumers and self.report is None

    @property
    def consumed(self) -> int:
        """Number of processes that claimed the approval."""
        return sum(one != NOBODY for one in self.consumers)

    def read_back(self) -> ReadBack:
        """Return the data that the agent may read again, from any of its processes."""
        decision = self.decision
        return ReadBack(
            request=self.request,
            created=self.created,
            decided_at=decision.decided_at if decision else None,
            reason=decision.reason if decision else None,
            decided_by=decision.decided_by if decision else None,
            consumed=self.consumed,
            given_up=self.given_up,
            report=self.report,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent(Wire):
    """One event of the audit log. `id` is its id in the stream, which orders events."""

    id: str
    type: str
    at: int
    agent: str = ""
    request_id: str = ""
    revision: int = 0
    data: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef(Wire):
    """The address of one posted message."""

    adapter: str
    channel: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Click(Wire):
    """An action of a verified person on the revision of a request that they saw.

    `nonce` is derived from the interaction, so that a repeated click gets its own result. `copy`
    and `ref` identify the posted message that was clicked; both are None without one. `confirmed`
    says that the person confirmed the action, which high risk requires. `revealed` says that
    nothing was masked where they clicked; only the inbox can know this. `number` is the
    verification code that they typed for a step-up.
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
    copy: str | None = None
    ref: MessageRef | None = None
    confirmed: bool = False
    revealed: bool = False
    remember: Remember | None = None
    number: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Wire):
    """Selects requests to list, newest first: pending requests, or decided ones if `final` is true.

    `soonest` sorts pending requests by deadline, the nearest first. `status` filters decided ones.
    Without `followers`, requests that the card of an identical request covers are left out. `after`
    is the cursor that the previous page returned.
    """

    final: bool = False
    soonest: bool = False
    status: Status | None = None
    agent: str | None = None
    session: str | None = None
    followers: bool = True
    after: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Wire):
    """One page of a list, with the cursor of the next page, or None at the end."""

    items: tuple[StoredRequest, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Wire):
    """An agent's session that has not ended."""

    agent: str
    name: str
    last_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Wire):
    """An agent that is blocked until `until`, because people denied several of its requests in a
    row."""

    agent: str
    until: int


def place_of(event_id: str) -> tuple[int, int]:
    """Return an event id, which has the form `<ms>-<number>`, as a sort key."""
    milliseconds, _, number = event_id.partition("-")
    return int(milliseconds), int(number)


SYSTEM = DecidedBy(kind=DeciderKind.SYSTEM, name="gateway")
_OWN_WORDS = frozenset((Reason.RULE, Reason.BREAKER, Reason.STOPPED, Reason.UNDELIVERABLE))
"""Reasons whose message only the gateway or its operator writes."""

_TOLD_ELSEWHERE = ("arguments", "answers", "result", "request_id", "revision", "status")


class Spend(NamedTuple):
    """The amount that an approval by a rule adds to a limit's counter, in ten-thousandths. The
    counter `key` may reach at most `most` within `window_ms`; `words` names the limit."""

    key: str
    amount: int
    most: int
    window_ms: int
    words: str


class RequestOutcome(NamedTuple):
    """The outcome of a request, without the members that the record already has."""

    status: Status
    reason: Reason
    by: DecidedBy = SYSTEM
    action: Action | None = None
    message: str = ""
    arguments: JsonObject | None = None
    answers: JsonObject | None = None
    result: Any = None
    abort: str | None = None
    host_rule: HostRule | None = None
    spends: tuple[Spend, ...] = ()


def told_outcome(record: StoredRequest) -> str:
    """Return a sentence that describes the outcome of a decided request and names all who approved
    it. Words of people, hooks and agents are quoted, so that they cannot imitate the gateway's."""
    decision = record.decision
    if decision is None:
        return record.status.value
    name = join_names(approved_by(record), "and") or decision.decided_by.name
    quoted = decision.message and decision.reason not in _OWN_WORDS
    return sentence(
        reason=decision.reason,
        status=decision.status,
        name=", confirmed ".join((name, *told_step_up(record))),
        message=json.dumps(decision.message, ensure_ascii=False) if quoted else decision.message,
    )


def told_step_up(record: StoredRequest) -> tuple[str, ...]:
    """Return how an approval was verified, in words; "" if a tap was enough."""
    words = dict.fromkeys(one.words for one in record.stepped)
    return (join_names(tuple(words), "and"),) if words else ()


def approved_by(record: StoredRequest) -> tuple[str, ...]:
    """Return the people who approved the request together; empty if one person was enough."""
    if record.status is not Status.APPROVED:
        return ()
    return tuple(vote.person for vote in record.votes)


def deciders_of(record: StoredRequest) -> tuple[str, ...]:
    """Return the names of the people who decided a request; empty if none did."""
    decision = record.decision
    if decision is None or decision.decided_by.kind is not DeciderKind.PERSON:
        return ()
    return approved_by(record) or (decision.decided_by.name,)


def outcome_of(decision: Decision) -> RequestOutcome:
    """Return the outcome that a request gets from the decision on a different request."""
    return RequestOutcome(
        status=decision.status,
        reason=decision.reason,
        by=decision.decided_by,
        action=decision.action,
        message=decision.message,
        abort=decision.abort,
    )


def summary(decision: JsonObject, record: StoredRequest) -> JsonObject:
    """Return the data for a decision's event: the decision without arguments, answers or result,
    the edits, and all who approved. Secrets in texts by people, hooks and agents are masked."""
    values = decision.copy()
    for name in _TOLD_ELSEWHERE:
        values.pop(name, None)
    if record.note:
        values["note"] = record.hide(record.note)
    if "message" in values:
        hide = mask if values.get("reason") in _OWN_WORDS else record.hide
        values["message"] = hide(values["message"])
    if names := approved_by(record):
        values["approved_by"] = list(names)
    if record.stepped:
        values["stepped"] = plain(record.stepped)
    return values | _told_ruling(record)


def told_changes(record: StoredRequest) -> JsonObject:
    """Return event data about the rules for a request, and about who raised the risk or changed the
    call, with secrets masked."""
    raised = {"raised": record.hide_in(plain(record.raised))} if record.raised else {}
    return raised | _told_ruling(record)


def told_submission(record: StoredRequest) -> JsonObject:
    """Return the data for a submission's event, with the origin that the agent named."""
    request = record.request
    said = {name: getattr(request, name) for name in ("turn", "call_id", "part", "group")}
    if origin := plain(request.origin):
        said["origin"] = {name: start_of(text, _MOST_NAME) for name, text in origin.items()}
    if request.turn is not None:
        said["turn"] = start_of(request.turn, _MOST_NAME)
    source = {name: value for name, value in said.items() if value is not None}
    call = {"digest": request.digest, "kind": request.kind.value, "tool": mask(request.tool)}
    told: JsonObject = {**call, **told_changes(record), **mask(source)}
    return told


def _told_ruling(record: StoredRequest) -> JsonObject:
    told = {"risk_reasons": list(record.risk.reasons), "edits": plain(record.edits)}
    # Without members there is nothing to mask: finding the secrets of a request takes time.
    given = {name: record.hide_in(value) for name, value in told.items() if value}
    if given.get("risk_reasons"):
        given["risk_reasons"] = [start_of(one, _MOST_NAME) for one in given["risk_reasons"]]
    if record.away:
        given["away"] = plain(record.away)
    return {"route": record.route, "quorum": record.quorum, "risk": record.risk.level, **given}


_DUPLICATE_KEY_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoad:
    """The stored state of an agent's overflow card. `denied` is the id of the request after whose
    denial the agent was blocked."""

    revision: int
    paused: int | None = None
    denied: str | None = None


def overflow_of(agent: str) -> str:
    """Return the value of `behind` that marks requests as covered by an agent's overflow card."""
    return OVERFLOW_MARK + agent


def locate_finding(words: str, place: str) -> str:
    """Return a finding and where it was found. The place is quoted, because the agent chose its
    name."""
    if not place:
        return words
    begun = start_of(place, _MOST_PLACE)
    return f"{words} (in {json.dumps(begun)}{'' if begun == place else '…'})"


def duplicate_key(record: StoredRequest) -> str:
    """Return a key of 16 hex digits that is the same for identical requests of one agent.

    The key depends on everything that would run and that the card shows, on who may decide, and on
    the session. It does not depend on ids, the process, the turn or the timeout. It never changes
    for a record.
    """
    request = record.request
    shared: tuple[Any, ...] = (
        request.digest,
        request.session,
        record.route,
        record.owner,
        request.hint,
        request.allowed,
        plain(replace(request.origin, tool_call_id=None)),
        request.preview and plain(request.preview),
        request.schema,
        request.risk and plain(request.risk),
        # They determine the card's offers. They are left out if empty, to keep earlier keys.
        *((request.roles, request.harmless) if request.roles or request.harmless else ()),
        *(("human",) if request.human else ()),
    )
    return sha256_hex(json.dumps(shared).encode())[:_DUPLICATE_KEY_LENGTH]


def describe_duplicates(record: StoredRequest) -> tuple[str, ...]:
    """Return a sentence for a card: how many identical requests it also covers, or that this
    request has no card in chats."""
    if record.final:
        return ()
    said = []
    if record.alike:
        one = record.alike == 1
        said.append(
            f"{record.alike} more identical request{' is' if one else 's are'} pending. "
            f"Deny applies to {'both' if one else 'all of them'}, Approve only to this one."
        )
    if record.behind:
        said.append(
            "This request has no card in chats: an identical request has a card, or too many "
            "requests are pending."
        )
    return tuple(said)
