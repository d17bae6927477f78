"""`gateway hook HOST`: the process that a coding agent starts before a tool. Start at `main`.

Most coding agents run the tool if the hook fails, is late, or prints an invalid reply. So this
process turns every error into a denial in the coding agent's format, before the coding agent's time
limit.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import time
from codecs import BOM_UTF8
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from gateway.client import config
from gateway.client.check_decision import CheckedDecision, has_ended
from gateway.client.hook_request import (
    MARGIN_SECONDS,
    Interrupted,
    OneRequest,
    TimedOut,
    stop_on_signals,
)
from gateway.client.http_connection import HttpConnection
from gateway.errors import Conflict, GatewayError, InvalidRequest, Unreachable
from gateway.wire.canonical_json import (
    MAX_BYTES,
    action_digest,
    call_request_id,
    canonical,
    is_unique,
    parse,
    sha256_hex,
)
from gateway.wire.local_discovery import state_folder
from gateway.wire.schema import CALL_ID, REQUEST_ID, SESSION_NAME, TOOL_NAME

# The call in the input of a hook, its decision, and the protocol of one coding agent.

BLOCKED = 2
"""The only exit code that these coding agents treat as a denial."""

_KEY_CHARS = 32
_MOST_QUESTIONS = 16
_MOST_RULES, _LONGEST_RULE = 8, 300


class HookCall:
    """One tool call of a coding agent, called "host" here.

    `call_id` is the id that the host gives the call, or None. `asks_itself` says that the host asks
    at its own terminal if this hook prints nothing. `closes` is set, to a reason, if the event
    comes after the call. The hook then asks nobody, and cancels pending requests for the call.
    `needs_person` is the reason why only a person may approve the call, or "".
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
            raise InvalidRequest(f"{tool[:40]!r} is not a valid tool name")
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
        """Offer a rule that the host can save in its own settings. People see `rule` and `scope`,
        and the host gets `own`. Skip a rule that is too long for a card."""
        if 0 < len(rule) <= _LONGEST_RULE and 0 < len(scope) <= _LONGEST_RULE:
            self._rules.append(({"rule": rule, "scope": scope}, own))

    def forget_rules(self) -> None:
        """Offer no rule of the host, so that only the gateway saves grants."""
        self._rules = []

    @property
    def host_rules(self) -> list[dict[str, str]]:
        """The rules that people may choose. If several rules have one text, all of them are left
        out."""
        shown = [shown for shown, _ in self._rules]
        return [one for one in shown if shown.count(one) == 1][:_MOST_RULES]

    def find_own(self, chosen: Any) -> Any:
        """Return the host's format of the chosen rule, None if no offered rule was chosen."""
        if chosen not in self.host_rules:
            return None
        return next(own for shown, own in self._rules if shown == chosen)

    @property
    def unique_id(self) -> str | None:
        """The host's id of the call, or None if another call may have that id too."""
        known = self.call_id is not None and is_unique(self.call_id, self.tool)
        return self.call_id if known else None

    @property
    def content(self) -> str:
        """A hash of the tool and its arguments. Equal calls have equal hashes."""
        return sha256_hex(canonical([self.tool, self.arguments]))[:_KEY_CHARS]

    def fields(self, framework: str) -> dict[str, Any]:
        """Return the members of the request for this call, without its id and agent."""
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
        """Turn the call into a question with these fields. Raises InvalidRequest if there are too
        many fields for a card."""
        if not 0 < len(questions) <= _MOST_QUESTIONS:
            raise InvalidRequest(f"a card has room for 1 to {_MOST_QUESTIONS} questions")
        self.kind, self.questions, self.allowed = "question", questions, ["answer", "deny"]


class HookVerdict:
    """How a call ended. `kind` is approved, denied, aborted, expired, cancelled, deferred or failed
    (nobody was asked, or no decision arrived). `sentence` explains it. `arguments` are those that a
    person edited, `host_rule` is the rule that the host must save."""

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
        """Whether the call was denied. A missing decision is not a denial."""
        return self.kind in ("denied", "aborted")


