"""`gateway ask` and `gateway wait`: approvals for shells, CI and hooks.

Both run once per tool call, so they use the standard library alone, work on plain JSON values, and
import neither the wire types nor asyncio. "No answer yet" has an exit code of its own, 6, so that
it is never mistaken for an approval or for the end of the request.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from gateway.client import config
from gateway.client.bound_files import check_files, hash_files
from gateway.client.check_decision import CheckedDecision, has_ended
from gateway.client.http_connection import TIMEOUT_SECONDS, HttpConnection
from gateway.errors import Busy, GatewayError, InvalidRequest, Unauthorized, Unreachable
from gateway.wire.canonical_json import action_digest
from gateway.wire.identifiers import REQUEST_ID

EXIT_CODES = {"approved": 0, "denied": 1, "expired": 3, "cancelled": 4}
PENDING_EXIT = 6
_CODES = """Exit codes: 0 approved, 1 denied, 2 usage, 3 expired, 4 cancelled, 5 unreachable,
6 no answer yet (from `ask --no-wait` and `wait`), 7 too much of this agent waits already.
`wait` gives 1 also for an approval that another process was given: it may have run."""
_POLL_SECONDS = 25.0
_SLACK_SECONDS = 10.0
_GRACE_SECONDS = 1.0
_MARGIN_SECONDS = 0.5
_PAUSE_SECONDS = 0.5
_NO_DEADLINE = 30 * 24 * 3600.0


class _TimedOut(Exception):
    """The wait reached its deadline."""


class _Interrupted(BaseException):
    """SIGINT or SIGTERM."""


def main(argv: Sequence[str]) -> int:
    """Run `ask` or `wait`; return the exit code."""
    verb = argv[0]
    asking = _AskCommand(verb, _options(list(argv)))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        return asking.run()
    except _Interrupted:
        return EXIT_CODES["cancelled"]
    except _TimedOut:
        # `ask` withdraws its own request at the deadline; after `wait` the request stays pending.
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
        self._process = _new_id()
        self._until: float | None = None
        self._silent = False  # the gateway does not answer, and a message said so
        self._request: dict[str, Any] | None = None

    def run(self) -> int:
        """Ask or wait; return the exit code. Without an answer the request of `ask` is withdrawn,
        so that nobody approves what nothing will run."""
        try:
            try:
                return self._run(check=False)
            except Unauthorized:
                # The kept credential is old, or was rotated during the wait. A request that was
                # sent keeps its id, so it is never asked twice.
                return self._run(check=True)
        except _Interrupted:
            self._withdraw("gateway ask was stopped", TIMEOUT_SECONDS)
            raise
        except _TimedOut:
            self._withdraw("gateway ask waits no longer", _GRACE_SECONDS)
            raise

    def _run(self, *, check: bool) -> int:
        """Ask or wait with the kept credential, checked first where `check` says so."""
        found = config.load(self._options.agent, check=check)
        if not found.url or not found.token:
            missing = "GATEWAY_TOKEN" if found.url else "GATEWAY_URL and GATEWAY_TOKEN"
            raise InvalidRequest(f"this command speaks HTTP: set {missing}")
        with HttpConnection(found.url, found.token) as gateway:
            self._gateway, self._found = gateway, found
            return self._wait() if self._verb == "wait" else self._ask()

    def _ask(self) -> int:
        """Submit a request, and wait for its end unless --no-wait is given."""
        options = self._options
        request = self._request = self._request or _request(self._found.agent, options)
        request_id, arguments = request["id"], request["arguments"]
        body = {"request": request, "process": self._process, "detached": options.no_wait}
        began = time.monotonic()
        state = self._gateway.call("POST", "/v1/requests", body)
        until = self._deadline(began) + _MARGIN_SECONDS
        if options.no_wait:
            print(json.dumps({"id": request_id, "digest": request["digest"]}))
            return PENDING_EXIT
        if not has_ended(state):
            where = f"in the inbox, or with gateway approve {request_id[:8]}"
            _say(f"waiting for approval of {options.tool}: answer {where}")
            state = self._wait_for_end(request_id, until)
        verdict = CheckedDecision(state, request_id, self._found.public_key)
        verdict.check(request)
        if verdict.status == "approved":
            check_files(request["context"].get("files", {}))
        return self._finish(verdict, until, arguments if options.edit else None)

    def _deadline(self, began: float) -> float:
        """Return when the wait ends. As at the gateway, time counts from the first accepted call:
        discovery and enrolment take nothing from it."""
        if self._until is None:
            self._until = began + (self._options.timeout or _NO_DEADLINE)
        return self._until

    def _withdraw(self, why: str, timeout: float) -> None:
        """Cancel the request that this process submitted, if it did."""
        if self._request is None:
            return
        self._gateway.close()  # it may be in the middle of a response
        path = f"/v1/requests/{self._request['id']}/cancel"
        cancelled = {"reason": "abandoned", "message": why}
        try:
            with self._gateway as gateway:
                gateway.call("POST", path, cancelled, timeout=timeout)
        except GatewayError as error:
            _say(f"not withdrawn: {error}")  # the process ends all the same

    def _wait(self) -> int:
        """Wait for a request that was submitted with --no-wait, and take its approval."""
        wanted = self._options.id
        if not REQUEST_ID.fullmatch(wanted):
            raise InvalidRequest(f"{wanted!r} is no id of a request")
        until = self._deadline(time.monotonic())
        state = self._wait_for_end(wanted, until)
        if state["status"] == "approved":
            path = f"/v1/requests/{wanted}/consume"
            state = self._gateway.call("POST", path, {"process": self._process})
        verdict = CheckedDecision(state, wanted, self._found.public_key)
        if verdict.may_have_run:
            _say("another process was given this approval: it may have run already")
            return EXIT_CODES["denied"]
        return self._finish(verdict, until + _NO_DEADLINE, None)

    def _wait_for_end(self, request_id: str, until: float) -> Any:
        """Return the state in which the request ended. Raises _NoAnswer at `until`."""
        while (left := until - time.monotonic()) > 0:
            state, pause = self._poll(request_id, left)
            if state is not None and has_ended(state):
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
            if not self._silent:
                _say(f"{error}; trying again until the time is over")
            self._silent = True
            return None, _PAUSE_SECONDS
        if self._silent:
            _say("the gateway answers again")
            self._silent = False
        return state, pause

    def _finish(self, verdict: CheckedDecision, until: float, unedited: Any) -> int:
        if verdict.status == "approved" and time.monotonic() > until:
            _say("the approval came too late")
            return EXIT_CODES["expired"]
        _say(verdict.sentence)
        allowed = unedited if verdict.arguments is None else verdict.arguments
        if self._options.json:
            print(json.dumps(verdict.decision))
        elif verdict.status == "approved" and allowed is not None:
            print(_format_arguments(allowed, self._folder()))
        return EXIT_CODES[verdict.status]

    def _folder(self) -> str | None:
        """Return the folder of --cwd, as people were shown it."""
        if self._request is None or self._options.cwd is None:
            return None
        folder: str = self._request["context"]["cwd"]
        return folder


def _format_arguments(arguments: dict[str, Any], folder: str | None) -> str:
    """Return a command as a shell runs it in this folder, where one is given; others as JSON."""
    command = arguments.get("command")
    if not isinstance(command, str):
        return json.dumps(arguments)
    if folder is None:
        return command
    # Within `eval` nothing that a person writes can end the brackets or undo the `cd`.
    return f"(cd -- {shlex.quote(folder)} && eval {shlex.quote(command)})"


def _request(agent: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the request as JSON values of the wire format."""
    kind = "command" if options.command else options.kind
    arguments = _arguments(options)
    if options.file and options.no_wait:
        raise InvalidRequest("--file needs the wait: who asked checks the files, and must be there")
    if options.edit and options.no_wait:
        raise InvalidRequest("--edit needs the wait: `gateway wait` does not know what was asked")
    context: dict[str, Any] = {"cwd": _folder(options), "host": socket.gethostname()}
    if options.file:
        context["files"] = hash_files(options.file)
    digest = action_digest(
        agent=agent, kind=kind, tool=options.tool, arguments=arguments, context=context
    )
    roles = _roles(options.role)
    return {
        "id": _new_id(),
        "agent": agent,
        "tool": options.tool,
        "arguments": arguments,
        "digest": digest,
        "kind": kind,
        "session": options.session,
        "hint": options.hint,
        "context": context,
        "allowed": ["approve", "deny", *(["edit"] if options.edit else [])],
        "timeout": options.timeout,
        **({"roles": roles} if roles else {}),
    }


