"""What a remembered decision says: its effect, for whom, what it matches, until when.

Values only. Whether a grant covers a request is said by `gateway.policy.grants.coverage`.
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

MAX_RULES = 32  # arguments that a pattern names
MAX_PARTS = 64  # flags, words and the like in one command pattern
MAX_TEXT = 4096  # characters of one value that a pattern compares with


class Effect(StrEnum):
    """What a grant does with the requests that it covers."""

    ALLOW = "allow"
    DENY = "deny"


class Shape(StrEnum):
    """How wide a match is, narrow first."""

    EXACT = "exact"
    PATTERN = "pattern"
    TOOL = "tool"
    LOOKS = "looks"
    EDITS = "edits"
    WORK = "work"
    SCRIPTS = "scripts"


# What lets a whole session through: it always ends, and soon.
PASSES = (Shape.EDITS, Shape.WORK, Shape.SCRIPTS)
# What speaks for every tool of an agent, and so for all its routes.
OF_ALL_TOOLS = (Shape.LOOKS, *PASSES)
ANY_TOOL = "*"
LONGEST_PASS_MS = 8 * 3_600_000
_DAY_MS = 24 * 3_600_000


class Answer(StrEnum):
    """What of a call an approval leaves open, the rest being the same each time."""

    COMMAND = "command"
    FOLDER = "folder"
    TEXT = "text"
    VALUES = "values"
    SOURCE = "source"
    TOOL = "tool"


class Scope(StrEnum):
    """What people call how wide a match is; the words name nothing of what it covers."""

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
    """Whether a grant or rule covers a request; `unsure` exists for denials only."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"