class HookOutput:
    """The exit code of the hook, the JSON `output`, and the message for standard error."""

    __slots__ = ("code", "error", "output")

    def __init__(self, code: int, output: dict[str, Any] | None = None, error: str = "") -> None:
        self.code = code
        self.output = output
        self.error = error


class HostProtocol:
    """The hook protocol of one coding agent. `timeout` is in seconds. It is shorter than the coding
    agent's own limit, after which the tool would run."""

    host = ""
    timeout = 0.0

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return the call in the input of a hook. Raises InvalidRequest if it is malformed."""
        raise NotImplementedError

    def answer(self, call: HookCall, verdict: HookVerdict) -> HookOutput:
        """Return the exit code and output that tell the coding agent how the call ended."""
        raise NotImplementedError

    def refuse(self, why: str) -> HookOutput:
        """Return a denial with the reason why nobody could be asked."""
        return HookOutput(BLOCKED, error=why)


def text(values: dict[str, Any], name: str, *, needed: bool = False) -> str | None:
    """Return a member whose value is a string, or None if the member is missing or empty. Raises
    InvalidRequest for a value of another type, or if the member is `needed` and missing."""
    found = values.get(name)
    if isinstance(found, str) and found:
        return found
    if found in (None, "") and not needed:
        return None
    raise InvalidRequest(f"the hook's input has no valid {name!r}")


def arguments(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a member whose value is an object. Raises InvalidRequest for any other value."""
    found = values.get(name)
    if not isinstance(found, dict):
        raise InvalidRequest(f"the hook's input has no valid {name!r}")
    return found


def name_session(key: str) -> str:
    """Return a valid session name for the host's id of a conversation."""
    if SESSION_NAME.fullmatch(key):
        return key
    return "=" + sha256_hex(key.encode("utf-8", "surrogatepass"))[:_KEY_CHARS]


def fit(key: str) -> str:
    """Return a host's id unchanged if the wire format allows that, otherwise return the id's
    hash."""
    return key if CALL_ID.fullmatch(key) else sha256_hex(key.encode("utf-8", "surrogatepass"))


DIALECTS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini_cli",
    "cursor": "cursor",
    "copilot": "copilot",
}
"""The module with the hook protocol of each coding agent."""

_USAGE = f"""usage: gateway hook HOST [--agent NAME] [--timeout SECONDS] [--no-edit] [--defer]
                         [--native-always]
HOST: {", ".join(DIALECTS)} or picoclaw. `gateway install HOST` lets it start this command."""
_WATCHDOG_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_MOST_SECONDS = 24 * 3600.0


class Options:
    """The options of the command line."""

    __slots__ = ("agent", "defer", "edit", "host", "native_always", "timeout")

    def __init__(self, words: Sequence[str]) -> None:
        """Parse the options. Raises InvalidRequest, because a hook with wrong options must not let
        a tool run."""
        self.host = words[0] if words else ""
        if self.host not in DIALECTS:
            raise InvalidRequest(f"no hook for {self.host!r}\n{_USAGE}")
        self.agent: str | None = None
        self.timeout: float | None = None
        self.edit, self.defer, self.native_always = True, False, False
        left = list(words[1:])
        while left:
            word = left.pop(0)
            if word == "--no-edit":
                self.edit = False
            elif word == "--defer":
                self.defer = True
            elif word == "--native-always":
                self.native_always = True
            elif word in ("--agent", "--timeout") and left:
                self._take(word, left.pop(0))
            else:
                raise InvalidRequest(f"unknown option {word!r}\n{_USAGE}")
        if (self.defer or self.native_always) and self.host != "claude-code":
            raise InvalidRequest("--defer and --native-always work only with claude-code")

    def _take(self, word: str, value: str) -> None:
        if word == "--agent":
            self.agent = value
            return
        try:
            self.timeout = float(value)
        except ValueError:
            self.timeout = -1.0
        if not 0 < self.timeout <= _MOST_SECONDS:
            raise InvalidRequest(
                f"--timeout must be a number of seconds, at most a day, not {value!r}"
            )

    def name_agent(self) -> str | None:
        """Return the agent name: the value of --agent, or for a local gateway the coding agent's
        name."""
        return self.agent or config.name_agent(self.host)


