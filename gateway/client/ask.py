"""`gateway ask` and `gateway wait`: approvals for shells, CI and hooks.

Both run once per tool call, so they use the standard library alone, work on plain JSON values, and
import neither the wire types nor asyncio. "No answer yet" has an exit code of its own, 6, so that
it is never mistaken for an approval or for the end of the request.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from gateway.client import config, host_hooks
from gateway.client.backoff import Backoff
from gateway.client.bound_files import check_files, hash_files
from gateway.client.check_decision import CheckedDecision, has_ended
from gateway.client.http_connection import TIMEOUT_SECONDS, HttpConnection
from gateway.client.http_response import seconds_left
from gateway.errors import Busy, GatewayError, InvalidRequest, Unauthorized, Unreachable, Unverified
from gateway.wire.canonical_json import action_digest
from gateway.wire.identifiers import REQUEST_ID
from gateway.wire.outcome_text import say_number
from gateway.wire.signatures import load_library

T = TypeVar("T")

EXIT_CODES = {"approved": 0, "denied": 1, "expired": 3, "cancelled": 4}
PENDING_EXIT = 6
_CODES = """Exit codes: 0 approved, 1 denied, 2 usage, 3 expired, 4 cancelled, 5 unreachable,
6 no answer yet (from `ask --no-wait` and `wait`), 7 too much of this agent waits already,
9 no access: the token is unknown or revoked.
`wait` gives 1 also for an approval that another process was given: it may have run."""
_POLL_SECONDS = 25.0
_SLACK_SECONDS = 10.0
_GRACE_SECONDS = 1.0
_MARGIN_SECONDS = 0.5
_PAUSE_SECONDS = 0.5
_LEAST_SECONDS = 0.001
_DEFAULT_TIMEOUT = 900.0
_COLUMNS = 80
_NO_DEADLINE = 30 * 24 * 3600.0


class _TimedOut(Exception):
    """The wait reached its deadline."""


class _Interrupted(BaseException):
    """SIGINT or SIGTERM."""


def main(argv: Sequence[str]) -> int:
    """Run `ask` or `wait`; return the exit code."""
    if not argv or argv[0] not in ("ask", "wait"):
        _say("usage: gateway ask TOOL [options] [-- COMMAND ...], or gateway wait ID")
        return InvalidRequest.exit_code
    if host_hooks.named(argv):
        return host_hooks.run_blocking(lambda: _main(argv))
    return _main(argv)


def _main(argv: Sequence[str]) -> int:
    verb = argv[0]
    asking = _AskCommand(verb, _options(list(argv)))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        return asking.run()
    except _Interrupted:
        return EXIT_CODES["cancelled"]
    except _TimedOut:
        # `ask` withdrew its own request at the deadline; after `wait` the request stays pending.
        waits = verb == "wait"
        _say(f"gateway {verb}: {'no answer yet' if waits else 'nobody answered in time'}")
        return PENDING_EXIT if waits else EXIT_CODES["expired"]
    except GatewayError as error:
        _say(f"gateway {verb}: {error}")
        return error.exit_code


def _stop(number: int, frame: object) -> NoReturn:
    raise _Interrupted


def _say(text: str) -> None:
    print(text, file=sys.stderr)


class _AskCommand:
    """One run of `ask` or `wait`, which may use two credentials."""

    def __init__(self, verb: str, options: argparse.Namespace) -> None:
        self._verb = verb
        self._options = options
        self._process = os.urandom(16).hex()
        self._until: float | None = None
        self._silent = False  # the gateway does not answer, and a message said so
        self._answered = False
        self._hook: host_hooks.HostHook | None = None
        self._request: dict[str, Any] | None = None

    def run(self) -> int:
        """Ask or wait; return the exit code. Without an answer the request of `ask` is withdrawn,
        so that nobody approves what nothing will run."""
        if self._verb == "ask" and self._options.hook:
            self._hook = host_hooks.read(self._options.hook, sys.stdin)
            self._deadline(time.monotonic())  # a host counts from when it started this process
        try:
            try:
                return self._run(check=False)
            except Unauthorized:
                # The kept credential is old, or was rotated during the wait. A request that was
                # sent keeps its id, so it is never asked twice.
                if not self._answered and self._hook is None:
                    self._until = None
                return self._run(check=True)
        except _Interrupted:
            self._withdraw("gateway ask was stopped", TIMEOUT_SECONDS)
            raise
        except _TimedOut:
            return self._end_late(self._withdraw("gateway ask waits no longer", _GRACE_SECONDS))
        except (Unreachable, Unverified):
            self._withdraw("gateway ask gave up", _GRACE_SECONDS)
            raise

    def _run(self, *, check: bool) -> int:
        """Ask or wait with the kept credential, checked first where `check` says so."""
        found = self._repeat(lambda _: config.load(self._options.agent, check=check))
        if not found.url or not found.token:
            missing = "GATEWAY_TOKEN" if found.url else "GATEWAY_URL and GATEWAY_TOKEN"
            raise InvalidRequest(f"this command speaks HTTP: set {missing}")
        meanwhile = load_library if found.public_key else None
        with HttpConnection(found.url, found.token, meanwhile=meanwhile) as gateway:
            self._gateway, self._found = gateway, found
            return self._wait() if self._verb == "wait" else self._ask()

    def _ask(self) -> int:
        """Submit a request, and wait for its end unless --no-wait is given."""
        options = self._options
        if self._request is None:
            self._request = _request(self._found.agent, options, self._hook)
        request = self._request
        request_id = request["id"]
        state = self._repeat(self._submit)
        self._answered = True
        if options.no_wait:
            print(json.dumps({"id": request_id, "digest": request["digest"]}))
            return PENDING_EXIT
        until = self._deadline(time.monotonic()) + _MARGIN_SECONDS
        if not has_ended(state):
            where = (
                f"{str(self._found.url).rstrip('/')}/inbox/r/{request_id}, or where the gateway "
                f"runs: gateway approve {request_id}"
            )
            _say(f"waiting for approval of {request['tool']!r}: answer at {where}")
            if told := say_number(state.get("number"), request_id):
                _say(told)
            state = self._wait_for_end(request_id, until)
            if state["status"] == "approved" and state.get("decision") is None:
                state = self._consume(request_id)  # this process was taken to be gone
        verdict = CheckedDecision(state, request_id, self._found.public_key)
        verdict.check(request)
        if verdict.status == "approved":
            check_files(request["context"].get("files", {}))
        return self._finish(verdict, until, request["arguments"])

    def _submit(self, left: float) -> Any:
        """Submit the request; one that is sent again carries what is left of its time."""
        assert self._request is not None
        began = time.monotonic()
        again = self._until is not None
        until = self._deadline(began)
        request = self._request
        if again and request["timeout"]:
            left_of_it = max(round(until - began, 3), _LEAST_SECONDS)
            request = {**request, "timeout": left_of_it}
        body = {"request": request, "process": self._process, "detached": self._options.no_wait}
        left = min(TIMEOUT_SECONDS, left)
        state, date = self._gateway.exchange("POST", "/v1/requests", body, timeout=left)
        told = seconds_left(state, date) if request["timeout"] is None else None
        self._until = until if told is None else time.monotonic() + told
        return state

    def _repeat(self, call: Callable[[float], T]) -> T:
        """Call with the seconds that are left until the gateway answers: to the end of the wait
        where it did before, otherwise for the time of GATEWAY_CONNECT_TIMEOUT."""
        began = time.monotonic()
        backoff = Backoff()
        while True:
            patience = _NO_DEADLINE if self._answered else config.connect_timeout()
            until = min(began + patience, self._until or math.inf)
            try:
                found = call(max(until - time.monotonic(), _LEAST_SECONDS))
            except config.NoneFound:
                raise
            except Unreachable as error:
                self._answered = self._answered or isinstance(error, Busy)
                pause = backoff.pause(error.retry_after if isinstance(error, Busy) else 0.0)
                if time.monotonic() + pause > until:
                    raise
                self._note_silence(error)
                time.sleep(pause)  # noqa: TID251 (nothing to wait on)
                continue
            self._note_answer()
            return found

    def _note_silence(self, error: Unreachable) -> None:
        if not self._silent:
            _say(f"waiting for the gateway: {error}")
        self._silent = True

    def _note_answer(self) -> None:
        if self._silent:
            _say("the gateway answers again")
        self._silent = False

    def _deadline(self, began: float) -> float:
        """Return when the wait ends. As at the gateway, time counts from the first submission:
        discovery and enrolment take nothing from it."""
        if self._until is None:
            named = self._options.timeout
            self._until = began + (_DEFAULT_TIMEOUT if named is None else named or _NO_DEADLINE)
        return self._until

    def _withdraw(self, why: str, timeout: float) -> Any:
        """Cancel the request that this process submitted, if it did; return its state."""
        if self._request is None:
            return None
        self._gateway.close()  # it may be in the middle of a response
        path = f"/v1/requests/{self._request['id']}/cancel"
        cancelled = {"reason": "abandoned", "message": why}
        try:
            with self._gateway as gateway:
                return gateway.call("POST", path, cancelled, timeout=timeout)
        except GatewayError as error:
            _say(f"not withdrawn: {error}")  # the process ends all the same
        return None

    def _end_late(self, state: Any) -> int:
        """End as the record does, where the gateway says how. Raises _TimedOut."""
        if self._request is None or not isinstance(state, dict) or not state.get("status"):
            raise _TimedOut
        if state["status"] == "approved":
            report = {"report": {"execution": "refused_late"}}
            path = f"/v1/requests/{self._request['id']}/report"
            try:
                self._gateway.call("POST", path, report, timeout=_GRACE_SECONDS)
            except GatewayError as error:
                _say(f"not reported: {error}")
            finally:
                self._gateway.close()
            raise _TimedOut
        verdict = CheckedDecision(state, self._request["id"], self._found.public_key)
        if verdict.decision.get("reason") == "abandoned":  # that was us
            raise _TimedOut
        return self._finish(verdict, time.monotonic(), None)

    def _wait(self) -> int:
        """Wait for a request that was submitted with --no-wait, and take its approval."""
        wanted = self._options.id
        if not REQUEST_ID.fullmatch(wanted):
            raise InvalidRequest(f"{wanted!r} is no id of a request")
        until = self._deadline(time.monotonic())
        state = self._wait_for_end(wanted, until)
        if state["status"] == "approved":
            state = self._consume(wanted)
        verdict = CheckedDecision(state, wanted, self._found.public_key)
        if verdict.may_have_run:
            _say("another process was given this approval: it may have run already")
            return EXIT_CODES["denied"]
        return self._finish(verdict, until + _NO_DEADLINE, verdict.arguments)

    def _consume(self, request_id: str) -> Any:
        """Take an approval that was not handed out yet; return the state."""
        path, body = f"/v1/requests/{request_id}/consume", {"process": self._process}
        return self._repeat(lambda _: self._gateway.call("POST", path, body))

    def _wait_for_end(self, request_id: str, until: float) -> Any:
        """Return the state in which the request ended. Raises _TimedOut at `until`."""
        backoff = Backoff()
        while (left := until - time.monotonic()) > 0:
            state, pause = self._poll(request_id, left)
            if state is None:
                pause = backoff.pause()
            elif has_ended(state):
                return state
            time.sleep(min(pause, left))  # noqa: TID251 (nothing to wait on)
        raise _TimedOut

    def _poll(self, request_id: str, left: float) -> tuple[Any, float]:
        """Return the state, after `left` seconds at most, and the pause before the next poll."""
        seconds = min(_POLL_SECONDS, left)
        patience = min(seconds + _SLACK_SECONDS, left + _GRACE_SECONDS)
        path = f"/v1/requests/{request_id}?process={self._process}"
        try:
            try:
                poll, pause = f"{path}&wait={seconds:.3f}", 0.0
                state = self._gateway.call("GET", poll, timeout=patience)
            except Busy as error:
                # This agent may hold no more long polls: poll at intervals instead.
                pause = max(_PAUSE_SECONDS, error.retry_after)
                state = self._gateway.call("GET", path, timeout=patience)
        except Unreachable as error:
            self._note_silence(error)
            return None, 0.0
        self._answered = True
        self._note_answer()
        return state, pause

    def _finish(self, verdict: CheckedDecision, until: float, asked: dict[str, Any] | None) -> int:
        """Tell how it ended. `asked` are the arguments that run unless they were changed."""
        if verdict.status == "approved" and time.monotonic() > until:
            _say("the approval came too late")
            return EXIT_CODES["expired"]
        approved = verdict.status == "approved"
        allowed = verdict.arguments or asked
        if self._hook is not None:
            return self._hook.answer(approved, verdict.sentence, verdict.arguments)
        _say(verdict.sentence)
        if self._options.json:
            given = {"arguments": allowed} if approved else {}
            print(json.dumps({**verdict.decision, **given}))
        elif approved and allowed is not None and (self._prints or verdict.arguments):
            print(_format_arguments(allowed, self._request, self._folder()))
        return EXIT_CODES[verdict.status]

    @property
    def _prints(self) -> bool:
        """Whether what may run is printed though nobody changed it."""
        return self._verb == "ask" and bool(self._options.edit)

    def _folder(self) -> str | None:
        """Return the folder of --cwd, as people were shown it."""
        if self._request is None or self._options.cwd is None:
            return None
        folder: str = self._request["context"]["cwd"]
        return folder


def _format_arguments(
    arguments: dict[str, Any], request: dict[str, Any] | None, folder: str | None
) -> str:
    """Return a command by itself where nothing else may run, otherwise all arguments as JSON.

    In a folder it is as a shell runs it there. Raises Unverified when an edit adds arguments to a
    command that was asked alone: whoever asked runs what is printed as a command.
    """
    command = arguments.get("command")
    if not isinstance(command, str) or len(arguments) > 1:
        if request is not None and request["arguments"].keys() == {"command"}:
            raise Unverified("the edit adds arguments, which a command line does not carry")
        return json.dumps(arguments)
    if folder is None:
        return command
    # Within `eval` nothing that a person writes can end the brackets or undo the `cd`.
    return f"(cd -- {shlex.quote(folder)} && eval {shlex.quote(command)})"


def _request(
    agent: str, options: argparse.Namespace, hook: host_hooks.HostHook | None
) -> dict[str, Any]:
    """Return the request as JSON values of the wire format."""
    kind = "command" if options.command else options.kind
    arguments = _arguments(options) if hook is None else hook.arguments
    tool = options.tool if hook is None else hook.tool
    if options.file and options.no_wait:
        raise InvalidRequest("--file needs the wait: who asked checks the files, and must be there")
    if options.edit and options.no_wait:
        raise InvalidRequest("--edit needs the wait: `gateway wait` does not know what was asked")
    cwd = _folder(options) if hook is None else hook.cwd
    context: dict[str, Any] = {"cwd": cwd, "host": socket.gethostname()}
    if options.file:
        context["files"] = hash_files(options.file)
    digest = action_digest(agent=agent, kind=kind, tool=tool, arguments=arguments, context=context)
    claims = {"roles": _roles(options.role), "human": options.human}
    return {
        "id": os.urandom(16).hex(),
        "agent": agent,
        "tool": tool,
        "arguments": arguments,
        "digest": digest,
        "kind": kind,
        "session": options.session if hook is None else hook.session,
        "hint": options.hint,
        "context": context,
        "allowed": ["approve", "deny", *(["edit"] if options.edit else [])],
        "timeout": options.timeout,
        **{name: said for name, said in claims.items() if said},
    }


def _folder(options: argparse.Namespace) -> str:
    """Return the folder in which the command will run, which must exist."""
    if options.cwd is None:
        return os.getcwd()
    if not os.path.isdir(options.cwd):
        raise InvalidRequest(f"--cwd {options.cwd!r} is no folder")
    return str(os.path.realpath(options.cwd))


def _roles(pairs: Sequence[str]) -> dict[str, str]:
    if not pairs:
        return {}
    from gateway.wire.roles import check_roles  # noqa: PLC0415 (only when used)

    roles = {}
    for pair in pairs:
        name, equals, role = pair.rpartition("=")
        if not equals:
            raise InvalidRequest(f"--role takes NAME=ROLE, not {pair!r}")
        roles[name] = role
    check_roles(roles)
    return roles


def _arguments(options: argparse.Namespace) -> dict[str, Any]:
    try:
        arguments: Any = json.loads(options.arguments) if options.arguments else {}
    except ValueError as error:
        raise InvalidRequest(f"--arguments is no JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise InvalidRequest("--arguments takes a JSON object")
    for pair in options.arg:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidRequest(f"--arg takes NAME=VALUE, not {pair!r}")
        arguments[name] = value
    if options.command:
        arguments["command"] = shlex.join(options.command)
    return arguments


def _options(words: list[str]) -> argparse.Namespace:
    """Parse the command line; to save time only the parser of this verb is built."""
    cut = words.index("--") if "--" in words else len(words)
    parser = make_parser(words[0])
    options = parser.parse_args(words[1:cut])
    options.command = words[cut + 1 :]
    if words[0] == "ask":
        _check_hook(parser, options)
    if options.timeout is None and words[0] == "ask" and options.hook:
        options.timeout = host_hooks.TIMEOUTS[options.hook]
    return options


def _check_hook(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse a call that names both a host and what would run, or neither."""
    given = options.tool or options.command or options.arg or options.arguments or options.no_wait
    if options.hook and given:
        parser.error("--hook reads from the host what would run: name no tool and no arguments")
    if options.hook and options.timeout == 0:
        parser.error("--hook needs a --timeout that is shorter than the host's own")
    if not options.hook and not options.tool:
        parser.error("name the tool that would run")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats help without asking for the terminal's size, whose module costs 5 ms a call."""

    def __init__(self, prog: str) -> None:
        told = os.environ.get("COLUMNS", "")
        super().__init__(prog, width=(int(told) if told.isdecimal() else _COLUMNS) - 2)


