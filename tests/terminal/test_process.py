"""The adapter as people start it: a process of its own on a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import shell, up
from tests.cli.shell import Shell

pytestmark = pytest.mark.thorough

__all__ = ["shell", "up"]  # fixtures of the command line's tests

ROWS, COLUMNS = 40, 100
SEQUENCE = re.compile(
    rb"\x1b(\[[0-9;?<>=]*[A-Za-z]|[()][A-Z0-9]|[=>]|\][^\x07]*\x07|P[^\x1b]*\x1b\\)"
)


class Terminal:
    """A window with `gateway adapter terminal` in it; the window is its controlling terminal."""

    def __init__(
        self,
        shell: Shell,
        env: dict[str, str] | None = None,
        *,
        hangup: signal.Handlers = signal.SIG_DFL,
    ) -> None:
        self.pid, self.master = pty.fork()
        if not self.pid:
            # Whoever runs the tests may have it ignored, as nohup does, and that is inherited.
            signal.signal(signal.SIGHUP, hangup)
            words = [sys.executable, "-m", "gateway.cli", "adapter", "terminal"]
            os.execve(sys.executable, words, {**shell.env, **(env or {}), "TERM": "xterm-256color"})
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.seen = b""
        self.code: int | None = None
        self._closed = False

    def ended(self) -> int:
        """Wait for the process; return how it ended."""
        end = time.monotonic() + 20
        process = os.pidfd_open(self.pid)
        try:
            while self.code is None:
                assert time.monotonic() < end, "it goes on"
                self._drain(process)
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.code = os.waitstatus_to_exitcode(status)
        finally:
            os.close(process)
        self.close()
        return self.code

    def _drain(self, *beside: int) -> None:
        """Read what it draws, for a full window would stop it; or wait for what is `beside`."""
        window = [] if self._closed else [self.master]
        ready, _, _ = select.select([*window, *beside], [], [], 0.1)
        if self.master in ready and window:
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:  # nothing draws there any more
                self.close()

    def sees(self, words: str) -> None:
        """Wait until these words were drawn since the last time."""
        end = time.monotonic() + 30
        while words not in SEQUENCE.sub(b"", self.seen).decode(errors="replace"):
            assert time.monotonic() < end, self.seen[-3000:]
            self._drain()
        self.seen = b""

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def close(self) -> None:
        """Close the window, once: the process gets SIGHUP."""
        if not self._closed:
            self._closed = True
            os.close(self.master)


@pytest.fixture
def open_terminal(up: Shell) -> Iterator[Callable[..., Terminal]]:
    """Yield what opens a terminal beside a running gateway. None outlives its test."""
    made: list[Terminal] = []

    def open_one(**more: Any) -> Terminal:
        made.append(Terminal(up, **more))
        return made[-1]

    yield open_one
    for one in made:
        if one.code is None:
            os.kill(one.pid, signal.SIGKILL)
            one.ended()


@pytest.fixture
def terminal(open_terminal: Callable[..., Terminal]) -> Terminal:
    """Return a terminal in which whoever runs the test may answer."""
    return open_terminal()


def test_the_owner_answers_out_of_the_box(up: Shell, terminal: Terminal) -> None:
    """`gateway up`, and `gateway adapter terminal` in a second window: nothing else to set up."""
    terminal.sees("Nothing waits")
    asking = up.popen("ask", "shell", "--", "make", "deploy")
    terminal.sees("make deploy")
    terminal.type("y")
    out, err = asking.communicate(timeout=30)
    assert asking.returncode == 0, (out, err)
    terminal.type("q")
    assert terminal.ended() == 0


def test_who_answers_is_known_by_the_system_not_by_variables(
    up: Shell, open_terminal: Callable[..., Terminal]
) -> None:
    """Whoever sets LOGNAME answers as themselves all the same: here as the owner."""
    names = dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), "somebody")
    terminal = open_terminal(env=names)
    asking = up.popen("ask", "shell", "--", "make", "deploy")
    terminal.sees("make deploy")
    terminal.type("y")
    out, err = asking.communicate(timeout=30)
    assert asking.returncode == 0, (out, err)
    terminal.type("q")
    assert terminal.ended() == 0


def test_a_closed_window_decides_nothing(up: Shell, terminal: Terminal) -> None:
    """Closed in the middle of a question: the request still waits."""
    terminal.sees("Nothing waits")
    asking = up.popen("ask", "shell", "--", "make")
    terminal.sees("Approval needed")
    terminal.type("n")
    terminal.sees("Words for the agent")
    terminal.close()
    assert terminal.ended() == -signal.SIGHUP
    assert len(up.run("pending", "--json").splitlines()) == 1
    up.run("approve", up.run("pending").split()[0])
    asking.communicate(timeout=30)
    assert asking.returncode == 0


def test_a_window_is_closed_where_hangups_are_ignored(
    up: Shell, open_terminal: Callable[..., Terminal]
) -> None:
    """Started as with nohup, or with a policy file that SIGHUP reads again: without its window it
    ends all the same, decides nothing, and does not go on reading where nobody types."""
    terminal = open_terminal(hangup=signal.SIG_IGN)
    terminal.sees("Nothing waits")
    asking = up.popen("ask", "shell", "--", "make")
    terminal.sees("Approval needed")
    terminal.close()
    terminal.ended()  # with any code: its last words have nowhere to go
    assert len(up.run("pending", "--json").splitlines()) == 1
    assert asking.poll() is None


def test_a_killed_terminal_decides_nothing(
    up: Shell, terminal: Terminal, open_terminal: Callable[..., Terminal]
) -> None:
    """`kill -9`, and another terminal takes over."""
    terminal.sees("Nothing waits")
    asking = up.popen("ask", "shell", "--", "make")
    terminal.sees("Approval needed")
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.ended()
    other = open_terminal()
    other.sees("Approval needed")
    other.type("y")
    asking.communicate(timeout=30)
    assert asking.returncode == 0
    other.type("q")
    assert other.ended() == 0


def test_it_says_what_is_missing(shell: Shell, tmp_path: Path) -> None:
    """Without a gateway, and without a terminal, a sentence and an exit code."""
    assert "gateway up" in shell.run("adapter", "terminal", code=5)


def test_it_refuses_without_a_terminal(up: Shell) -> None:
    """Output that goes to a file is no place to answer."""
    assert "needs a terminal" in up.run("adapter", "terminal", code=2)