def main(words: Sequence[str]) -> int:
    """Run `gateway hook …`; return the exit code."""
    if words[1:2] == ["picoclaw"]:
        from gateway.integrations.coding_agents.picoclaw import main as picoclaw  # noqa: PLC0415 (asyncio)

        return picoclaw(words)
    if words[1:2] in (["-h"], ["--help"]):
        sys.stdout.write(f"{_USAGE}\n")
        return 0
    return run_blocking(words[1:])


def run_blocking(words: Sequence[str]) -> int:
    """Run a hook; return the exit code. Every error blocks the tool."""
    refuse = HostProtocol().refuse
    try:
        began = time.monotonic()
        options = Options(words)
        dialect = dialect_of(options.host)
        refuse = dialect.refuse
        return _tell(_run(options, dialect, began))
    except BaseException as error:  # also Ctrl-C: it does not approve the call
        what = str(error) if isinstance(error, GatewayError) else type(error).__name__
        try:
            return _tell(refuse(f"approval gateway: nothing runs: {what}"))
        except BaseException:  # the output is closed
            return BLOCKED


def _run(options: Options, dialect: HostProtocol, began: float) -> HookOutput:
    timeout = options.timeout or dialect.timeout
    stop_on_signals()
    _watch(began + timeout + _WATCHDOG_SECONDS)
    call = dialect.read(read_input(sys.stdin.buffer.read(MAX_BYTES + 1)))
    if call.closes is not None:
        _close(options, call)
        return HookOutput(0)
    if not options.edit and "edit" in call.allowed:
        call.allowed.remove("edit")
    if not options.native_always:
        call.forget_rules()
    return dialect.answer(call, decide(options, call, timeout, began))


def _watch(until: float) -> None:
    """Check every second whether the host has ended or the time is over, and then raise an
    exception."""
    parent = os.getppid()

    def look(number: int, frame: object) -> None:
        if os.getppid() != parent:
            raise Interrupted
        if time.monotonic() > until:
            raise TimedOut

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)


def dialect_of(host: str) -> HostProtocol:
    """Load and return the hook protocol of one coding agent."""
    found: HostProtocol = import_module(
        f"gateway.integrations.coding_agents.{DIALECTS[host]}"
    ).DIALECT
    return found


