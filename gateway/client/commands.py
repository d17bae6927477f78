"""`gateway ask`, `wait` and `run`: approvals for shells and CI. Start at `main`.

These commands run once per tool call. So they use only the standard library and plain JSON values,
without the wire types and asyncio. A pending request has the separate exit code 6, so that no
script mistakes it for an approval or for a request that has ended.
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
from typing import TYPE_CHECKING, Any

from gateway.client.bound_files import check_files, hash_files
from gateway.client.check_decision import CheckedDecision
from gateway.client.hook_request import (
    MARGIN_SECONDS,
    NO_DEADLINE,
    Interrupted,
    OneRequest,
    TimedOut,
    stop_on_signals,
)
from gateway.errors import GatewayError, InvalidRequest, Unverified
from gateway.wire.canonical_json import action_digest
from gateway.wire.schema import REQUEST_ID

if TYPE_CHECKING:
    import subprocess

EXIT_CODES = {"approved": 0, "denied": 1, "expired": 3, "cancelled": 4}
PENDING_EXIT = 6
_CODES = """Exit codes: 0 approved, 1 denied, 2 usage, 3 expired, 4 cancelled, 5 unreachable,
6 no answer yet (from `ask --no-wait` and `wait`), 7 too many requests of this agent are pending,
9 no access: the token is unknown or revoked.
`wait` also returns 1 if another process claimed the approval: the call may have run."""
_COLUMNS = 80


def main(argv: Sequence[str]) -> int:
    """Run `ask`, `wait` or `run`; return the exit code."""
    if argv and argv[0] == "run":
        return _run(argv)
    if not argv or argv[0] not in ("ask", "wait"):
        say("usage: gateway ask TOOL [options] [-- COMMAND ...], or gateway wait ID")
        return InvalidRequest.exit_code
    return run_until_ended(AskCommand(argv[0], _options(list(argv))))


def run_until_ended(asking: AskCommand) -> int:
    """Run a command until it ends or a signal cancels it; return the exit code."""
    verb = asking.verb
    stop_on_signals()
    try:
        return asking.run()
    except Interrupted:
        return EXIT_CODES["cancelled"]
    except TimedOut:
        # `ask` cancelled its own request at the deadline; after `wait` the request stays pending.
        waits = verb == "wait"
        say(f"gateway {verb}: {'no answer yet' if waits else 'nobody answered in time'}")
        return PENDING_EXIT if waits else EXIT_CODES["expired"]
    except GatewayError as error:
        say(f"gateway {verb}: {error}")
        return error.exit_code


def say(text: str) -> None:
    """Print a message for people on standard error, because standard output is for programs."""
    print(text, file=sys.stderr)


class AskCommand(OneRequest):
    """One run of `ask`, `wait` or `run`."""

    def __init__(self, verb: str, options: argparse.Namespace) -> None:
        super().__init__(
            agent=options.agent, timeout=options.timeout, say=say, name=f"gateway {verb}"
        )
        self.verb = verb
        self.options = options
        self._detached = verb == "ask" and options.no_wait

    def run(self) -> int:
        """Submit a request or wait for one; return the exit code."""
        doing = self._wait if self.verb == "wait" else self._ask
        return self.run_guarded(doing, lambda ended: self._finish(ended, time.monotonic(), None))

    def _ask(self) -> int:
        """Submit a request, and wait for its end unless --no-wait is given."""
        options = self.options
        if self._request is None:
            self._request = _request(self._found.agent, options)
        request = self._request
        state = self._repeat(self._submit)
        self._answered = True
        if options.no_wait:
            print(json.dumps({"id": request["id"], "digest": request["digest"]}))
            return PENDING_EXIT
        until = self._deadline(time.monotonic()) + MARGIN_SECONDS
        verdict = CheckedDecision(
            self._await_end(state, until), request["id"], self._found.public_key
        )
        verdict.check(request)
        if verdict.status == "approved":
            check_files(request["context"].get("files", {}))
        return self._finish(verdict, until, request["arguments"])

    def _wait(self) -> int:
        """Wait for a request that another process submitted, and claim its approval."""
        wanted = self.options.id
        if not REQUEST_ID.fullmatch(wanted):
            raise InvalidRequest(f"{wanted!r} is not a valid request id")
        until = self._deadline(time.monotonic())
        state = self._wait_for_end(wanted, until)
        if state["status"] == "approved":
            state = self._consume(wanted)
        verdict = CheckedDecision(state, wanted, self._found.public_key)
        if verdict.may_have_run:
            say("another process claimed this approval: the call may have run already")
            return EXIT_CODES["denied"]
        return self._finish(verdict, until + NO_DEADLINE, verdict.arguments)

    def _finish(self, verdict: CheckedDecision, until: float, asked: dict[str, Any] | None) -> int:
        """Print how the request ended; return the exit code. `asked` are the arguments before an
        edit."""
        if verdict.status == "approved" and time.monotonic() > until:
            say("the approval came too late")
            return EXIT_CODES["expired"]
        say(verdict.sentence)
        return self.act_on(verdict, verdict.arguments or asked)

    def act_on(self, verdict: CheckedDecision, allowed: dict[str, Any] | None) -> int:
        """Print the result for programs; return the exit code. `allowed` are the approved
        arguments."""
        approved = verdict.status == "approved"
        if self.options.json:
            given = {"arguments": allowed} if approved else {}
            print(json.dumps({**verdict.decision, **given}))
        elif approved and allowed is not None and (self._prints or verdict.arguments):
            print(format_arguments(allowed, self._request, self._folder()))
        return EXIT_CODES[verdict.status]

    @property
    def _prints(self) -> bool:
        """Whether to print the arguments even if nobody edited them."""
        return self.verb == "ask" and bool(self.options.edit)

    def _folder(self) -> str | None:
        """Return the folder of --cwd as the card shows it, None without the option."""
        if self._request is None or self.options.cwd is None:
            return None
        folder: str = self._request["context"]["cwd"]
        return folder


def format_arguments(
    arguments: dict[str, Any], request: dict[str, Any] | None, folder: str | None
) -> str:
    """Return a command line if `command` is the only argument, otherwise all arguments as JSON.

    With a `folder`, the command line first changes to that folder. Raises Unverified if an edit
    adds arguments to a request with only a command, because the caller runs the printed command.
    """
    command = arguments.get("command")
    if not isinstance(command, str) or len(arguments) > 1:
        if request is not None and request["arguments"].keys() == {"command"}:
            raise Unverified(
                "the edit adds arguments that would have no effect, because only the command runs"
            )
        return json.dumps(arguments)
    if folder is None:
        return command
    # Inside `eval` no text of a person can end the brackets or undo the `cd`.
    return f"(cd -- {shlex.quote(folder)} && eval {shlex.quote(command)})"


def _request(agent: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the request as JSON values of the wire format."""
    kind = "command" if options.command else options.kind
    arguments, tool = _arguments(options), options.tool
    if options.file and options.no_wait:
        raise InvalidRequest(
            "do not use --file with --no-wait: this process must stay to check the files"
        )
    if options.edit and options.no_wait:
        raise InvalidRequest(
            "do not use --edit with --no-wait: `gateway wait` does not know the command"
        )
    context: dict[str, Any] = {"cwd": folder_of(options), "host": socket.gethostname()}
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
        "session": options.session,
        "hint": options.hint,
        "context": context,
        "allowed": ["approve", "deny", *(["edit"] if options.edit else [])],
        "timeout": options.timeout,
        **{name: said for name, said in claims.items() if said},
    }


