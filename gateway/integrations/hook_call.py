"""What a host's hook is asked about, how that ended, and what one host's dialect turns it into."""

from __future__ import annotations

from typing import Any

from gateway.errors import InvalidRequest
from gateway.wire.call_ids import is_unique
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.identifiers import CALL_ID, SESSION_NAME, TOOL_NAME

BLOCKED = 2
"""The one exit code that these hosts take as a no."""

_KEY_CHARS = 32
_MOST_QUESTIONS = 16
_MOST_RULES, _LONGEST_RULE = 8, 300


class HookCall:
    """One call of a host's tool.

    `call_id` is the host's own id of it, None where it has none. `asks_itself` says that the host
    asks a person by itself where this hook says nothing. `closes` is there for an event that comes
    after the call: then nothing is asked, and what still waits for such a call is withdrawn.
    `needs_person` says why nothing but a person may approve it, "" where that is not so.
    """

    __slots__ = (
        "_rules", "agent_type", "allowed", "arguments", "asks_itself", "call_id", "closes", "cwd",
        "event", "kind", "needs_person", "questions", "session", "tool", "turn",
    )  # fmt: skip

    def __init__(
        self,
        *,
        event: str,
        tool: str,
        arguments: dict[str, Any],
        cwd: str | None,
        session: str | None,
        call_id: str | None = None,
    ) -> None:
        if not TOOL_NAME.fullmatch(tool):
            raise InvalidRequest("the host's tool has no name that can be shown")
        self.event = event
        self.tool = tool
        self.arguments = arguments
        self.cwd = cwd
        self.session = name_session(session or "default")
        self.call_id = None if call_id is None else fit(call_id)
        self.turn: str | None = None
        self.agent_type: str | None = None
        self.kind = "tool"
        self.allowed = ["approve", "edit", "deny", "abort"]
        self.questions: list[dict[str, Any]] = []
        self.asks_itself = False
        self.closes: str | None = None
        self.needs_person = ""
        self._rules: list[tuple[dict[str, str], Any]] = []

    def offer_rule(self, rule: str, scope: str, own: Any) -> None:
        """Offer that the host keeps a rule itself: what people read of it, and its `own` words for
        it. What they could not read whole is left out."""
        if 0 < len(rule) <= _LONGEST_RULE and 0 < len(scope) <= _LONGEST_RULE:
            self._rules.append(({"rule": rule, "scope": scope}, own))

    def forget_rules(self) -> None:
        """Offer no rule of the host: what is remembered is the gateway's."""
        self._rules = []

    @property
    def host_rules(self) -> list[dict[str, str]]:
        """What people may choose of that: none of those which read alike."""
        shown = [shown for shown, _ in self._rules]
        return [one for one in shown if shown.count(one) == 1][:_MOST_RULES]

    def find_own(self, chosen: Any) -> Any:
        """Return the host's own words for the rule that was chosen, None where none was."""
        if chosen not in self.host_rules:
            return None
        return next(own for shown, own in self._rules if shown == chosen)

    @property
    def unique_id(self) -> str | None:
        """The host's own id of the call, None where another call may have the same one."""
        known = self.call_id is not None and is_unique(self.call_id, self.tool)
        return self.call_id if known else None

    @property
    def content(self) -> str:
        """The same for the same tool with the same arguments."""
        return sha256_hex(canonical([self.tool, self.arguments]))[:_KEY_CHARS]

    def fields(self, framework: str) -> dict[str, Any]:
        """Return the members of the request that asks about it, but its id and whose it is."""
        origin = {
            "framework": framework,
            "tool_call_id": self.call_id,
            "parent_agent": self.agent_type,
        }
        more = {"turn": self.turn, "questions": self.questions, "host_rules": self.host_rules}
        return {
            "tool": self.tool,
            "arguments": self.arguments,
            "kind": self.kind,
            "session": self.session,
            "origin": {name: said for name, said in origin.items() if said},
            "allowed": self.allowed,
            **{name: said for name, said in more.items() if said},
        }

    def ask(self, questions: list[dict[str, Any]]) -> None:
        """Make it a question. Raises InvalidRequest for more than a card carries."""
        if not 0 < len(questions) <= _MOST_QUESTIONS:
            raise InvalidRequest(f"a card carries 1 to {_MOST_QUESTIONS} questions")
        self.kind, self.questions, self.allowed = "question", questions, ["answer", "deny"]


class HookVerdict:
    """How a call ended. `kind` is approved, denied, aborted, expired, cancelled, failed (nobody was
    asked, or their answer did not arrive) or deferred. `arguments` are a person's edit; `host_rule`
    is what the host is to keep itself."""

    __slots__ = ("answers", "arguments", "host_rule", "kind", "sentence")

    def __init__(
        self,
        kind: str,
        sentence: str,
        *,
        arguments: dict[str, Any] | None = None,
        answers: dict[str, Any] | None = None,
        host_rule: dict[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.host_rule = host_rule
        self.sentence = sentence
        self.arguments = arguments
        self.answers = answers or {}

    @property
    def is_a_no(self) -> bool:
        """Whether somebody or something said no, and it was not just that no answer came."""
        return self.kind in ("denied", "aborted")


class Said:
    """What the hook's process does last: its exit code, and what it prints."""

    __slots__ = ("code", "error", "output")

    def __init__(self, code: int, output: dict[str, Any] | None = None, error: str = "") -> None:
        self.code = code
        self.output = output
        self.error = error


class Dialect:
    """What one host writes to its hooks, and how it is answered. `timeout` is in seconds, less than
    the host's own limit unless its settings say otherwise; it runs the tool after that."""

    host = ""
    timeout = 0.0

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return what a host wrote. Raises InvalidRequest."""
        raise NotImplementedError

    def answer(self, call: HookCall, verdict: HookVerdict) -> Said:
        """Return what tells the host."""
        raise NotImplementedError

    def refuse(self, why: str) -> Said:
        """Return what tells the host that nothing could be asked."""
        return Said(BLOCKED, error=why)


def text(values: dict[str, Any], name: str, *, needed: bool = False) -> str | None:
    """Return a text member, None where there is none. Raises InvalidRequest."""
    found = values.get(name)
    if isinstance(found, str) and found:
        return found
    if found in (None, "") and not needed:
        return None
    raise InvalidRequest(f"the host's call has no usable {name}")


def arguments(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object. Raises InvalidRequest."""
    found = values.get(name)
    if not isinstance(found, dict):
        raise InvalidRequest(f"the host's call has no usable {name}")
    return found


def name_session(key: str) -> str:
    """Return the name of a session for a host's key of a conversation."""
    if SESSION_NAME.fullmatch(key):
        return key
    return "=" + sha256_hex(key.encode("utf-8", "surrogatepass"))[:_KEY_CHARS]


def fit(key: str) -> str:
    """Return a host's id as one that the wire carries."""
    return key if CALL_ID.fullmatch(key) else sha256_hex(key.encode("utf-8", "surrogatepass"))
