"""The wire contract: the messages between agents and the gateway.

Agents build these classes leniently (`gateway.wire.codec`), the server validates them strictly
(`gateway.domain.parsing`). Times are milliseconds since the Unix epoch unless a name says
otherwise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from gateway.wire.canonical_json import action_digest, call_request_id, canonical
from gateway.wire.codec import JsonObject, Wire, plain
from gateway.wire.outcome_text import sentence
from gateway.wire.roles import DECLARED_ROLES, check_roles
from gateway.wire.schema import (
    AGENT_NAME,
    CALL_ID,
    DIGEST,
    REQUEST_ID,
    SESSION_NAME,
    TOOL_NAME,
    InvalidRequest,
    Says,
    matching,
    whole,
)

MAX_LIFE_SECONDS = 30 * 24 * 3600
MAX_SYNC_IDS = 1000
MAX_HOST_RULES = 8
MAX_TIMES = 100
_LONGEST_RULE = 300
_QUESTION = {"properties": {"kind": {"const": "question"}}, "required": ["kind"]}
_PART_OF_NO_CALL = {
    "properties": {"part": {"type": "string"}, "call_id": {"type": "null"}},
    "required": ["part"],
}


class Status(StrEnum):
    """The status of a request; all but pending are final."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


ENDINGS = frozenset(Status) - {Status.PENDING}


class Kind(StrEnum):
    """What is asked for: approval of an action, or an answer. `plan` is a plan in words, `calls` a
    list of calls that are intended (see `PlannedCall`)."""

    TOOL = "tool"
    COMMAND = "command"
    FILE_CHANGE = "file_change"
    PLAN = "plan"
    CALLS = "calls"
    QUESTION = "question"


class Action(StrEnum):
    """What a decision does with the request."""

    APPROVE = "approve"
    EDIT = "edit"
    DENY = "deny"
    RESPOND = "respond"
    ABORT = "abort"
    ANSWER = "answer"


class Reason(StrEnum):
    """Why a request ended, for machines. Open: a reason from a newer gateway is kept as it is."""

    PERSON = "person"
    FEEDBACK = "feedback"
    GRANT = "grant"
    RULE = "rule"
    HOOK = "hook"
    TIMEOUT = "timeout"
    CANCELLED_BY_AGENT = "cancelled_by_agent"
    CANCELLED_BY_OPERATOR = "cancelled_by_operator"
    ABANDONED = "abandoned"
    UNDELIVERABLE = "undeliverable"
    SUPERSEDED = "superseded"
    RESOLVED_ELSEWHERE = "resolved_elsewhere"
    STOPPED = "stopped"
    BREAKER = "breaker"
    WRONG_NUMBER = "wrong_number"

    @classmethod
    def _missing_(cls, value: object) -> Reason | None:
        # Keeps the text, so that the signed bytes stay the same. It equals no known reason.
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = unknown._value_ = value
        return unknown

    def __reduce_ex__(self, protocol: object) -> tuple[type[Reason], tuple[str]]:
        # By value: Python may pickle by name, which an unknown reason has not in the class.
        return type(self), (self.value,)


AGENT_REASONS = (
    Reason.CANCELLED_BY_AGENT,
    Reason.ABANDONED,
    Reason.SUPERSEDED,
    Reason.RESOLVED_ELSEWHERE,
)
"""The reasons that an agent may give for withdrawing its request."""


class RiskLevel(StrEnum):
    """How much harm the action may do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class DeciderKind(StrEnum):
    """What sort of authority decided."""

    PERSON = "person"
    GRANT = "grant"
    RULE = "rule"
    SYSTEM = "system"


KIND_WORDS = {
    Kind.COMMAND: "command",
    Kind.FILE_CHANGE: "file change",
    Kind.PLAN: "plan",
    Kind.CALLS: "plan of calls",
}
"""What people read of it. A call of a tool is what most are, and a question says so itself."""


class FieldKind(StrEnum):
    """How one field of a question is answered."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    CHOICES = "choices"