def read_input(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in the input of a hook. Raises InvalidRequest."""
    call = parse(raw.removeprefix(BOM_UTF8))  # shells of Windows write it at the start
    if not isinstance(call, dict):
        raise InvalidRequest("the hook's input is not a JSON object")
    return call


def decide(options: Options, call: HookCall, timeout: float, began: float) -> HookVerdict:
    """Ask for an approval of a call, wait, and return how it ended. Never raises GatewayError."""
    asking = _HookRequest(options, call, timeout, began)
    try:
        return asking.run_guarded(asking.ask, asking.end_late)
    except TimedOut:
        return HookVerdict("expired", "nobody answered in time; nobody denied it")
    except Conflict as error:
        return HookVerdict("failed", f"the approval cannot be used: {error}")
    except Unreachable as error:
        asked = "the decision did not arrive" if asking.was_asked else "nobody was asked"
        return HookVerdict("failed", f"{asked}: gateway unreachable: {error}")
    except GatewayError as error:
        return HookVerdict("failed", f"nobody was asked: {error}")
    finally:
        asking.finish()


class _HookRequest(OneRequest):
    """The request of one call."""

    def __init__(self, options: Options, call: HookCall, timeout: float, began: float) -> None:
        super().__init__(
            agent=options.name_agent(), timeout=timeout, say=_say_nothing, name="the hook"
        )
        self._call = call
        self._host = options.host
        self._detached = options.defer
        self._deferred = False
        self._occurrence: Occurrence | None = None
        if options.defer:
            self._named = options.timeout  # without the option, that of the route
        self._deadline(began)  # the host counts from the start of this process

    @property
    def was_asked(self) -> bool:
        """Whether the gateway accepted the request."""
        return self._answered

    def _forget_time(self) -> None:
        return

    def ask(self) -> HookVerdict:
        """Submit the request, wait for the decision, check it, and return how the call ended."""
        if self._request is None:
            self._request = self._make()
        request = self._request
        state = self._repeat(self._submit)
        self._answered = True
        if self._detached and not has_ended(state):
            self._request, self._deferred = None, True  # it stays pending without this process
            return HookVerdict("deferred", f"waiting for approval of request {request['id']}")
        until = self._deadline(time.monotonic()) + MARGIN_SECONDS
        state = self._await_end(state, until)
        if state["status"] == "approved" and state.get("decision") is None:
            state = self._consume(request["id"])  # an earlier process had submitted it
        checked = CheckedDecision(
            state, request["id"], self._found.public_key, question=bool(self._call.questions)
        )
        checked.check(request)
        if checked.status == "approved" and time.monotonic() > until:
            return HookVerdict("expired", "the approval came too late")
        return self._say_how(checked)

    def end_late(self, checked: CheckedDecision) -> HookVerdict:
        """Return how the request ended after the deadline. That is never an approval."""
        return self._say_how(checked)

    def finish(self) -> None:
        """Mark the call as answered. A deferred call stays unanswered, because the host asks
        again."""
        if self._occurrence is not None:
            (self._occurrence.leave if self._deferred else self._occurrence.finish)()

    def _say_how(self, checked: CheckedDecision) -> HookVerdict:
        sentence = checked.sentence
        if checked.status != "approved":
            aborts = checked.status == "denied" and checked.decision.get("abort")
            return HookVerdict("aborted" if aborts else checked.status, sentence)
        if checked.may_have_run:
            return HookVerdict(
                "failed",
                f"{sentence}, but another process claimed that approval: the call may have run "
                "already. Is the hook installed twice?",
            )
        return HookVerdict(
            "approved",
            sentence,
            arguments=checked.arguments,
            answers=checked.answers,
            host_rule=checked.host_rule,
        )

    def _make(self) -> dict[str, Any]:
        """Return the request as JSON values of the wire format."""
        call, agent = self._call, self._found.agent
        context: dict[str, Any] = {"cwd": call.cwd or os.getcwd()}
        if not self._detached:  # a deferred call may continue on another machine
            context["host"] = socket.gethostname()
        digest = action_digest(
            agent=agent,
            kind=call.kind,
            tool=call.tool,
            arguments=call.arguments,
            context=context,
            questions=call.questions,
        )
        call_id = call.unique_id or self._number()
        request = {
            "id": call_request_id(agent, call.session, call_id, "", digest),
            **call.fields(self._host),
            "agent": agent,
            "digest": digest,
            "context": context,
            "timeout": self._named,
            "call_id": call_id,
            "shows_number": False,  # no host shows output of a waiting hook
        }
        if self._occurrence is not None:
            self._occurrence.note(str(request["id"]))
        return request

    def _number(self) -> str:
        """Return a request id for a call without a unique id. The request id is derived from the
        call's content and the number of equal calls before."""
        call = self._call
        content = f"{call.event}.{call.content}"
        self._occurrence = take(self._host, call.session, content)
        if self._occurrence is None:
            return os.urandom(16).hex()
        return f"{content}.{self._occurrence.number}"


def _close(options: Options, call: HookCall) -> None:
    """Cancel requests for calls that were decided elsewhere. A failure must not stop the host."""
    content = None if call.tool == "-" else f"PermissionRequest.{call.content}"
    ids = waiting(options.host, call.session, content)
    if not ids:
        return
    body = {"reason": "resolved_elsewhere", "message": call.closes}
    try:
        found = config.load(options.name_agent(), check=False)
        with HttpConnection(found.url or "", found.token or "") as gateway:
            for one in ids if content is None else ids[:1]:
                path = f"/v1/requests/{one}/cancel"
                gateway.call("POST", path, body, timeout=_CLOSE_SECONDS)
    except GatewayError as error:
        _say(f"approval gateway: a card could not be closed: {error}")


def _tell(said: HookOutput) -> int:
    """Print the reply without being interrupted by a signal, because two replies would be
    invalid."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if said.error:
        _say(said.error)
    if said.output is not None:
        sys.stdout.write(f"{json.dumps(said.output)}\n")
        sys.stdout.flush()
    return said.code


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def _say_nothing(words: str) -> None:
    """Discard a message. The model reads standard error, and needs only the result of the
    request."""


# Numbers equal calls of a host that gives them no ids, across processes.
#
# The first such call of a session has number 0, the next one 1. If a process was killed before it
# answered, the retried call takes its number and finds its request. Each number is a file, locked
# while its process lives. Nothing here decides: without the folder each call is new.

_MOST = 1000
_ANSWERED = "answered"
_KEPT_SECONDS = 7 * 24 * 3600.0
_MOST_BYTES = 64


class Occurrence:
    """One of several equal calls, until its process ends."""

    def __init__(self, number: int, handle: int) -> None:
        self.number = number
        self._handle = handle

    def note(self, request_id: str) -> None:
        """Save the id of the request for this call."""
        self._write(request_id)

    def finish(self) -> None:
        """Mark the call as answered, so that the next equal call gets a new request."""
        self._write(_ANSWERED)

    def leave(self) -> None:
        """Leave the call unanswered, so that the next equal call resumes its request."""
        os.close(self._handle)

    def _write(self, words: str) -> None:
        with suppress(OSError):
            os.pwrite(self._handle, words.encode(), 0)
            os.ftruncate(self._handle, len(words))


def take(host: str, session: str, content: str) -> Occurrence | None:
    """Claim the first number of this content that is neither answered nor locked by a running
    process. Returns None if the folder is not writable."""
    try:
        folder = _folder(host, session)
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700)
            _forget_old(folder)
        for number in range(_MOST):
            path = os.path.join(folder, f"{content}.{number}")
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            if _lock(handle) and _read(handle) != _ANSWERED:
                return Occurrence(number, handle)
            os.close(handle)
    except (OSError, InvalidRequest):
        return None
    return None


def waiting(host: str, session: str, content: str | None) -> list[str]:
    """Return the request ids of unanswered calls with this content, or of the whole session, oldest
    first. Marks a call as answered if its process has ended."""
    found = []
    with suppress(OSError, InvalidRequest):
        folder = _folder(host, session)
        for name in sorted(os.listdir(folder), key=_number):
            if content is None or name.startswith(f"{content}."):
                handle = os.open(os.path.join(folder, name), os.O_RDWR | os.O_NOFOLLOW)
                try:
                    words = _read(handle)
                    if REQUEST_ID.fullmatch(words):
                        found.append(words)
                        if _lock(handle):
                            Occurrence(0, handle).finish()
                finally:
                    os.close(handle)
    return found


def _folder(host: str, session: str) -> str:
    name = sha256_hex(f"{host} {session}".encode())[:32]
    return os.path.join(state_folder(), "hooks", name)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(handle: int) -> str:
    return os.pread(handle, _MOST_BYTES, 0).decode("ascii", "replace")


def _number(name: str) -> int:
    end = name.rpartition(".")[2]
    return int(end) if end.isdecimal() else 0


def _forget_old(new: str) -> None:
    """When the session `new` starts, remove the folders of sessions without a call in the last
    week."""
    import shutil  # noqa: PLC0415 (takes 5 ms, and is needed once per session)

    above = os.path.dirname(new)
    began = os.stat(new).st_mtime
    for name in os.listdir(above):
        one = os.path.join(above, name)
        if began - os.stat(one).st_mtime > _KEPT_SECONDS:
            shutil.rmtree(one, ignore_errors=True)