def _folder(options: argparse.Namespace) -> str:
    """Return the folder in which the command will run, which must exist."""
    if options.cwd is None:
        return os.getcwd()
    if not os.path.isdir(options.cwd):
        raise InvalidRequest(f"--cwd {options.cwd!r} is no folder")
    folder: str = os.path.realpath(options.cwd)
    return folder


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


def _new_id() -> str:
    return os.urandom(16).hex()


def _options(words: list[str]) -> argparse.Namespace:
    """Parse the command line; to save time only the parser of this verb is built."""
    cut = words.index("--") if "--" in words else len(words)
    parser = _ask_parser() if words[0] == "ask" else _wait_parser()
    add = parser.add_argument
    add("--timeout", type=float, default=900.0, help="seconds; 0 for none")
    add("--json", action="store_true", help="print the decision as JSON")
    add("--agent", help="ask as this agent (default: GATEWAY_AGENT, else local)")
    options = parser.parse_args(words[1:cut])
    options.command = words[cut + 1 :]
    return options


def _ask_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway ask",
        usage="gateway ask TOOL [options] [-- COMMAND ...]",
        description="Ask a person for approval; the exit code is the answer.",
        epilog=f"""Examples:  gateway ask shell -- rm -r build && rm -r build
           cmd=$(gateway ask shell --edit -- make deploy) && eval "$cmd"
{_CODES}""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("tool", help="what would run, for example shell")
    add("--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument")
    add("--arguments", metavar="JSON", help="all arguments as a JSON object")
    add("--cwd", metavar="DIR", help="the folder in which it will run (default: this one)")
    add("--role", action="append", default=[], metavar="NAME=ROLE", help="what an argument is")
    add("--file", action="append", default=[], metavar="PATH", help="must not change meanwhile")
    add("--hint", default="", help="why, in your own words")
    add("--kind", default="tool", choices=["tool", "command", "file_change", "plan"])
    add("--session", default="default", help="the session this belongs to")
    add("--edit", action="store_true", help="allow edits; print what may run")
    add("--no-wait", action="store_true", help="print the id and leave, with exit code 6")
    return parser


def _wait_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway wait",
        description="""Wait for what was asked with --no-wait, or by another program, and take its
approval. Prints the arguments that a person edited, and nothing where they are as they were.""",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("id", help="the request's id")
    return parser