class Execution(StrEnum):
    """What became of an approved action: as the agent reports it, or `never_fetched`, which the
    gateway notes when nobody took the approval until its time was over."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    REFUSED_LATE = "refused_late"
    NEVER_FETCHED = "never_fetched"


AGENT_EXECUTIONS = tuple(one for one in Execution if one is not Execution.NEVER_FETCHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk(Wire):
    """A risk level with its reasons. From an agent it is a claim that can only raise the level."""

    level: RiskLevel
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Wire):
    """The agent's own preview of the change: `format` is text, diff, shell, json or markdown."""

    format: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Wire):
    """Where the action would run. `env` holds changed variables only; `files` maps path to
    SHA-256."""

    cwd: str | None = None
    host: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(Wire):
    """Where the agent says that the request came from. Claims: they can only exclude approvers."""

    framework: str | None = None
    tool_call_id: str | None = None
    parent_agent: str | None = None
    channel: str | None = None
    chat: str | None = None
    sender: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Wire):
    """One choice of a question's field."""

    value: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Wire):
    """One field to fill in. `secret` answers reach only the asking process, never log or audit."""

    id: str
    text: str
    kind: FieldKind = FieldKind.TEXT
    options: tuple[Option, ...] = ()
    required: bool = True
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule(Wire):
    """A permission that the agent's host offers to keep itself: what it lets through from then on
    without asking, and where and for how long. Both in words, for whoever chooses it."""

    rule: Annotated[str, Says(minLength=1, maxLength=_LONGEST_RULE)]
    scope: Annotated[str, Says(minLength=1, maxLength=_LONGEST_RULE)]

    def __post_init__(self) -> None:
        for name, words in (("rule", self.rule), ("scope", self.scope)):
            if not 0 < len(words) <= _LONGEST_RULE:
                raise InvalidRequest(f"a host rule's {name} has 1 to {_LONGEST_RULE} characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall(Wire):
    """One line of a plan: a call that is intended, and how many `times` at most.

    `any_text` names the arguments that may be any text: they are data, and stand in no `arguments`.
    `kind` and `roles` are those of the request that the call becomes, which runs where the plan
    was made. Raises InvalidRequest when a member breaks the wire's rules.
    """

    tool: Annotated[str, matching(TOOL_NAME)]
    arguments: JsonObject
    any_text: tuple[str, ...] = ()
    times: Annotated[int, Says(minimum=1, maximum=MAX_TIMES)] = 1
    kind: Kind = Kind.TOOL
    roles: Annotated[dict[str, str], DECLARED_ROLES] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _match(TOOL_NAME, "tool", self.tool)
        check_roles(self.roles)
        if not 1 <= self.times <= MAX_TIMES:
            raise InvalidRequest(f"a planned call runs 1 to {MAX_TIMES} times")
        if self.kind not in (Kind.TOOL, Kind.COMMAND, Kind.FILE_CHANGE):
            raise InvalidRequest(f"a planned call is no {self.kind}")
        if len({*self.any_text, *self.arguments}) < len(self.any_text) + len(self.arguments):
            raise InvalidRequest("an argument is any text, or has a value, and is named once")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest(Wire):
    """One thing that waits for an answer.

    `arguments` are exactly what will run; `digest` binds them, see `digest_of`. `timeout` is in
    seconds: None takes the route's, 0 means no deadline but the 30-day cap. `schema` is a JSON
    Schema for edited arguments. `roles` say what arguments are to the tool (see
    `gateway.wire.roles`) and `harmless` that nothing it does needs asking: claims of the tool's
    author about what may be remembered, which the digest leaves out. `human` demands a person:
    nothing but a person approves it, though everything may deny it. `call_id` is the host's own id
    of the call, and `part` tells apart what is asked within it; see `gateway.wire.canonical_json`
    for the `id` that such a request has. `group` is shared by requests that are decided together.
    `read_only` is the claim of the tool's author that it changes nothing. `host_rules` are what the
    host offers to keep itself, of which a person may choose one with an approval. Without
    `shows_number` nobody would see a number where it waits, so it gets none. Raises InvalidRequest
    when a member breaks the wire's rules.
    """

    __pydantic_config__ = whole(
        if_=_QUESTION,
        then={"required": ["questions"], "properties": {"questions": {"minItems": 1}}},
        else_={"properties": {"questions": {"maxItems": 0}}},
        not_=_PART_OF_NO_CALL,
    )

    id: Annotated[str, matching(REQUEST_ID)]
    agent: Annotated[str, matching(AGENT_NAME)]
    tool: Annotated[str, matching(TOOL_NAME)]
    arguments: JsonObject
    digest: Annotated[str, matching(DIGEST)]
    kind: Kind = Kind.TOOL
    session: Annotated[str, matching(SESSION_NAME)] = "default"
    turn: str | None = None
    hint: str = ""
    preview: Preview | None = None
    payload: JsonObject | None = None
    context: Context = field(default_factory=Context)
    origin: Origin = field(default_factory=Origin)
    questions: tuple[Question, ...] = ()
    schema: JsonObject | None = None
    allowed: Annotated[tuple[Action, ...], Says(minItems=1)] = (Action.APPROVE, Action.DENY)
    risk: Risk | None = None
    timeout: Annotated[float, Says(minimum=0, maximum=MAX_LIFE_SECONDS)] | None = None
    roles: Annotated[dict[str, str], DECLARED_ROLES] = field(default_factory=dict)
    harmless: bool = False
    human: bool = False
    call_id: Annotated[str, matching(CALL_ID)] | None = None
    part: Annotated[str, matching(CALL_ID)] | None = None
    group: Annotated[str, matching(SESSION_NAME)] | None = None
    read_only: bool = False
    host_rules: Annotated[
        tuple[HostRule, ...], Says(maxItems=MAX_HOST_RULES, uniqueItems=True)
    ] = ()
    shows_number: bool = True

    def __post_init__(self) -> None:
        _match(REQUEST_ID, "id", self.id)
        _match(AGENT_NAME, "agent", self.agent)
        _match(SESSION_NAME, "session", self.session)
        _match(TOOL_NAME, "tool", self.tool)
        for pattern, name, text in (
            (CALL_ID, "call_id", self.call_id),
            (CALL_ID, "part", self.part),
            (SESSION_NAME, "group", self.group),
        ):
            if text is not None:
                _match(pattern, name, text)
        if self.part is not None and self.call_id is None:
            raise InvalidRequest("part belongs to a call: give its call_id")
        if self.timeout is not None and not 0 <= self.timeout <= MAX_LIFE_SECONDS:
            raise InvalidRequest(f"timeout must lie between 0 and {MAX_LIFE_SECONDS} seconds")
        if (self.kind is Kind.QUESTION) != bool(self.questions):
            raise InvalidRequest("questions belong to kind question, and it needs at least one")
        if len({question.id for question in self.questions}) != len(self.questions):
            raise InvalidRequest("two fields of the question share an id")
        if len(set(self.host_rules)) != len(self.host_rules) or (
            len(self.host_rules) > MAX_HOST_RULES
        ):
            raise InvalidRequest(f"host_rules are {MAX_HOST_RULES} at most, each another one")
        if not self.allowed:
            raise InvalidRequest("allowed must name at least one action")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedBy(Wire):
    """Who or what decided: a person's id, a grant's id, a rule's name, or system."""

    kind: DeciderKind
    name: str


@dataclass(frozen=True, kw_only=True)  # no slots: `with_signature` adds a member
class Decision(Wire):
    """The one terminal answer to a request.

    `digest` names what may run: the request's, or that of the edited `arguments`. `answers` belong
    to a question, `result` to `respond`. `abort` is turn or agent. An approval must be used before
    `expires_at`. `host_rule` is the one of the request's that the host is to keep itself.
    """

    request_id: str
    revision: int
    status: Status
    action: Action | None
    reason: Reason
    digest: str
    decided_by: DecidedBy
    decided_at: int
    expires_at: int
    message: str = ""
    arguments: JsonObject | None = None
    answers: JsonObject | None = None
    result: Any = None
    abort: str | None = None
    host_rule: HostRule | None = None
    signature: str | None = None

    def signed_bytes(self) -> bytes:
        """Return the canonical bytes that the signature covers: everything but itself."""
        return canonical(self._unsigned_values())

    def _unsigned_values(self) -> JsonObject:
        values: JsonObject = plain(self)
        values.pop("signature", None)
        return values

    def with_signature(self, sign: Callable[[bytes], str]) -> Decision:
        """Return this decision with the signature that `sign` makes of its bytes.

        The copy also keeps its JSON values, so that they need not be built again to be written. A
        copy made by `replace` does not.
        """
        values = self._unsigned_values()
        values["signature"] = sign(canonical(values))
        twin = object.__new__(Decision)
        twin.__dict__.update(self.__dict__, signature=values["signature"], _values=values)
        return twin

    def values(self) -> JsonObject:
        """Return the decision as JSON values, which the caller must not change."""
        kept: JsonObject | None = self.__dict__.get("_values")
        return plain(self) if kept is None else kept

    def sentence(self) -> str:
        """Return in one sentence how the request ended and who decided."""
        return sentence(
            reason=self.reason,
            status=self.status,
            name=self.decided_by.name,
            message=self.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Wire):
    """What became of an approved action. `duration_ms` counts from its start."""

    execution: Execution
    duration_ms: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack(Wire):
    """What an agent may read again of its request: what it asked, when that was decided and why,
    to how many processes the approval was handed out, and what was reported.

    `given_up` says that the approval was withdrawn before it was used: it is never handed out.
    """

    request: ApprovalRequest
    created: int
    decided_at: int | None = None
    reason: Reason | None = None
    decided_by: DecidedBy | None = None
    consumed: int = 0
    given_up: bool = False
    report: Report | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Wire):
    """The gateway's answer to every message about a request: its current state.

    `decision` is sent to the process that may act on it. `may_have_run` warns a process that
    consumes an approval which another process already has. `secrets` are the secret answers of a
    question. `record` is there where it was asked for. `number` is for who waits: they show it, and
    whoever approves may have to type it.
    """

    id: str
    status: Status
    revision: int
    digest: str
    deadline: int
    decision: Decision | None = None
    may_have_run: bool = False
    secrets: JsonObject | None = None
    record: ReadBack | None = None
    number: str | None = None