def folder_of(options: argparse.Namespace) -> str:
    """Return the folder in which the command will run. Raises InvalidRequest if the folder is
    missing."""
    if options.cwd is None:
        return os.getcwd()
    if not os.path.isdir(options.cwd):
        raise InvalidRequest(f"--cwd {options.cwd!r} is not a folder")
    return str(os.path.realpath(options.cwd))


def _roles(pairs: Sequence[str]) -> dict[str, str]:
    if not pairs:
        return {}
    from gateway.wire.roles import check_roles  # noqa: PLC0415 (only when used)

    roles = {}
    for pair in pairs:
        name, equals, role = pair.rpartition("=")
        if not equals:
            raise InvalidRequest(f"--role must be NAME=ROLE, not {pair!r}")
        roles[name] = role
    check_roles(roles)
    return roles


def _arguments(options: argparse.Namespace) -> dict[str, Any]:
    try:
        arguments: Any = json.loads(options.arguments) if options.arguments else {}
    except ValueError as error:
        raise InvalidRequest(f"--arguments is not valid JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise InvalidRequest("--arguments must be a JSON object")
    for pair in options.arg:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidRequest(f"--arg must be NAME=VALUE, not {pair!r}")
        arguments[name] = value
    if options.command:
        arguments["command"] = shlex.join(options.command)
    return arguments


def _options(words: list[str]) -> argparse.Namespace:
    """Parse the command line. Builds only the parser of this verb, to save time."""
    cut = words.index("--") if "--" in words else len(words)
    parser = make_parser(words[0])
    options = parser.parse_args(words[1:cut])
    options.command = words[cut + 1 :]
    if words[0] == "ask" and not options.tool:
        parser.error("the tool is missing: name the tool that would run")
    return options


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Format help without reading the terminal's size, because importing the module for that takes
    5 ms."""

    def __init__(self, prog: str) -> None:
        told = os.environ.get("COLUMNS", "")
        super().__init__(prog, width=(int(told) if told.isdecimal() else _COLUMNS) - 2)


def make_parser(verb: str) -> argparse.ArgumentParser:
    """Return the parser of `ask`, `wait` or `run`."""
    if verb == "run":
        return _run_parser()
    parser = _ask_parser() if verb == "ask" else _wait_parser()
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")
    if verb == "wait":
        _add_limits(parser, "else 900")
    return parser


def _add_limits(parser: argparse.ArgumentParser, otherwise: str) -> None:
    add = parser.add_argument
    add(
        "--timeout",
        type=float,
        help=f"how many seconds to wait for a decision ({otherwise}); 0: no limit",
    )
    add("--agent", help="name of the agent that asks (default: GATEWAY_AGENT, else local)")


def add_shared_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `ask` and `run` share."""
    add = parser.add_argument
    add("--human", action="store_true", help="require a person: no grant or rule can approve it")
    add("--cwd", metavar="DIR", help="folder in which the call will run (default: this one)")
    add(
        "--file",
        action="append",
        default=[],
        metavar="PATH",
        help="file that must stay unchanged until the command runs",
    )
    add("--hint", default="", help="your reason, which people see on the card")
    add("--session", default="default", help="name of the session that the request belongs to")
    _add_limits(parser, "else the route's")


def _ask_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway ask",
        usage="gateway ask TOOL [options] [-- COMMAND ...]",
        description="Ask a person for approval; the exit code is the decision.",
        epilog=f"""Examples:  gateway ask shell -- rm -r build && rm -r build
           cmd=$(gateway ask shell --edit -- make deploy) && eval "$cmd"
{_CODES}""",
        formatter_class=Formatter,
    )
    add = parser.add_argument
    add_shared_options(parser)
    add("tool", nargs="?", default="", help="name of the tool that would run, for example shell")
    add(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the call; repeat the option for more",
    )
    add("--arguments", metavar="JSON", help="all arguments of the call, as a JSON object")
    add(
        "--role",
        action="append",
        default=[],
        metavar="NAME=ROLE",
        help="declare the role of an argument",
    )
    kinds = ["tool", "command", "file_change", "plan"]
    add("--kind", default="tool", choices=kinds, help="kind of call (default: tool)")
    add("--edit", action="store_true", help="allow edits, and print the command that may run")
    add("--no-wait", action="store_true", help="print the id and exit at once, with exit code 6")
    return parser


