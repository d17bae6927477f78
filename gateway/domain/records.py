"""What the gateway keeps: requests as they stand, people, clicks, events, and how a request ends.
Values only, no I/O. `duplicate_key` tells which waiting requests are the same to whoever reads a
card.

Times are milliseconds since the Unix epoch unless a name says otherwise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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
"""Of the data in Redis, as `gateway.stores.record_codec` writes it. No other one is read."""


_MOST_PLACE = 60
_KEPT = "_secrets"

NOBODY = "-"
"""The last consumer of an approval that was given up; no process has such a token."""

OVERFLOW_MARK = "~"
"""With an agent's name behind it: what the agent's overflow card stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(Wire):
    """A verified identity of someone who clicks: the platform that verified it, and its stable
    id.

    `groups` are the user groups or roles that the platform says it belongs to at this moment,
    written like identities, for example `slack:T1/S9`.
    """

    platform: str
    id: str
    groups: tuple[str, ...] = ()

    @property
    def written(self) -> str:
        """The identity as the people file writes it."""
        return f"{self.platform}:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person(Wire):
    """One human. `identities` are written `platform:id`, for example `slack:T1/U1`."""

    name: str
    identities: tuple[str, ...] = ()
    admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember(Wire):
    """How a decision is to be remembered.

    `offer` is the id of an offer made for the request, empty for the narrowest. `lifetime` is one
    of 15m, 1h, 8h, 1d, 1w and revoked. Without `everywhere` it holds for the request's session.
    """

    offer: str = ""
    everywhere: bool = False
    lifetime: str = "1h"
    max_uses: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeQuorum(Wire):
    """How many people must vote for remembering an approval so widely: a pattern over its
    arguments, a folder, the whole tool; and in all sessions, whatever the scope. Never fewer than
    the request itself needs."""

    pattern: int = 1
    folder: int = 1
    tool: int = 1
    everywhere: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote(Wire):
    """One person's approval while a quorum is open. `via` is the entry of the route's approvers
    that admitted them: their name, an identity, or a group. `remember` is what they want remembered
    with it, `needs` how many votes that takes. `stepped` is the step-up that they did."""

    person: str
    action: Action
    at: int
    via: str = ""
    remember: Remember | None = None
    needs: int = 0
    stepped: StepUpDone | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(Wire):
    """One change of what would run: by a person, or by a rule, such as a policy hook. `digest` is
    that of what would run since, `why` the rule's own reason."""

    by: DecidedBy
    digest: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvers(Wire):
    """Who may approve a request under the policy of the moment: people's names, and identities and
    groups of platforms as the policy writes them. `nobody` says why there are none. `step_up` are
    the ways of which an approval takes one, beside a tap."""

    names: tuple[str, ...] = ()
    nobody: str = ""
    step_up: tuple[StepUp, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Wire):
    """Someone says that they are looking at it, so that others need not."""

    person: str
    at: int


# The outbox of requests that slow deciders are asked about before people see them.
REVIEWS = "reviews"