def digest_of(request: ApprovalRequest, arguments: JsonObject | None = None) -> str:
    """Return the SHA-256 (hex) over the action and the agent that it runs for.

    Covers agent, kind, tool, arguments (or the edited `arguments`), payload, context, questions;
    not id, session, hint, preview, risk, roles, harmless, human, call_id, part, group, read_only,
    host_rules or shows_number.
    Equal actions have equal digests.
    """
    return action_digest(
        agent=request.agent,
        kind=str(request.kind),
        tool=request.tool,
        arguments=request.arguments if arguments is None else arguments,
        payload=request.payload,
        context=plain(request.context),
        questions=plain(request.questions),
    )


def id_of_call(request: ApprovalRequest) -> str:
    """Return the id that a request with a `call_id` has. Raises InvalidRequest without one."""
    if request.call_id is None:
        raise InvalidRequest("only a request with a call_id has an id of its call")
    return call_request_id(
        request.agent, request.session, request.call_id, request.part or "", request.digest
    )


def new_id() -> str:
    """Return 128 random bits as 32 hex digits: a request id or a process token."""
    return os.urandom(16).hex()  # as `secrets` does, whose import takes 4 ms


def _match(pattern: re.Pattern[str], name: str, text: str) -> None:
    if not pattern.fullmatch(text):
        long = f"of {len(text)} characters"
        raise InvalidRequest(f"{name} {long} does not match {pattern.pattern}")
