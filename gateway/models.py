"""Define the messages between agents and the gateway. Start at ApprovalRequest and Decision.

Agents ignore unknown members (`gateway.wire.codec`); the server rejects them
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
    """The kind of a request. A `question` requests input, every other kind an approval. A `plan` is
    written in prose; `calls` is a list of planned calls (see `PlannedCall`)."""

    TOOL = "tool"
    COMMAND = "command"
    FILE_CHANGE = "file_change"
    PLAN = "plan"
    CALLS = "calls"
    QUESTION = "question"


class Action(StrEnum):
    """The action that a decision takes on a request."""

    APPROVE = "approve"
    EDIT = "edit"
    DENY = "deny"
    RESPOND = "respond"
    ABORT = "abort"
    ANSWER = "answer"


class Reason(StrEnum):
    """Why a request ended, as a code for programs. An unknown code from a newer gateway stays a
    string."""

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
        # Keep the text, so that the signed bytes stay the same. It equals no known reason.
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = unknown._value_ = value
        return unknown

    def __reduce_ex__(self, protocol: object) -> tuple[type[Reason], tuple[str]]:
        # Pickle by value: Python may pickle by name, but the class has no name for this reason.
        return type(self), (self.value,)


AGENT_REASONS = (
    Reason.CANCELLED_BY_AGENT,
    Reason.ABANDONED,
    Reason.SUPERSEDED,
    Reason.RESOLVED_ELSEWHERE,
)
"""The reasons that an agent may give when it cancels its request."""


class RiskLevel(StrEnum):
    """How much harm the action may do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class DeciderKind(StrEnum):
    """The kind of authority that decided."""

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
"""The label of a kind on cards. Tool calls and questions need none."""


class FieldKind(StrEnum):
    """The type of the answer to one field of a question."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    CHOICES = "choices"


class Execution(StrEnum):
    """The result of an approved action, as the agent reports it. The gateway itself records
    `never_fetched` if no process claimed the approval before its deadline."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    REFUSED_LATE = "refused_late"
    NEVER_FETCHED = "never_fetched"


