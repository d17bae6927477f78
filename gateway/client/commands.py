"""`gateway ask`, `wait` and `run`: approvals for shells and CI.

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
6 no answer yet (from `ask --no-wait` and `wait`), 7 too much of this agent waits already,
9 no access: the token is unknown or revoked.
`wait` gives 1 also for an approval that another process was given: it may have run."""
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
    """Run a command that a signal cancels; return the exit code of how it ended."""
    verb = asking.verb
    stop_on_signals()
    try:
        return asking.run()
    except Interrupted:
        return EXIT_CODES["cancelled"]
    except TimedOut:
        # `ask` withdrew its own request at the deadline; after `wait` the request stays pending.
        waits = verb == "wait"
        say(f"gateway {verb}: {'no answer yet' if waits else 'nobody answered in time'}")
        return PENDING_EXIT if waits else EXIT_CODES["expired"]
    except GatewayError as error:
        say(f"gateway {verb}: {error}")
        return error.exit_code


def say(text: str) -> None:
    """Tell who looks at the terminal, beside what is printed for programs."""
    print(text, file=sys.stderr)


class AskCommand(OneRequest):
    """One run of `ask`, `wait` or `run`, which may use two credentials."""

    def __init__(self, verb: str, options: argparse.Namespace) -> None:
        super().__init__(
            agent=options.agent, timeout=options.timeout, say=say, name=f"gateway {verb}"
        )
        self.verb = verb
        self.options = options
        self._detached = verb == "ask" and options.no_wait

    def run(self) -> int:
        """Ask or wait; return the exit code."""
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
        """Wait for a request that was submitted with --no-wait, and take its approval."""
        wanted = self.options.id
        if not REQUEST_ID.fullmatch(wanted):
            raise InvalidRequest(f"{wanted!r} is no id of a request")
        until = self._deadline(time.monotonic())
        state = self._wait_for_end(wanted, until)
        if state["status"] == "approved":
            state = self._consume(wanted)
        verdict = CheckedDecision(state, wanted, self._found.public_key)
        if verdict.may_have_run:
            say("another process was given this approval: it may have run already")
            return EXIT_CODES["denied"]
        return self._finish(verdict, until + NO_DEADLINE, verdict.arguments)

    def _finish(self, verdict: CheckedDecision, until: float, asked: dict[str, Any] | None) -> int:
        """Tell how it ended. `asked` are the arguments that run unless they were changed."""
        if verdict.status == "approved" and time.monotonic() > until:
            say("the approval came too late")
            return EXIT_CODES["expired"]
        say(verdict.sentence)
        return self.act_on(verdict, verdict.arguments or asked)

    def act_on(self, verdict: CheckedDecision, allowed: dict[str, Any] | None) -> int:
        """Print what a program goes on with; return the exit code. `allowed` is what may run."""
        approved = verdict.status == "approved"
        if self.options.json:
            given = {"arguments": allowed} if approved else {}
            print(json.dumps({**verdict.decision, **given}))
        elif approved and allowed is not None and (self._prints or verdict.arguments):
            print(format_arguments(allowed, self._request, self._folder()))
        return EXIT_CODES[verdict.status]

    @property
    def _prints(self) -> bool:
        """Whether what may run is printed though nobody changed it."""
        return self.verb == "ask" and bool(self.options.edit)

    def _folder(self) -> str | None:
        """Return the folder of --cwd, as people were shown it."""
        if self._request is None or self.options.cwd is None:
            return None
        folder: str = self._request["context"]["cwd"]
        return folder


