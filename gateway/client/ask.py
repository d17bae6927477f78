"""`gateway ask` and `gateway wait`: leave for shells, CI and hooks, with the standard library
alone.

Exit codes: 0 approved, 1 denied, 2 usage, 3 expired, 4 cancelled, 5 unreachable; and 6, still
waiting, after --no-wait, so that nothing mistakes a question for leave.
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
from dataclasses import replace
from typing import Any, NoReturn

from gateway.client import config
from gateway.client.http import Http
from gateway.errors import GatewayError, InvalidRequest, Unauthorized, Unreachable
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    Decision,
    Kind,
    State,
    Status,
    digest_of,
    new_id,
)
from gateway.signatures import Verifier
from gateway.wire import build, plain

EXIT_CODES = {Status.APPROVED: 0, Status.DENIED: 1, Status.EXPIRED: 3, Status.CANCELLED: 4}
PENDING_EXIT = 6
_POLL_SECONDS = 25.0
_SLACK_SECONDS = 10.0
_MARGIN_SECONDS = 0.5
_PAUSE_SECONDS = 0.5
_NO_DEADLINE = 30 * 24 * 3600.0


class _NoAnswer(Exception):
    """Our own clock ended the wait."""


class _Stopped(BaseException):
    """SIGINT or SIGTERM: withdraw what we asked."""


def main(argv: Sequence[str]) -> int:
    """Run `ask` or `wait`; return the exit code."""
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    options = _parser().parse_args(words[:cut])
    options.command = words[cut + 1 :]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        try:
            return _run(options, check=False)
        except Unauthorized:
            # The kept credential is of another time; a refused call has done nothing.
            return _run(options, check=True)
    except _NoAnswer:
        print(f"gateway {options.verb}: nobody answered in time", file=sys.stderr)
        return EXIT_CODES[Status.EXPIRED]
    except GatewayError as error:
        print(f"gateway {options.verb}: {error}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace, *, check: bool) -> int:
    found = config.load(options.agent, check=check)
    if not found.url or not found.token:
        raise InvalidRequest("gateway ask speaks HTTP: set GATEWAY_URL and GATEWAY_TOKEN")
    session = _Session(Http(found.url, found.token), found.public_key, options)
    if options.verb == "wait":
        return session.wait()
    return session.ask(_request(found.agent, options))


def _stop(number: int, frame: object) -> NoReturn:
    raise _Stopped


class _Session:
    """One request from the command line."""

    def __init__(self, http: Http, public_key: str | None, options: argparse.Namespace) -> None:
        self._http = http
        self._public_key = public_key
        self._options = options
        self._process = new_id()

    def ask(self, request: ApprovalRequest) -> int:
        """Submit, and wait unless told not to."""
        until = time.monotonic() + (request.timeout or _NO_DEADLINE) + _MARGIN_SECONDS
        detached = self._options.no_wait
        body = {"request": plain(request), "process": self._process, "detached": detached}
        try:
            state = build(State, self._http.call("POST", "/v1/requests", body))
            if detached:
                print(json.dumps({"id": request.id, "digest": request.digest}))
                return PENDING_EXIT
            if state.status is Status.PENDING:
                self._say(f"waiting for approval of {request.tool} ({request.id[:8]})")
                state = self._final(request.id, until)
            return self._finish(state, request, until)
        except _Stopped:
            cancelled = {"reason": "abandoned", "message": "gateway ask was stopped"}
            self._http.call("POST", f"/v1/requests/{request.id}/cancel", cancelled)
            return EXIT_CODES[Status.CANCELLED]

    def wait(self) -> int:
        """Wait for a request that was submitted with --no-wait, and take its approval."""
        until = time.monotonic() + (self._options.timeout or _NO_DEADLINE)
        try:
            state = self._final(self._options.id, until)
            if state.status is Status.APPROVED:
                path = f"/v1/requests/{self._options.id}/consume"
                state = build(State, self._http.call("POST", path, {"process": self._process}))
            if state.may_have_run:
                self._say("another process was given this approval: it may have run already")
                return EXIT_CODES[Status.DENIED]
            return self._finish(state, None, until + _NO_DEADLINE)
        except _Stopped:
            return EXIT_CODES[Status.CANCELLED]

    def _final(self, request_id: str, until: float) -> State:
        while (left := until - time.monotonic()) > 0:
            seconds = min(_POLL_SECONDS, left)
            path = f"/v1/requests/{request_id}?wait={seconds:.3f}&process={self._process}"
            try:
                answer = self._http.call("GET", path, timeout=seconds + _SLACK_SECONDS)
            except Unreachable as error:
                self._say(str(error))
                _pause(min(_PAUSE_SECONDS, left))
                continue
            state = build(State, answer)
            if state.status is not Status.PENDING:
                return state
        raise _NoAnswer

    def _finish(self, state: State, request: ApprovalRequest | None, until: float) -> int:
        decision = state.decision
        wanted = request.id if request else self._options.id
        if decision is None or {decision.request_id, state.id} != {wanted}:
            raise Unreachable("the gateway answered something else than was asked")
        if decision.status is Status.APPROVED:
            self._verify(decision, request)
            if time.monotonic() > until:
                self._say("the approval came too late")
                return EXIT_CODES[Status.EXPIRED]
        self._say(decision.sentence())
        if self._options.json:
            print(json.dumps(plain(decision)))
        elif decision.status is Status.APPROVED and decision.arguments is not None:
            print(_printed(decision.arguments))
        elif decision.status is Status.APPROVED and request is not None and self._options.edit:
            print(_printed(request.arguments))
        return EXIT_CODES[decision.status]

    def _verify(self, decision: Decision, request: ApprovalRequest | None) -> None:
        if self._public_key:
            Verifier(self._public_key).verify(decision.signed_bytes(), decision.signature)
        if request is not None and decision.digest != digest_of(request, decision.arguments):
            raise Unreachable("the decision is about something else than was asked")

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr)


def _printed(arguments: dict[str, Any]) -> str:
    command = arguments.get("command")
    return command if isinstance(command, str) else json.dumps(arguments)


def _pause(seconds: float) -> None:
    signal.sigtimedwait((), seconds) if hasattr(signal, "sigtimedwait") else time.sleep(seconds)  # noqa: TID251


def _request(agent: str, options: argparse.Namespace) -> ApprovalRequest:
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
    allowed = (Action.APPROVE, Action.DENY, *((Action.EDIT,) if options.edit else ()))
    draft = ApprovalRequest(
        id=new_id(),
        agent=agent,
        tool=options.tool,
        arguments=arguments,
        digest="0" * 64,
        kind=Kind.COMMAND if options.command else Kind(options.kind),
        session=options.session,
        hint=options.hint,
        context=Context(cwd=os.getcwd(), host=socket.gethostname()),  # noqa: PTH109 (pathlib costs)
        allowed=allowed,
        timeout=options.timeout,
    )
    return replace(draft, digest=digest_of(draft))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway",
        description="Ask for leave and wait for the answer.",
        epilog="Exit codes: 0 approved, 1 denied, 2 usage, 3 expired, 4 cancelled, 5 unreachable.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    ask = verbs.add_parser(
        "ask",
        help="ask for leave; the exit code is the answer",
        usage="gateway ask TOOL [options] [-- COMMAND ...]",
        description="Ask a person for leave to do something, and wait for the answer.",
        epilog="""Examples:  gateway ask shell -- rm -r build && rm -r build
           cmd=$(gateway ask shell --edit -- make deploy) && eval "$cmd"
Exit codes: 0 approved, 1 denied, 2 usage, 3 expired, 4 cancelled, 5 unreachable.""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ask.add_argument("tool", help="what would run, for example shell")
    ask.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument")
    ask.add_argument("--arguments", metavar="JSON", help="all arguments as a JSON object")
    ask.add_argument("--hint", default="", help="why, in your own words")
    ask.add_argument("--kind", default="tool", choices=["tool", "command", "file_change", "plan"])
    ask.add_argument("--session", default="default", help="the session this belongs to")
    ask.add_argument("--edit", action="store_true", help="allow edits; print what may run")
    ask.add_argument("--no-wait", action="store_true", help="print the id and leave")
    wait = verbs.add_parser("wait", help="wait for what was asked with --no-wait")
    wait.add_argument("id", help="the request's id")
    for verb in (ask, wait):
        verb.add_argument("--timeout", type=float, default=900.0, help="seconds; 0 for none")
        verb.add_argument("--json", action="store_true", help="print the decision as JSON")
        verb.add_argument("--agent", help="ask as this agent (default: GATEWAY_AGENT, else local)")
    return parser