AGENT_EXECUTIONS = tuple(one for one in Execution if one is not Execution.NEVER_FETCHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk(Wire):
    """A risk level with its reasons. A level that the agent claims can only raise the risk."""

    level: RiskLevel
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Wire):
    """The agent's own preview of a change. `format` is text, diff, shell, json or markdown."""

    format: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Wire):
    """The place where the action would run. `env` holds only environment variables that were
    changed. `files` maps the path of each bound file to its SHA-256."""

    cwd: str | None = None
    host: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(Wire):
    """The source of a request, as the agent claims it. The claim can exclude approvers, but not add
    any.

    `channel` (the platform), `chat` and `thread` identify the conversation in which the request
    began. `chat` has the form `WORKSPACE/CHANNEL` or `SERVER/CHANNEL`, in ids. `message` is the id
    of the chat message that the agent works on; cards link to it.
    """

    framework: str | None = None
    tool_call_id: str | None = None
    parent_agent: str | None = None
    channel: str | None = None
    chat: str | None = None
    sender: str | None = None
    thread: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Wire):
    """One choice in a field of a question. Without a `label`, people see the `value`."""

    value: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Wire):
    """One field to fill in. A `secret` answer is sent only to the process that asked; it is never
    logged."""

    id: str
    text: str
    kind: FieldKind = FieldKind.TEXT
    options: tuple[Option, ...] = ()
    required: bool = True
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule(Wire):
    """A permission that the coding agent offers to save in its own settings. People read `rule` to
    see which calls the permission allows, and `scope` to see where and how long."""

    rule: Annotated[str, Says(minLength=1, maxLength=_LONGEST_RULE)]
    scope: Annotated[str, Says(minLength=1, maxLength=_LONGEST_RULE)]

    def __post_init__(self) -> None:
        for name, words in (("rule", self.rule), ("scope", self.scope)):
            if not 0 < len(words) <= _LONGEST_RULE:
                raise InvalidRequest(
                    f"the {name} of a host rule must have 1 to {_LONGEST_RULE} characters"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCall(Wire):
    """One line of a plan: a call that may run up to `times` times.

    `any_text` names the arguments that may be any string. They are data; `arguments` does not list
    them. `kind` and `roles` are those of the request that follows later, in the same place as the
    plan. Raises InvalidRequest if a member breaks the rules of the wire format.
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
            raise InvalidRequest(f"a planned call must run 1 to {MAX_TIMES} times")
        if self.kind not in (Kind.TOOL, Kind.COMMAND, Kind.FILE_CHANGE):
            raise InvalidRequest(f"a planned call cannot be of kind {self.kind}")
        if len({*self.any_text, *self.arguments}) < len(self.any_text) + len(self.arguments):
            raise InvalidRequest("name each argument once: in any_text or in arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest(Wire):
    """One request for an approval, or for input.

    `arguments` are exactly what will run; `digest` is the action digest, see `digest_of`. `timeout`
    is in seconds. None means the timeout of the route, 0 means the maximum of 30 days. `schema` is
    a JSON Schema for edited arguments. `roles` say how the tool uses each argument, see
    `gateway.wire.roles`. `harmless` says that no call of the tool needs an approval. `roles` and
    `harmless` are claims of the tool's author that affect grants only; the digest does not cover
    them. `human` means that only a person can approve; rules and hooks can still deny. `call_id` is
    the framework's id of the call, and `part` distinguishes several requests about one call. See
    `gateway.wire.canonical_json` for the `id` of such a request. Requests with the same `group`
    form one batch. `read_only` is the author's claim that the tool changes nothing. A person who
    approves may also choose one of `host_rules`. `shows_number` says that the agent can display a
    verification code; otherwise the request gets none. Raises InvalidRequest if a member breaks the
    rules of the wire format.
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
            raise InvalidRequest("part needs a call_id: give the id of its call")
        if self.timeout is not None and not 0 <= self.timeout <= MAX_LIFE_SECONDS:
            raise InvalidRequest(f"the timeout must be 0 to {MAX_LIFE_SECONDS} seconds")
        if (self.kind is Kind.QUESTION) != bool(self.questions):
            raise InvalidRequest("only kind question has questions, and it needs at least one")
        if len({question.id for question in self.questions}) != len(self.questions):
            raise InvalidRequest("two fields of the question have the same id")
        if len(set(self.host_rules)) != len(self.host_rules) or (
            len(self.host_rules) > MAX_HOST_RULES
        ):
            raise InvalidRequest(
                f"host_rules can have at most {MAX_HOST_RULES} rules, all different"
            )
        if not self.allowed:
            raise InvalidRequest("allowed must name at least one action")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedBy(Wire):
    """The authority that decided. `name` is the id of a person or grant, the name of a rule, or
    `system`."""

    kind: DeciderKind
    name: str


@dataclass(frozen=True, kw_only=True)  # no slots: `with_signature` adds a member
class Decision(Wire):
    """The one final decision on a request.

    `digest` is the action digest of what may run: the request, or its edited `arguments`. `answers`
    are set for a question, `result` for `respond`. `abort` is `turn` or `agent`, if that must stop.
    Claim an approval before `expires_at`. `host_rule` is the rule that the coding agent must save.
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
        """Return the canonical bytes that the signature covers: all members but `signature`."""
        return canonical(self._unsigned_values())

    def _unsigned_values(self) -> JsonObject:
        values: JsonObject = plain(self)
        values.pop("signature", None)
        return values

    def with_signature(self, sign: Callable[[bytes], str]) -> Decision:
        """Return a signed copy; `sign` computes the signature from the bytes.

        The signed copy caches the JSON that `values` returns. A copy made by `replace` has no
        cache.
        """
        values = self._unsigned_values()
        values["signature"] = sign(canonical(values))
        twin = object.__new__(Decision)
        twin.__dict__.update(self.__dict__, signature=values["signature"], _values=values)
        return twin

    def values(self) -> JsonObject:
        """Return the decision as JSON values. Do not change them: they may be cached."""
        kept: JsonObject | None = self.__dict__.get("_values")
        return plain(self) if kept is None else kept

    def sentence(self) -> str:
        """Return one sentence that says how the request ended and who decided."""
        return sentence(
            reason=self.reason,
            status=self.status,
            name=self.decided_by.name,
            message=self.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Wire):
    """An agent's report on an approved action. `duration_ms` counts from the start of the action,
    `detail` is a short text such as the type of an error."""

    execution: Execution
    duration_ms: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack(Wire):
    """The record of a request, as the agent that made the request may read it.

    `consumed` counts the processes that claimed the approval. `given_up` says that the approval
    was cancelled before use, so that nobody can claim it any more. `messages` are the addresses of
    its cards in chats.
    """

    request: ApprovalRequest
    created: int
    decided_at: int | None = None
    reason: Reason | None = None
    decided_by: DecidedBy | None = None
    consumed: int = 0
    given_up: bool = False
    report: Report | None = None
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Wire):
    """The current state of a request, as the gateway sends it in reply to every message about it.

    A `decision` is sent only to the process that may act on it. `may_have_run` warns that another
    process has already claimed the approval. `secrets` are the secret answers to a question.
    `record` is set only if the message asked for it. `number` is a verification code: the waiting
    agent shows it, and the approver may have to type it.
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
    """Return the action digest: a SHA-256 in hex. Equal actions have equal digests.

    The digest covers agent, kind, tool, arguments, payload, context and questions. If edited
    `arguments` are given, they replace those of the request. All other members are left out: id,
    session, hint, preview, risk, roles, harmless, human, call_id, part, group, read_only,
    host_rules, shows_number. Raises InvalidRequest if the action is not JSON.
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
    """Return the id derived from the `call_id` of a request; each process derives the same id.

    Raises InvalidRequest if the request has no `call_id`.
    """
    if request.call_id is None:
        raise InvalidRequest("the request has no call_id, so its id cannot be derived")
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