@dataclass(frozen=True, kw_only=True)  # without slots, for `revised`
class StoredRequest(Wire):
    """One request as it stands.

    `revision` rises with every visible change; `shown_since` is the revision at which what would
    run last changed, so a click that saw an older one is refused. `digest` and `arguments` are of
    what would run now. `process` submitted it, `attached` ones are told how it ends, `consumers`
    were handed the approval, in order. `waiting` is False when nobody waits for the answer any
    more. `note` is the decider's, for the record only: no agent is ever told. `nonces` name the
    clicks that were applied, the newest last. `queues` name the outboxes that must look again when
    it changes; `tier` counts escalations, the last at `tier_at`; `reminders` counts those that were
    due. One that is `behind` another, or behind its agent's overflow card, has no card of its own;
    `alike` counts those behind this one. `findings` are what the guardrails see in what would run
    now, none where they are off; `finding_places` say for each where in the arguments. A
    `harmless` tool was declared so when it was asked, by the operator or by an author whom the
    policy trusts.
    `declared` are the operator's roles for its arguments; where it is `trusted`, those of the
    request may free arguments too. Where something is decided, the policy of that moment counts for
    all three (`PolicyDocument.declare`). `asks_because` is a sentence without secrets: what
    kept a remembered approval of the same tool, or a rule's limit, from covering it; empty where
    none was near.
    `raised` are who raised the risk beyond what the policy and the agent say: it is part of `risk`,
    and kept apart from it because what would run may be assessed anew. `edits` say who changed the
    arguments, the last of each, the newest last. `numbered` says that a number is shown where its
    agent waits, which no record holds; `guesses` counts the wrong ones that were typed, and
    `stepped` are the step-ups that were done. `approvers` is not kept: it is looked up for whoever
    reads, None where nobody did. `spends` is not kept either: the script that stores an approval
    by a rule counts it.
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
    numbered: bool = False
    guesses: int = 0
    stepped: tuple[StepUpDone, ...] = ()
    alike: int = field(default=0, compare=False)
    approvers: Approvers | None = field(default=None, compare=False)
    spends: tuple[Spend, ...] = field(default=(), compare=False)

    def copy_with(self, **members: Any) -> StoredRequest:
        """Return a copy with these members instead: `dataclasses.replace` in a fifth of the time,
        where nothing is checked at birth."""
        twin = object.__new__(StoredRequest)
        twin.__dict__.update(self.__dict__, **members)
        return twin

    @property
    def id(self) -> str:
        """The request's id."""
        return self.request.id

    @property
    def arguments(self) -> JsonObject:
        """The arguments that would run now: the agent's, or an editor's."""
        return self.request.arguments if self.edited is None else self.edited

    @property
    def editors(self) -> tuple[Edit, ...]:
        """Who changed the arguments that would run now."""
        return () if self.edited is None else self.edits

    def edited_as(self, arguments: JsonObject, by: DecidedBy, why: str = "") -> StoredRequest:
        """Return the record with these arguments to run instead, and by whom; that replaces an
        earlier edit by the same."""
        edit = Edit(by=by, digest=digest_of(self.request, arguments), why=why)
        edits = (*(one for one in self.edits if one.by != by), edit)
        return replace(self, edited=arguments, digest=edit.digest, edits=edits)

    @property
    def parts(self) -> tuple[JsonObject, ...]:
        """All that would run now, for whoever looks for danger: the arguments, then any payload."""
        payload = self.request.payload
        return (self.arguments,) if payload is None else (self.arguments, payload)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the request, for every text that is made from it. They stay beside the
        record, with the very objects that they rest on."""
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
        """Return where secrets are in a text that is made from the request."""
        return find_known(text, self.secrets, named=named)

    def hide(self, text: str) -> str:
        """Return a text that is made from the request, with its secrets masked."""
        return hide_known(text, self.secrets)

    def hide_in(self, value: Any) -> Any:
        """Return a JSON value that is made from the request, with its secrets masked."""
        return hide_in(value, self.secrets)

    def show(self, text: str, *, reveal: bool = False) -> Visible:
        """Return a text that is made from the request as people get it."""
        return render_safe(text, reveal=reveal, found=self.find_secrets(text))

    @property
    def for_people(self) -> bool:
        """Whether only people may approve it: its risk is high, or the agent demands a person."""
        return self.request.human or self.risk.level is RiskLevel.HIGH

    @property
    def alarms(self) -> bool:
        """Whether the guardrails raised its risk: they are in force, and found something."""
        return any(one.decider == GUARDRAILS for one in self.raised)

    @property
    def located_findings(self) -> tuple[str, ...]:
        """What the guardrails found, each with its place, where that is known."""
        places = (*self.finding_places, *("" for _ in self.findings))
        return tuple(map(locate_finding, self.findings, places))

    @property
    def follows(self) -> bool:
        """Whether it has, or had, no card of its own because another asks the same."""
        return bool(self.behind) and not self.behind.startswith(OVERFLOW_MARK)

    @property
    def unreviewed(self) -> bool:
        """Whether it waits for slow deciders, and not for people yet."""
        return REVIEWS in self.queues and not self.final

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

    @property
    def given_up(self) -> bool:
        """Whether its agent gave the approval up, so that no process is handed it."""
        return self.consumers[-1:] == (NOBODY,)

    @property
    def untaken(self) -> bool:
        """Whether it is approved, handed to no process, and nothing is known of a run."""
        return self.status is Status.APPROVED and not self.consumers and self.report is None

    def read_back(self) -> ReadBack:
        """Return what its agent may read again of it, whichever process asks."""
        decision = self.decision
        return ReadBack(
            request=self.request,
            created=self.created,
            decided_at=decision.decided_at if decision else None,
            reason=decision.reason if decision else None,
            decided_by=decision.decided_by if decision else None,
            consumed=sum(one != NOBODY for one in self.consumers),
            given_up=self.given_up,
            report=self.report,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent(Wire):
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
    `copy` and `ref` say on which posted copy it was made, and where that copy was seen; both are
    None where nothing is posted. `confirmed` says that the person confirmed it, as high risk needs;
    `revealed` that nothing was masked where they clicked, which the inbox alone can tell. `number`
    is what they typed for the one that is shown where the agent waits.
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
    """Which requests to list, newest first: those that wait, or with `final` those that ended.
    `soonest` lists those that wait by their deadlines instead, the nearest first.

    `status` narrows the ended ones. Without `followers` those are left out that wait behind another
    which asks the same. `after` is the cursor that the page before named.
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
    """One page of a listing and the cursor of the next, None at the end."""

    items: tuple[StoredRequest, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Wire):
    """A session of an agent that has not ended."""

    agent: str
    name: str
    last_seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Wire):
    """An agent that asks nobody `until` then, because people denied too much of it in a row."""

    agent: str
    until: int


