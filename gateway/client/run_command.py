"""`gateway run`: ask for a command, and run exactly what was approved.

It runs once per command like `gateway ask`, whose waiting it shares, so it is as light.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from gateway.client.ask import (
    AskCommand,
    Formatter,
    add_shared_options,
    folder_of,
    format_arguments,
    run_until_ended,
    say,
)
from gateway.client.check_decision import CheckedDecision
from gateway.errors import GatewayError, Unverified

NOT_RUN = 120
"""What is added to the exit code of `gateway ask` where the command did not run."""

_NO_GATEWAY = 125
_CANNOT_RUN, _NOT_FOUND = 126, 127
_KILLED = 128
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FORWARDED = (signal.SIGHUP, signal.SIGTERM)
_REPORT_SECONDS = 2.0
_CODES = """Exit codes: those of the command, or of `gateway ask` and 120 where it did not run:
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
    children.append(child := subprocess.Popen(words))
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


def main(argv: Sequence[str]) -> int:
    """Run `gateway run`; return the exit code."""
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    parser = make_parser()
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


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `run`."""
    parser = argparse.ArgumentParser(
        prog="gateway run",
        usage="gateway run [options] -- COMMAND ...",
        description="""Ask a person for a command, and run exactly what was approved. A program that
is named by its path must not change meanwhile.""",
        epilog=f"Example:  gateway run --file deploy.toml -- ./deploy.sh production\n{_CODES}",
        formatter_class=Formatter,
    )
    add_shared_options(parser)
    parser.add_argument("--edit", action="store_true", help="allow edits, which /bin/sh then runs")
    parser.set_defaults(
        tool="shell", arg=[], arguments=None, json=False, kind="command", no_wait=False,
        role=[],
    )  # fmt: skip
    return parser