def _wait_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway wait",
        description="""Wait for a request that was submitted without waiting, and
claim its approval. Prints the arguments if they were edited, and otherwise nothing.""",
        epilog=_CODES,
        formatter_class=Formatter,
    )
    parser.add_argument("id", help="id of the request")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


# `gateway run`: ask for a command, and run exactly what was approved.
#
# It runs once per command, so it imports as little as `gateway ask`.

NOT_RUN = 120
"""Added to the exit code of `gateway ask` if the command did not run."""

_NO_GATEWAY = 125
_CANNOT_RUN, _NOT_FOUND = 126, 127
_KILLED = 128
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FORWARDED = (signal.SIGHUP, signal.SIGTERM)
_REPORT_SECONDS = 2.0
_RUN_CODES = """Exit codes: that of the command. If it did not run, that of `gateway ask` plus 120:
121 denied, 122 usage, 123 expired, 124 cancelled, 125 unreachable or anything else. 126: the
program cannot be started. 127: there is no such program. 128 plus the number of a signal: that
signal ended the command."""


class _RunCommand(AskCommand):
    """One run of `gateway run`."""

    ran = False
    """Whether the command was started, so that the exit code is that of the command."""
    _held: int | None = None
    """The open folder in which the command will run, even if it is renamed meanwhile."""

    def _ask(self) -> int:
        if self._held is None:
            self._held = os.open(folder_of(self.options), _FOLDER)
        return super()._ask()

    def act_on(self, verdict: CheckedDecision, allowed: dict[str, Any] | None) -> int:
        """Run the approved command, and report how it ended; return its exit code."""
        if verdict.status != "approved":
            return super().act_on(verdict, allowed)
        assert self._request is not None
        words = list(self.options.command)
        if verdict.arguments is not None:
            words = ["/bin/sh", "-c", format_arguments(verdict.arguments, self._request, None)]
        self._enter(self._request["context"]["cwd"])
        self.ran = True
        return self._run_words(words)

    def _enter(self, shown: str) -> None:
        """Change to the folder that the card showed. Raises Unverified if its path now leads
        elsewhere."""
        assert self._held is not None
        try:
            same = os.path.samestat(os.fstat(self._held), os.stat(shown))
        except OSError:
            same = False
        if not same or os.path.realpath(shown) != shown:
            raise Unverified(f"the folder {shown} was replaced after the request was submitted")
        os.fchdir(self._held)

    def _run_words(self, words: list[str]) -> int:
        """Run a command, report its start and end, and return its exit code."""
        self._report({"execution": "started"})
        began = time.monotonic()
        try:
            code = _run_child(words)
        except OSError as error:
            say(f"gateway run: {error}")
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN
        self._report(
            {
                "execution": "succeeded" if code == 0 else "failed",
                "duration_ms": int((time.monotonic() - began) * 1000),
                "detail": "" if code == 0 else f"exit code {code}",
            }
        )
        return code

    def _report(self, report: dict[str, Any]) -> None:
        """Send a report. If the gateway does not answer, the command runs anyway."""
        assert self._request is not None
        path = f"/v1/requests/{self._request['id']}/report"
        self._gateway.close()  # a command may run for hours, longer than a connection stays open
        try:
            self._gateway.call("POST", path, {"report": report}, timeout=_REPORT_SECONDS)
        except GatewayError as error:
            say(f"not reported: {error}")