def place_of(event_id: str) -> tuple[int, int]:
    """Return where an event stands in the stream, for comparing: ids are `<ms>-<number>`."""
    milliseconds, _, number = event_id.partition("-")
    return int(milliseconds), int(number)


SYSTEM = DecidedBy(kind=DeciderKind.SYSTEM, name="gateway")
_OWN_WORDS = frozenset((Reason.RULE, Reason.BREAKER, Reason.STOPPED, Reason.UNDELIVERABLE))
"""Reasons whose message nobody but the gateway and its operator writes."""

_TOLD_ELSEWHERE = ("arguments", "answers", "result", "request_id", "revision", "status")


class Spend(NamedTuple):
    """What an approval by a rule counts against one of its limits, in ten-thousandths: `most` may
    be counted by `key` within `window_ms`, and `words` say of what."""

    key: str
    amount: int
    most: int
    window_ms: int
    words: str


class RequestOutcome(NamedTuple):
    """How a request ends, apart from what the record itself knows."""

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
    """Return in one sentence how a final request ended, with all who approved it. What a person, a
    hook or the agent said stands quoted: it cannot pass for ours."""
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
    """Say how an approval was confirmed; nothing where a tap was enough."""
    words = dict.fromkeys(one.words for one in record.stepped)
    return (join_names(tuple(words), "and"),) if words else ()


def approved_by(record: StoredRequest) -> tuple[str, ...]:
    """Return the people who approved it together; nobody's name where one alone did."""
    if record.status is not Status.APPROVED:
        return ()
    return tuple(vote.person for vote in record.votes)


def deciders_of(record: StoredRequest) -> tuple[str, ...]:
    """Return the people who decided a request, by name; nobody where none did."""
    decision = record.decision
    if decision is None or decision.decided_by.kind is not DeciderKind.PERSON:
        return ()
    return approved_by(record) or (decision.decided_by.name,)


def outcome_of(decision: Decision) -> RequestOutcome:
    """Return the outcome by which another request ends as this one was decided."""
    return RequestOutcome(
        status=decision.status,
        reason=decision.reason,
        by=decision.decided_by,
        action=decision.action,
        message=decision.message,
        abort=decision.abort,
    )


def summary(decision: JsonObject, record: StoredRequest) -> JsonObject:
    """Return what the event of an ending says: the decision without arguments, answers or
    result, who changed what ran, and all who approved. Secrets in what people, hooks or agents
    wrote are masked."""
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
    return values | _told_edits(record)


def told_changes(record: StoredRequest) -> JsonObject:
    """Return what events say of who raised the risk, and who changed what would run, with secrets
    masked; nothing where nobody did."""
    raised = {"raised": record.hide_in(plain(record.raised))} if record.raised else {}
    return raised | _told_edits(record)


def told_submission(record: StoredRequest) -> JsonObject:
    """Return what the event of a submission says, and where the agent says that it came from."""
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


def _told_edits(record: StoredRequest) -> JsonObject:
    return {"edits": record.hide_in(plain(record.edits))} if record.edits else {}


_DUPLICATE_KEY_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoad:
    """What is kept of an agent's overflow card. `denied` is the id of the request whose denial
    paused the agent."""

    revision: int
    paused: int | None = None
    denied: str | None = None


def overflow_of(agent: str) -> str:
    """Return what stands for the requests that wait behind an agent's overflow card."""
    return OVERFLOW_MARK + agent


def locate_finding(words: str, place: str) -> str:
    """Return a finding with the place it is about, quoted: the agent chose its name."""
    if not place:
        return words
    begun = start_of(place, _MOST_PLACE)
    return f"{words} (in {json.dumps(begun)}{'' if begun == place else '…'})"


def duplicate_key(record: StoredRequest) -> str:
    """Return what equal requests of one agent share: 16 hex digits.

    It covers everything that would run and that the card shows, who may decide, and the session;
    not ids, the process, the turn, or how long to wait. It never changes over a record's life.
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
        # What the card offers to remember goes by them. Without them it is as it always was.
        *((request.roles, request.harmless) if request.roles or request.harmless else ()),
        *(("human",) if request.human else ()),
    )
    return sha256_hex(json.dumps(shared).encode())[:_DUPLICATE_KEY_LENGTH]


def describe_duplicates(record: StoredRequest) -> tuple[str, ...]:
    """Say on a card who waits behind it, or that it has none of its own in chats."""
    if record.final:
        return ()
    said = []
    if record.alike:
        one = record.alike == 1
        said.append(
            f"{record.alike} more request{' asks' if one else 's ask'} exactly this. "
            f"A denial is for {'both' if one else 'all'}, an approval for this one only."
        )
    if record.behind:
        said.append("It has no card in chats: another asks the same, or too many wait.")
    return tuple(said)
