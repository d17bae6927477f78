"""`gateway hook HOST`: the process that an agents' host starts before it runs a tool.

Most hosts run the tool when their hook fails, takes too long or prints what they cannot read. So
whatever goes wrong here ends as the host's own refusal, in less time than the host allows.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from codecs import BOM_UTF8
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from gateway.client import config
from gateway.client.check_decision import CheckedDecision, has_ended
from gateway.client.http_connection import HttpConnection
from gateway.client.one_request import (
    MARGIN_SECONDS,
    Interrupted,
    OneRequest,
    TimedOut,
    stop_on_signals,
)
from gateway.errors import Conflict, GatewayError, InvalidRequest, Unreachable
from gateway.integrations import occurrences
from gateway.integrations.hook_call import BLOCKED, Dialect, HookCall, HookVerdict, Said
from gateway.wire.call_ids import call_request_id
from gateway.wire.canonical_json import MAX_BYTES, action_digest, parse

DIALECTS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini_cli",
    "cursor": "cursor",
    "copilot": "copilot",
}
"""The module of each host's dialect."""

_USAGE = f"""usage: gateway hook HOST [--agent NAME] [--timeout SECONDS] [--no-edit] [--defer]
                         [--native-always]
HOST: {", ".join(DIALECTS)} or picoclaw. A host starts this: `gateway install HOST` tells it to."""
_WATCHDOG_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_MOST_SECONDS = 24 * 3600.0


class Options:
    """The words of the command line."""

    __slots__ = ("agent", "defer", "edit", "host", "native_always", "timeout")

    def __init__(self, words: Sequence[str]) -> None:
        """Read them. Raises InvalidRequest: a hook that nobody meant so must not let anything
        run."""
        self.host = words[0] if words else ""
        if self.host not in DIALECTS:
            raise InvalidRequest(f"{self.host!r} is no host with a hook\n{_USAGE}")
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
                raise InvalidRequest(f"{word!r} is no option here\n{_USAGE}")
        if (self.defer or self.native_always) and self.host != "claude-code":
            raise InvalidRequest("--defer and --native-always are Claude Code's alone")

    def _take(self, word: str, value: str) -> None:
        if word == "--agent":
            self.agent = value
            return
        try:
            self.timeout = float(value)
        except ValueError:
            self.timeout = -1.0
        if not 0 < self.timeout <= _MOST_SECONDS:
            raise InvalidRequest(f"--timeout takes seconds, up to a day, not {value!r}")

    def name_agent(self) -> str | None:
        """Return as whom this asks: the local gateway knows each host by its own name."""
        return self.agent or config.name_agent(self.host)


def main(words: Sequence[str]) -> int:
    """Run `gateway hook …`; return the exit code."""
    if words[1:2] == ["picoclaw"]:
        from gateway.integrations.picoclaw import main as picoclaw  # noqa: PLC0415 (asyncio)

        return picoclaw(words)
    if words[1:2] in (["-h"], ["--help"]):
        sys.stdout.write(f"{_USAGE}\n")
        return 0
    return run_blocking(words[1:])


def run_blocking(words: Sequence[str]) -> int:
    """Run a hook; whatever goes wrong, the host is told to block."""
    refuse = Dialect().refuse
    try:
        began = time.monotonic()
        options = Options(words)
        dialect = dialect_of(options.host)
        refuse = dialect.refuse
        return _tell(_run(options, dialect, began))
    except BaseException as error:  # that a person stopped it is no leave either
        what = str(error) if isinstance(error, GatewayError) else type(error).__name__
        try:
            return _tell(refuse(f"approval gateway: nothing runs: {what}"))
        except BaseException:  # nobody reads it any more
            return BLOCKED


def _run(options: Options, dialect: Dialect, began: float) -> Said:
    timeout = options.timeout or dialect.timeout
    stop_on_signals()
    _watch(began + timeout + _WATCHDOG_SECONDS)
    call = dialect.read(read_input(sys.stdin.buffer.read(MAX_BYTES + 1)))
    if call.closes is not None:
        _close(options, call)
        return Said(0)
    if not options.edit and "edit" in call.allowed:
        call.allowed.remove("edit")
    if not options.native_always:
        call.forget_rules()
    return dialect.answer(call, decide(options, call, timeout, began))


