"""Define a grant: its effect, its agent and session, what it matches, and when it ends.

This module only defines values; `gateway.policy.grants.coverage` decides whether a grant covers a
request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from gateway.errors import InvalidRequest
from gateway.models import Kind
from gateway.policy.calls.known_commands import Operands
from gateway.wire.codec import Wire
from gateway.wire.schema import AGENT_NAME, DIGEST, REQUEST_ID, SESSION_NAME, TOOL_NAME, matching

MAX_RULES = 32  # arguments in a pattern
MAX_PARTS = 64  # flags, words and the like in one command pattern
MAX_TEXT = 4096  # characters of one compared value


class Effect(StrEnum):
    """Whether a grant allows or denies the requests that it covers."""

    ALLOW = "allow"
    DENY = "deny"


class Shape(StrEnum):
    """How wide a match is, from narrow to wide."""

    EXACT = "exact"
    PATTERN = "pattern"
    TOOL = "tool"
    LOOKS = "looks"
    EDITS = "edits"
    WORK = "work"
    SCRIPTS = "scripts"


# Session passes, which always expire within hours.
PASSES = (Shape.EDITS, Shape.WORK, Shape.SCRIPTS)
# Matches for every tool of an agent, and so for all its routes.
OF_ALL_TOOLS = (Shape.LOOKS, *PASSES)
ANY_TOOL = "*"
LONGEST_PASS_MS = 8 * 3_600_000
_DAY_MS = 24 * 3_600_000


class Answer(StrEnum):
    """The part of a call that a grant leaves open; all other parts must be the same each time."""

    COMMAND = "command"
    FOLDER = "folder"
    TEXT = "text"
    VALUES = "values"
    SOURCE = "source"
    TOOL = "tool"


class Scope(StrEnum):
    """Names for how wide a match is, for people. They do not reveal what the match covers."""

    EXACT = "exactly this"
    PATTERN = "a pattern over its arguments"
    FOLDER = "a folder"
    TOOL = "the whole tool"
    LOOKS = "looking below a folder"
    PASS = "a pass for the session"


_SCOPES = {
    Shape.EXACT: Scope.EXACT,
    Shape.PATTERN: Scope.PATTERN,
    Shape.TOOL: Scope.TOOL,
    Shape.LOOKS: Scope.LOOKS,
    Shape.EDITS: Scope.PASS,
    Shape.WORK: Scope.PASS,
    Shape.SCRIPTS: Scope.PASS,
}


class MatchResult(StrEnum):
    """Whether a grant or rule covers a request. Only a deny grant or rule can be `unsure`."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"