def _run_child(words: list[str]) -> int:
    """Run a command to its end, and forward signals to it; return the exit code as a shell would.

    A terminal sends Ctrl-C also to the command. Without a terminal, only this process gets the
    signal.
    """
    from subprocess import Popen  # noqa: PLC0415 (`ask` needs none of it)

    came: list[int] = []  # signals that came before the command was started
    children: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: object) -> None:
        for child in children:
            child.send_signal(number)
        if not children:
            came.append(number)

    def leave_to_terminal(number: int, frame: object) -> None:
        """Do nothing. Unlike an ignored signal, this handler is not inherited by the command."""

    for one in _FORWARDED:
        signal.signal(one, forward)
    signal.signal(signal.SIGINT, leave_to_terminal if sys.stdin.isatty() else forward)
    children.append(child := Popen(words))
    for number in came:
        child.send_signal(number)
    code = child.wait()
    return code if code >= 0 else _KILLED - code


def _find_problem(word: str, folder: str | None) -> tuple[int, str] | None:
    """Return the exit code and a message if a program cannot be started, else None."""
    inside = [folder or ""] if "/" in word else os.get_exec_path()
    found = [path for one in inside if os.path.isfile(path := os.path.join(one, word))]
    if not found:
        where = "" if "/" in word else " in any folder of PATH"
        return _NOT_FOUND, f"there is no program {word!r}{where}"
    if not any(os.access(path, os.X_OK) for path in found):
        return _CANNOT_RUN, f"{found[0]!r} may not be executed"
    return None


def _run(argv: Sequence[str]) -> int:
    """Run `gateway run`; return the exit code."""
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    parser = make_parser("run")
    try:
        options = parser.parse_args(words[1:cut])
        if not words[cut + 1 :]:
            parser.error("the command is missing: write it after --")
    except SystemExit as stopped:
        return NOT_RUN + int(stopped.code) if stopped.code else 0
    options.command = words[cut + 1 :]
    problem = _find_problem(options.command[0], options.cwd)
    if problem is not None and os.path.isdir(options.cwd or "."):
        say(f"gateway run: nobody was asked: {problem[1]}")
        return problem[0]
    if "/" in options.command[0]:
        options.file = [os.path.join(options.cwd or "", options.command[0]), *options.file]
    command = _RunCommand("run", options)
    code = run_until_ended(command)
    if command.ran:
        return code
    return min(NOT_RUN + code, _NO_GATEWAY)


def _run_parser() -> argparse.ArgumentParser:
    """Return the parser of `run`."""
    parser = argparse.ArgumentParser(
        prog="gateway run",
        usage="gateway run [options] -- COMMAND ...",
        description="""Ask a person to approve a command, and run exactly what was approved. If you
name the program by its path, its file must not change before it runs.""",
        epilog=f"Example:  gateway run --file deploy.toml -- ./deploy.sh production\n{_RUN_CODES}",
        formatter_class=Formatter,
    )
    add_shared_options(parser)
    parser.add_argument(
        "--edit", action="store_true", help="allow edits; /bin/sh runs an edited command"
    )
    parser.set_defaults(
        tool="shell", arg=[], arguments=None, json=False, kind="command", no_wait=False,
        role=[],
    )  # fmt: skip
    return parser