def _watch(until: float) -> None:
    """Look now and then whether the host is gone, and whether anything here takes too long."""
    parent = os.getppid()

    def look(number: int, frame: object) -> None:
        if os.getppid() != parent:
            raise Interrupted
        if time.monotonic() > until:
            raise TimedOut

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)


def dialect_of(host: str) -> Dialect:
    """Return a host's dialect; no other one is loaded."""
    found: Dialect = import_module(f"gateway.integrations.{DIALECTS[host]}").DIALECT
    return found


def read_input(raw: bytes) -> dict[str, Any]:
    """Return the call that a host wrote. Raises InvalidRequest."""
    call = parse(raw.removeprefix(BOM_UTF8))  # with which shells of Windows begin what they pipe
    if not isinstance(call, dict):
        raise InvalidRequest("the host wrote no JSON object to its hook")
    return call


def decide(options: Options, call: HookCall, timeout: float, began: float) -> HookVerdict:
    """Ask about a call, and return how that ended."""
    asking = _HookRequest(options, call, timeout, began)
    try:
        return asking.run_guarded(asking.ask, asking.end_late)
    except TimedOut:
        return HookVerdict("expired", "nobody answered in time; nobody denied it")
    except Conflict as error:
        return HookVerdict("failed", f"there is no approval to use: {error}")
    except Unreachable as error:
        asked = "the answer did not arrive" if asking.was_asked else "nobody was asked"
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
        self._occurrence: occurrences.Occurrence | None = None
        if options.defer:
            self._named = options.timeout  # the route's, where none is given
        self._deadline(began)  # a host counts from when it started this process

    @property
    def was_asked(self) -> bool:
        """Whether the gateway took the request."""
        return self._answered

    def _forget_time(self) -> None:
        return

    def ask(self) -> HookVerdict:
        """Submit the request, wait for its end, and check it."""
        if self._request is None:
            self._request = self._make()
        request = self._request
        state = self._repeat(self._submit)
        self._answered = True
        if self._detached and not has_ended(state):
            self._request, self._deferred = None, True  # it goes on without this process
            return HookVerdict("deferred", f"waits for approval as {request['id']}")
        until = self._deadline(time.monotonic()) + MARGIN_SECONDS
        state = self._await_end(state, until)
        if state["status"] == "approved" and state.get("decision") is None:
            state = self._consume(request["id"])  # it was asked before, by a process that is gone
        checked = CheckedDecision(
            state, request["id"], self._found.public_key, question=bool(self._call.questions)
        )
        checked.check(request)
        if checked.status == "approved" and time.monotonic() > until:
            return HookVerdict("expired", "the approval came too late")
        return self._say_how(checked)

    def end_late(self, checked: CheckedDecision) -> HookVerdict:
        """Return how it ended when this process stopped to wait: no approval comes here."""
        return self._say_how(checked)

    def finish(self) -> None:
        """The call was answered, unless the host is to ask about it again."""
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
                f"{sentence}, but another process was given that approval: it may have run "
                "already. Is the hook there twice?",
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
        context: dict[str, Any] = {"cwd": call.cwd or os.getcwd()}  # noqa: PTH109 (`pathlib` costs 4 ms)
        if not self._detached:  # which goes on at another machine, perhaps
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
            "shows_number": False,  # no host shows what its hook says while it waits
        }
        if self._occurrence is not None:
            self._occurrence.note(str(request["id"]))
        return request

    def _number(self) -> str:
        """Return an id for a call whose host has none that tells it from others: by its content
        and how often that came before."""
        call = self._call
        content = f"{call.event}.{call.content}"
        self._occurrence = occurrences.take(self._host, call.session, content)
        if self._occurrence is None:
            return os.urandom(16).hex()
        return f"{content}.{self._occurrence.number}"


def _close(options: Options, call: HookCall) -> None:
    """Withdraw what was answered elsewhere. That nothing came of it must not stop the host."""
    content = None if call.tool == "-" else f"PermissionRequest.{call.content}"
    ids = occurrences.waiting(options.host, call.session, content)
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
        _say(f"approval gateway: a card stays open: {error}")


def _tell(said: Said) -> int:
    """Print the answer, which nothing may interrupt: two of them would be none."""
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
    """A host gives to its model what its hook says on standard error: how it ended alone."""