class RuleKind(StrEnum):
    """How a rule compares one argument."""

    EQUALS = "equals"
    FOLDER = "folder"
    COMMAND = "command"
    HOST = "host"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPattern(Wire):
    """A pattern for simple commands: the program and verbs as typed, and the flags that are
    allowed.

    `needs` lists flags that a command must have, such as `-n`, because it does more without them.
    `words` lists the operands if `operands` is fixed. Paths must be in `folder` or, if that is not
    set, relative and below the command's working folder. In a deny grant, the pattern covers all
    commands with this program, these verbs and all of `flags`, whatever follows.
    """

    program: str
    verbs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    operands: Operands = Operands.NONE
    words: tuple[str, ...] = ()
    folder: str | None = None

    def __post_init__(self) -> None:
        parts = (*self.verbs, *self.flags, *self.words)
        if not set(self.needs) <= set(self.flags):
            raise InvalidRequest('the "needs" of a command pattern must be among its "flags"')
        if not self.program or len(parts) > MAX_PARTS:
            raise InvalidRequest(
                f"a command pattern must have a program, and at most {MAX_PARTS} parts"
            )
        if any(len(part) > MAX_TEXT for part in (self.program, *parts)):
            raise InvalidRequest(f"a part of a command pattern has more than {MAX_TEXT} characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Wire):
    """A condition on one argument.

    `value` is the required value, folder or host; `command` is for rules of kind command. In grants
    that allow, a `name` that begins with `$` is an address (`$.edits[].old_string`). There, `type`
    is the JSON type, and an `optional` argument may be missing.
    """

    name: str
    kind: RuleKind
    value: Any = None
    command: CommandPattern | None = None
    type: str = ""
    optional: bool = False

    def __post_init__(self) -> None:
        if (self.kind is RuleKind.COMMAND) != (self.command is not None):
            raise InvalidRequest(
                "a rule needs a command pattern if its kind is command, and only then"
            )
        texts = (RuleKind.FOLDER, RuleKind.HOST)
        if self.kind in texts and (not isinstance(self.value, str) or not self.value):
            raise InvalidRequest(f"a rule of kind {self.kind} needs a string as its value")

    @property
    def address(self) -> str:
        """The address of the rule's argument in a call."""
        if not self.name.startswith("$"):
            return self.name
        return self.name[2:] if self.name.startswith("$.") else self.name[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match(Wire):
    """The requests that a grant covers.

    A match covers one digest, a tool with a rule for each argument, a whole tool, or looking below
    `cwd` with any tool. All matches except exact ones also fix where the action runs (`cwd`,
    `host`), and cover no request that sets environment variables or has a payload.

    `answer` is the part that a grant leaves open. Without `answer`, the match belongs to a deny
    grant, with rules by argument name. `base` is the folder in which the call runs. `fingerprint`
    identifies the declarations and table rows that the offer is based on. A `whole` match, used in
    plans, covers no argument that it does not name.
    """

    shape: Shape
    tool: Annotated[str, matching(TOOL_NAME)]
    kind: Kind = Kind.TOOL
    digest: Annotated[str, matching(DIGEST)] | None = None
    rules: tuple[Rule, ...] = ()
    cwd: str | None = None
    host: str | None = None
    answer: Answer | None = None
    base: str | None = None
    fingerprint: str = ""
    whole: bool = False

    def __post_init__(self) -> None:
        if not TOOL_NAME.fullmatch(self.tool):
            raise InvalidRequest(f"invalid tool name {self.tool!r}")
        if (self.shape is Shape.EXACT) != (self.digest is not None):
            raise InvalidRequest("an exact match needs a digest, and no other match may have one")
        if self.digest is not None and not DIGEST.fullmatch(self.digest):
            raise InvalidRequest("a digest must be 64 hex digits")
        if (self.shape is Shape.PATTERN) != bool(self.rules):
            raise InvalidRequest("a pattern needs rules, and no other match may have any")
        names = {rule.name for rule in self.rules}
        if len(names) != len(self.rules) or len(self.rules) > MAX_RULES:
            raise InvalidRequest(
                f"a pattern can have one rule for each argument, and at most {MAX_RULES} rules"
            )
        if self.shape in OF_ALL_TOOLS and self.tool != ANY_TOOL:
            raise InvalidRequest(f'the tool of a pass must be "{ANY_TOOL}"')
        if self.shape is Shape.LOOKS and self.cwd is None:
            raise InvalidRequest("a grant for looking below a folder must name the folder")
        if self.tool == ANY_TOOL and self.shape not in OF_ALL_TOOLS and not self._denies_any_tool():
            raise InvalidRequest(
                f'only a pass or a denial of a command, folder or host can have "{ANY_TOOL}"'
            )
        if self.kind is Kind.QUESTION:
            raise InvalidRequest("the answer to a question cannot be remembered")

    def _denies_any_tool(self) -> bool:
        kinds = {rule.kind for rule in self.rules}
        return bool(kinds) and kinds <= {RuleKind.COMMAND, RuleKind.FOLDER, RuleKind.HOST}

    @property
    def scope(self) -> Scope:
        """The name of the match's width, for people."""
        if self.answer is Answer.TOOL:
            return Scope.TOOL
        if any(rule.kind is RuleKind.FOLDER for rule in self.rules):
            return Scope.FOLDER
        return _SCOPES[self.shape]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantVoter(Wire):
    """Someone who voted for a grant. `via` lists the approver entries of the routes that admitted
    them, or is `admin:` for an admin."""

    person: str
    via: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Wire):
    """How, when (in ms since the epoch) and by whom a grant was ended."""

    why: str
    by: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated(Wire):
    """Why a grant that allows is suspended, and since when.

    If several grants of one route are suspended, only one of them is `announced`, with one message
    for all.
    """

    why: str
    at: int
    announced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(Wire):
    """A decision that also covers later requests of one agent. Without a `session`, it covers all
    the agent's sessions.

    Without `expires_at`, it lasts until revoked; without `max_uses`, its uses have no limit.
    `generation` counts its visible changes. `from_request` is the request that it was made from, if
    any. `words` is the scope as shown to the person who made it. `backers` lists all who voted for
    it.

    `queues` lists the outboxes of its cards, `notices` is the number of announcements about it.
    `suspended` means that its backers may no longer approve on its routes. `told` is the message
    that an agent gets if it repeats a call after a plain denial. `line` is the grant's line in a
    plan, from 1. An `outdated` grant decides nothing until it is made again. A grant with an `end`
    is over, and the scope of an `erased` grant is deleted.
    """

    id: str
    effect: Effect
    agent: str
    match: Match
    made_by: str
    made_at: int
    session: str | None = None
    expires_at: int | None = None
    max_uses: int | None = None
    used: int = 0
    last_used: int | None = None
    generation: int = 1
    from_request: str | None = None
    words: str = ""
    backers: tuple[GrantVoter, ...] = ()
    queues: tuple[str, ...] = ()
    notices: int = 0
    suspended: bool = False
    told: str = ""
    line: int | None = None
    outdated: Outdated | None = None
    end: End | None = None
    erased: bool = False

    def __post_init__(self) -> None:
        if not REQUEST_ID.fullmatch(self.id) or not AGENT_NAME.fullmatch(self.agent):
            raise InvalidRequest("a grant needs an id of 32 hex digits and the name of an agent")
        if self.session is not None and not SESSION_NAME.fullmatch(self.session):
            raise InvalidRequest("invalid session name")
        if self.max_uses is not None and self.max_uses < 1:
            raise InvalidRequest('"max_uses" must be at least 1')
        if self.match.shape in PASSES and not self._passes():
            raise InvalidRequest(
                "a pass can only allow, and only for one session and at most 8 hours"
            )
        if self.match.shape is Shape.LOOKS and self.effect is not Effect.ALLOW:
            raise InvalidRequest("looking below a folder can be allowed, but not denied")
        if self.line is not None and not (self._passes() and self.max_uses):
            raise InvalidRequest(
                'a grant from a plan needs "max_uses", one session and at most 8 hours'
            )
        every = self.match.tool == ANY_TOOL and self.match.shape not in OF_ALL_TOOLS
        if every and self.effect is not Effect.DENY:
            raise InvalidRequest(
                f'an approval must name its tool; only denials can have "{ANY_TOOL}"'
            )

    def _passes(self) -> bool:
        ends = self.expires_at is not None and self.expires_at - self.made_at <= LONGEST_PASS_MS
        return ends and self.session is not None and self.effect is Effect.ALLOW

    @property
    def uses_left(self) -> int | None:
        """How many more times the grant may be used; None if there is no limit."""
        return None if self.max_uses is None else max(0, self.max_uses - self.used)

    def live(self, now: int) -> bool:
        """Return whether the grant has not ended or expired, and has uses left."""
        in_time = self.expires_at is None or now < self.expires_at
        return self.end is None and in_time and self.uses_left != 0

    @property
    def announced_at(self) -> int | None:
        """When to announce the grant's end: a tenth of its lifetime before the end, at most a day.
        None means never.

        The end of a plain denial is not announced.
        """
        if self.expires_at is None or self.told:
            return None
        return self.expires_at - min((self.expires_at - self.made_at) // 10, _DAY_MS)