class RuleKind(StrEnum):
    """How one argument is compared."""

    EQUALS = "equals"
    FOLDER = "folder"
    COMMAND = "command"
    HOST = "host"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPattern(Wire):
    """One plain simple command: its program and verbs as typed, and the flags it may carry.

    `needs` are those of the flags that it must carry, because without them it does more: a dry run
    is not the run. `words` are the operands when `operands` is fixed. Paths must lie in `folder`;
    without one they are relative and stay below where the command runs. A deny covers the program
    with these verbs whatever follows, provided it carries all of `flags`.
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
            raise InvalidRequest("the flags that a command pattern needs are among its flags")
        if not self.program or len(parts) > MAX_PARTS:
            raise InvalidRequest(f"a command pattern names a program and at most {MAX_PARTS} parts")
        if any(len(part) > MAX_TEXT for part in (self.program, *parts)):
            raise InvalidRequest(f"a part of a command pattern is longer than {MAX_TEXT}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Wire):
    """What one named argument must be.

    `value` is what it equals, the folder or the host; `command` belongs to kind command. In the
    answers of people, a name that begins with `$` is an address (`$.edits[].old_string`), `type`
    the JSON type that the value had, and what is `optional` may also be missing.
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
                "a command pattern belongs to rules of kind command, and only there"
            )
        texts = (RuleKind.FOLDER, RuleKind.HOST)
        if self.kind in texts and (not isinstance(self.value, str) or not self.value):
            raise InvalidRequest(f"a rule of kind {self.kind} needs a text")

    @property
    def address(self) -> str:
        """Where in a call its value stands."""
        if not self.name.startswith("$"):
            return self.name
        return self.name[2:] if self.name.startswith("$.") else self.name[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match(Wire):
    """What a grant covers: one digest, a tool with a rule for each argument, a whole tool, or looks
    below `cwd` by any tool.

    Anything but an exact match also binds where the action runs (`cwd`, `host`), and covers no
    request that changes environment variables or carries a payload.

    `answer` says what an approval leaves open; without one, rules are those of a denial, by the
    names of arguments. `base` is the effective folder, and `fingerprint` that of the declarations
    and rows of the table which the offer rests on. A `whole` one is of a plan: it covers no
    argument that it does not name.
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
            raise InvalidRequest("the tool's name does not fit")
        if (self.shape is Shape.EXACT) != (self.digest is not None):
            raise InvalidRequest("an exact match names a digest, any other names none")
        if self.digest is not None and not DIGEST.fullmatch(self.digest):
            raise InvalidRequest("a digest is 64 hex digits")
        if (self.shape is Shape.PATTERN) != bool(self.rules):
            raise InvalidRequest("a pattern has a rule for each argument, any other match has none")
        names = {rule.name for rule in self.rules}
        if len(names) != len(self.rules) or len(self.rules) > MAX_RULES:
            raise InvalidRequest(f"a pattern names each argument once, and at most {MAX_RULES}")
        if self.shape in OF_ALL_TOOLS and self.tool != ANY_TOOL:
            raise InvalidRequest(f"a pass is for every tool, written {ANY_TOOL}")
        if self.shape is Shape.LOOKS and self.cwd is None:
            raise InvalidRequest("looking is remembered below a folder")
        if self.tool == ANY_TOOL and self.shape not in OF_ALL_TOOLS and not self._denies_any_tool():
            raise InvalidRequest(
                f"only a pass and a denial of a command, folder or host are for {ANY_TOOL}"
            )
        if self.kind is Kind.QUESTION:
            raise InvalidRequest("an answer to a question is never remembered")

    def _denies_any_tool(self) -> bool:
        kinds = {rule.kind for rule in self.rules}
        return bool(kinds) and kinds <= {RuleKind.COMMAND, RuleKind.FOLDER, RuleKind.HOST}

    @property
    def scope(self) -> Scope:
        """How wide it is, as people are told."""
        if self.answer is Answer.TOOL:
            return Scope.TOOL
        if any(rule.kind is RuleKind.FOLDER for rule in self.rules):
            return Scope.FOLDER
        return _SCOPES[self.shape]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantVoter(Wire):
    """Someone whose voice a grant is. `via` are the entries of the routes' approvers that admitted
    them, `admin:` for an admin."""

    person: str
    via: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Wire):
    """How and when a grant ended, in ms since the epoch, and by whom."""

    why: str
    by: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated(Wire):
    """Why an approval decides nothing any more, and since when.

    Of those suspended on one route, one is `announced` beside its card, for all of them.
    """

    why: str
    at: int
    announced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(Wire):
    """A remembered decision. `session` None means everywhere: all sessions of this one agent.

    `expires_at` None means until revoked; `max_uses` None means without limit. `generation` counts
    its visible changes. `from_request` is the request that somebody remembered, None when nobody
    asked. `words` say what it covers, as they were shown to whoever made it. `backers` are all who
    voted for it. `queues` name the outboxes that keep its cards; `notices` counts what was
    announced beside them. `suspended` says that its backers may no longer approve there. `told` is
    what a plain denial tells an agent that repeats a call; other grants tell how wide they are.
    `line` is that of the plan whose approval it is part of, from 1.
    With `outdated` it decides nothing, and only remembering anew changes that. With `end` it
    decides nothing any more; `erased` ones have lost what they covered.
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
            raise InvalidRequest("a grant has an id of 32 hex digits and names one agent")
        if self.session is not None and not SESSION_NAME.fullmatch(self.session):
            raise InvalidRequest("the session's name does not fit")
        if self.max_uses is not None and self.max_uses < 1:
            raise InvalidRequest("a grant with a limit may be used at least once")
        if self.match.shape in PASSES and not self._passes():
            raise InvalidRequest("a pass allows, for one session, for 8 hours at most")
        if self.match.shape is Shape.LOOKS and self.effect is not Effect.ALLOW:
            raise InvalidRequest("looking below a folder can only be allowed")
        if self.line is not None and not (self._passes() and self.max_uses):
            raise InvalidRequest("a line of a plan allows so often, in one session, for 8 hours")
        every = self.match.tool == ANY_TOOL and self.match.shape not in OF_ALL_TOOLS
        if every and self.effect is not Effect.DENY:
            raise InvalidRequest(f"an approval names its tool; {ANY_TOOL} is for denials")

    def _passes(self) -> bool:
        ends = self.expires_at is not None and self.expires_at - self.made_at <= LONGEST_PASS_MS
        return ends and self.session is not None and self.effect is Effect.ALLOW

    @property
    def uses_left(self) -> int | None:
        """How often it may still be used; None is without limit."""
        return None if self.max_uses is None else max(0, self.max_uses - self.used)

    def live(self, now: int) -> bool:
        """Whether it has neither expired nor been used up."""
        in_time = self.expires_at is None or now < self.expires_at
        return self.end is None and in_time and self.uses_left != 0

    @property
    def announced_at(self) -> int | None:
        """When its end is announced: a tenth of its life before, a day at most; None without.

        That a plain denial is over soon is no news.
        """
        if self.expires_at is None or self.told:
            return None
        return self.expires_at - min((self.expires_at - self.made_at) // 10, _DAY_MS)