def make_parser(verb: str) -> argparse.ArgumentParser:
    """Return the parser of `ask` or `wait`."""
    parser = _ask_parser() if verb == "ask" else _wait_parser()
    add = parser.add_argument
    add("--timeout", type=float, help="seconds (ask: else the route's; wait: else 900); 0: none")
    add("--json", action="store_true", help="print the decision as JSON")
    add("--agent", help="ask as this agent (default: GATEWAY_AGENT, else local)")
    return parser


def _ask_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway ask",
        usage="gateway ask TOOL [options] [-- COMMAND ...]",
        description="Ask a person for approval; the exit code is the answer.",
        epilog=f"""Examples:  gateway ask shell -- rm -r build && rm -r build
           cmd=$(gateway ask shell --edit -- make deploy) && eval "$cmd"
{_CODES}""",
        formatter_class=_Formatter,
    )
    add = parser.add_argument
    add("--human", action="store_true", help="a person must answer: nothing else approves it")
    add("tool", nargs="?", default="", help="what would run, for example shell")
    add("--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument")
    add("--arguments", metavar="JSON", help="all arguments as a JSON object")
    add("--cwd", metavar="DIR", help="the folder in which it will run (default: this one)")
    add("--role", action="append", default=[], metavar="NAME=ROLE", help="what an argument is")
    add("--file", action="append", default=[], metavar="PATH", help="must not change meanwhile")
    add("--hint", default="", help="why, in your own words")
    add("--kind", default="tool", choices=["tool", "command", "file_change", "plan"])
    add("--session", default="default", help="the session this belongs to")
    add("--edit", action="store_true", help="allow edits; print what may run")
    add(
        "--hook",
        choices=[*host_hooks.TIMEOUTS],
        help="run as this host's hook before a tool: read its call, answer in its form, and block "
        "it unless it is approved; without this no exit code but 2 stops a host",
    )
    add("--no-wait", action="store_true", help="print the id and leave, with exit code 6")
    return parser


def _wait_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway wait",
        description="""Wait for what was asked with --no-wait, or by another program, and take its
approval. Prints the arguments where they were changed, and nothing where they are as they were.""",
        epilog=_CODES,
        formatter_class=_Formatter,
    )
    parser.add_argument("id", help="the request's id")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