def format_arguments(
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


def _request(agent: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the request as JSON values of the wire format."""
    kind = "command" if options.command else options.kind
    arguments, tool = _arguments(options), options.tool
    if options.file and options.no_wait:
        raise InvalidRequest("--file needs the wait: who asked checks the files, and must be there")
    if options.edit and options.no_wait:
        raise InvalidRequest("--edit needs the wait: `gateway wait` does not know what was asked")
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
    if words[0] == "ask" and not options.tool:
        parser.error("name the tool that would run")
    return options


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats help without asking for the terminal's size, whose module costs 5 ms a call."""

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
    add("--timeout", type=float, help=f"seconds ({otherwise}); 0: none")
    add("--agent", help="ask as this agent (default: GATEWAY_AGENT, else local)")


def add_shared_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `ask` and `run` share."""
    add = parser.add_argument
    add("--human", action="store_true", help="a person must answer: nothing else approves it")
    add("--cwd", metavar="DIR", help="the folder in which it will run (default: this one)")
    add("--file", action="append", default=[], metavar="PATH", help="must not change meanwhile")
    add("--hint", default="", help="why, in your own words")
    add("--session", default="default", help="the session this belongs to")
    _add_limits(parser, "else the route's")


def _ask_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway ask",
        usage="gateway ask TOOL [options] [-- COMMAND ...]",
        description="Ask a person for approval; the exit code is the answer.",
        epilog=f"""Examples:  gateway ask shell -- rm -r build && rm -r build
           cmd=$(gateway ask shell --edit -- make deploy) && eval "$cmd"
{_CODES}""",
        formatter_class=Formatter,
    )
    add = parser.add_argument
    add_shared_options(parser)
    add("tool", nargs="?", default="", help="what would run, for example shell")
    add("--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument")
    add("--arguments", metavar="JSON", help="all arguments as a JSON object")
    add("--role", action="append", default=[], metavar="NAME=ROLE", help="what an argument is")
    kinds = ["tool", "command", "file_change", "plan"]
    add("--kind", default="tool", choices=kinds, help="kind of call (default: tool)")
    add("--edit", action="store_true", help="allow edits; print what may run")
    add("--no-wait", action="store_true", help="print the id and leave, with exit code 6")
    return parser


def _wait_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gateway wait",
        description="""Wait for what was asked with --no-wait, or by another program, and take its
approval. Prints the arguments where they were changed, and nothing where they are as they were.""",
        epilog=_CODES,
        formatter_class=Formatter,
    )
    parser.add_argument("id", help="the request's id")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


# `gateway run`: ask for a command, and run exactly what was approved.
#
# It runs once per command like `gateway ask`, whose waiting it shares, so it is as light.

NOT_RUN = 120
"""What is added to the exit code of `gateway ask` where the command did not run."""

_NO_GATEWAY = 125
_CANNOT_RUN, _NOT_FOUND = 126, 127
_KILLED = 128
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FORWARDED = (signal.SIGHUP, signal.SIGTERM)
_REPORT_SECONDS = 2.0
_RUN_CODES = """Exit codes: those of the command, or of `gateway ask` and 120 where it did not run:
121 denied, 122 usage, 123 expired, 124 cancelled, 125 unreachable or anything else. 126 and 127:
it cannot be started, and 127 where there is no such program. 128 and the signal's number: a signal
ended it."""


class _RunCommand(AskCommand):
    """One run of `gateway run`."""

    ran = False
    """Whether the command was started, so that the exit code is its own."""
    _held: int | None = None
    """The open folder in which it will run, whatever takes its place meanwhile."""

    def _ask(self) -> int:
        if self._held is None:
            self._held = os.open(folder_of(self.options), _FOLDER)
        return super()._ask()

    def act_on(self, verdict: CheckedDecision, allowed: dict[str, Any] | None) -> int:
        """Run what was approved, and report what became of it; return its exit code."""
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
        """Go into the folder that people were shown, or raise Unverified where it is another."""
        assert self._held is not None
        try:
            same = os.path.samestat(os.fstat(self._held), os.stat(shown))
        except OSError:
            same = False
        if not same or os.path.realpath(shown) != shown:
            raise Unverified(f"{shown} is another folder than when it was asked about")
        os.fchdir(self._held)

    def _run_words(self, words: list[str]) -> int:
        """Run a command, and hand on the signals that it is sent through us."""
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
        """Say what became of it. The command runs all the same where the gateway is away."""
        assert self._request is not None
        path = f"/v1/requests/{self._request['id']}/report"
        self._gateway.close()  # a command may run for hours, and no connection is kept for as long
        try:
            self._gateway.call("POST", path, {"report": report}, timeout=_REPORT_SECONDS)
        except GatewayError as error:
            say(f"not reported: {error}")


def _run_child(words: list[str]) -> int:
    """Run a command to its end; return its exit code as a shell has it.

    A terminal sends Ctrl-C to the command as well; otherwise we are the only one who was told.
    """
    from subprocess import Popen  # noqa: PLC0415 (`ask` needs none of it)

    came: list[int] = []  # before there was anybody to hand them on to
    children: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: object) -> None:
        for child in children:
            child.send_signal(number)
        if not children:
            came.append(number)

    def leave_to_terminal(number: int, frame: object) -> None:
        """Do nothing; unlike a signal that is ignored, the command does not inherit this."""

    for one in _FORWARDED:
        signal.signal(one, forward)
    signal.signal(signal.SIGINT, leave_to_terminal if sys.stdin.isatty() else forward)
    children.append(child := Popen(words))
    for number in came:
        child.send_signal(number)
    code = child.wait()
    return code if code >= 0 else _KILLED - code


def _find_problem(word: str, folder: str | None) -> tuple[int, str] | None:
    """Return the exit code and the sentence for a program that cannot be started, None for one that
    can."""
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
            parser.error("name the command after --")
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
        description="""Ask a person for a command, and run exactly what was approved. A program that
is named by its path must not change meanwhile.""",
        epilog=f"Example:  gateway run --file deploy.toml -- ./deploy.sh production\n{_RUN_CODES}",
        formatter_class=Formatter,
    )
    add_shared_options(parser)
    parser.add_argument("--edit", action="store_true", help="allow edits, which /bin/sh then runs")
    parser.set_defaults(
        tool="shell", arg=[], arguments=None, json=False, kind="command", no_wait=False,
        role=[],
    )  # fmt: skip
    return parser
