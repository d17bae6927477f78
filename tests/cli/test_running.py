"""`gateway up --detach`, `down`, `status`, `gateway` alone, and Enter in the terminal of `up`."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from gateway.cli import running
from gateway.wire.local_discovery import LOCK_FILE, find_process, hold_lock, write_private
from tests.cli.shell import Shell
from tests.cli.test_policy_file import GOOD
from tests.frame.tree import ROOT
from tests.ports import free_port

HELD = """
import sys
from gateway.wire.local_discovery import hold_lock
with hold_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def state(shell: Shell) -> Path:
    """Return the data folder of a shell, which does not exist yet."""
    return Path(shell.env["GATEWAY_DATA_DIR"])


def test_it_starts_in_the_background_and_is_ended(shell: Shell, state: Path) -> None:
    """It says what `up` says and where its log is, which is private and has no sign-in link; `down`
    returns once it has ended, so that the next one starts at once."""
    for _ in range(2):
        said = shell.run("up", "--detach")
        try:
            ready, agents, slack, stop, log_line = said.splitlines()
            assert re.match(r"The gateway is ready at http://127\.0\.0\.1:\d+ · Answer", ready)
            assert ("gateway install" in agents, "gateway slack setup" in slack) == (True, True)
            assert ("gateway down" in stop, "Ctrl-C" in stop) == (True, False)
            log = state / "up.log"
            assert str(log) in log_line
            assert log.stat().st_mode & 0o777 == 0o600
            assert "#code=" not in log.read_text(encoding="utf-8")
            assert shell.run("pending") == "nothing waits\n"
            process = find_process(state)
            assert process
            assert ": see `gateway status`" in shell.run("up", "--detach", code=10)
        finally:
            ended = shell.run("down")
        assert f"process {process}) has ended" in ended
        assert find_process(state) is None
        assert not (state / "gateway.json").exists()
    assert f"no gateway runs with the data folder {state}" in shell.run("down")
    assert json.loads(shell.run("down", "--json")) == {"ended": None}


def test_what_keeps_it_from_starting_is_said(shell: Shell, state: Path) -> None:
    """The end of its log, by whoever started it; nothing is left running."""
    said = shell.run("up", "--detach", code=5, env={"GATEWAY_HOOKS_FILE": "/no/such/file"})
    assert "ended before it was ready" in said
    assert "/no/such/file" in said
    assert find_process(state) is None
    production = shell.run("up", "--detach", code=2, env={"GATEWAY_ENV": "production"})
    assert "service manager" in production


def test_a_number_that_is_another_process_by_now_ends_nobody(shell: Shell, state: Path) -> None:
    """What a killed gateway left names nobody: only who holds the lock is ended."""
    state.mkdir(mode=0o700)
    (state / LOCK_FILE).write_text(str(os.getpid()), encoding="utf-8")
    (state / LOCK_FILE).chmod(0o600)
    (state / "gateway.lock").write_text(str(os.getpid()), encoding="utf-8")
    assert "no gateway runs" in shell.run("down")
    with subprocess.Popen(
        [sys.executable, "-c", HELD, str(state)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert find_process(state) == holder.pid
        with hold_lock(state):  # a second one beside the same Redis does not take its place
            assert find_process(state) == holder.pid
        assert f"process {holder.pid}) has ended" in shell.run("down")
        assert holder.wait() == -signal.SIGTERM


def test_a_lock_that_others_could_hold_is_not_believed(shell: Shell, state: Path) -> None:
    """Whoever holds it chooses which process is ended."""
    state.mkdir(mode=0o700)
    (state / LOCK_FILE).touch(mode=0o666)
    (state / LOCK_FILE).chmod(0o666)
    for words in ("down", "status"):
        assert "is open to other users, so it is not trusted" in shell.run(words, code=2)


def test_whoever_only_reads_the_lock_is_no_gateway(state: Path) -> None:
    """`down` ends nobody who looks at the file."""
    state.mkdir(mode=0o700)
    write_private(state / LOCK_FILE, "")
    looks = "import fcntl, sys; file = open(sys.argv[1]); fcntl.lockf(file, fcntl.LOCK_SH);"
    code = f"{looks} print('looks', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(state / LOCK_FILE)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as reader:  # fmt: skip
        assert reader.stdout is not None and reader.stdout.readline() == "looks\n"
        assert find_process(state) is None


def test_a_gateway_of_another_container_is_left_alone(
    shell: Shell, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lock and has no number here; 0 would be our own group of processes."""
    ended: list[int] = []
    monkeypatch.setattr(running, "find_process", lambda folder: 0)
    monkeypatch.setattr(os, "kill", lambda process, number: ended.append(process))
    monkeypatch.setattr(running, "_LOOKS", 1)
    assert ("in another container" in shell.call("down")[1], ended) == (True, [])


def test_one_that_hangs_in_its_end_is_not_said_to_have_ended(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    """It is told again by the same command."""
    state.mkdir(mode=0o700)
    monkeypatch.setattr(running, "_LOOKS", 3)
    ignoring = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{HELD}"
    with subprocess.Popen(
        [sys.executable, "-c", ignoring, str(state)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        said = shell.run("down", code=5)
        holder.kill()
    assert "is still shutting down; run `gateway down` again" in said


def test_the_status_says_what_is_there_and_what_is_next(
    up: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words and as JSON: what waits comes before what could be connected."""
    monkeypatch.setitem(up.env, "HOME", str(tmp_path))
    monkeypatch.setitem(up.env, "PATH", "/usr/bin:/bin")

    def status() -> dict[str, object]:
        found: dict[str, object] = json.loads(up.run("status", "--json"))
        return found

    found = status()
    assert found["process"] == find_process(up.env["GATEWAY_DATA_DIR"])
    assert (found["running"], found["adapters"]) == (True, ["web"])
    assert (found["waiting"], found["policy_file"]) == (0, "")
    assert found["next"] == "gateway slack setup"
    (tmp_path / ".claude").mkdir()
    assert status()["next"] == "gateway install"
    up.call("ask", "shell", "--no-wait", "--", "ls")
    assert (status()["waiting"], status()["next"]) == (1, "gateway pending")
    said = up.run("status")
    for line in ("running      yes", "adapters     web", "waiting      1", "policy file  none"):
        assert f"{line}\n" in said
    assert up.run() == said  # `gateway` alone
    other = {"GATEWAY_URL": f"http://127.0.0.1:{free_port()}"}
    for env, says in ((other, ""), ({**other, "GATEWAY_APPROVER_TOKEN": "t"}, "running      no\n")):
        said = up.run("status", env=env)
        assert "adapters" not in said and ("running" in said) is bool(says)  # nobody knows
        assert says in said and "next         gateway doctor\n" in said


def test_the_status_names_the_policy_file(shell: Shell, tmp_path: Path) -> None:
    """Set-ups and chats change nothing then."""
    path = tmp_path / "policy.toml"
    path.write_text(GOOD.format(61), encoding="utf-8")
    with shell.running_up(GATEWAY_POLICY_FILE=str(path)) as gateway:
        gateway.says("is ready at")
        said = shell.run("status")
    assert f"policy file  {path}\n" in said
    assert "waiting" not in said  # nobody has a token here
    assert "next         gateway up\n" in shell.run("status")


def test_without_anything_the_first_commands_are_printed(shell: Shell) -> None:
    """And nothing is made."""
    said = shell.run()
    assert "To begin, run gateway demo, gateway up, or gateway slack setup. " in said
    assert not Path(shell.env["GATEWAY_DATA_DIR"]).exists()
    assert "running      no\n" in shell.run("status")


def read_until(terminal: int, pattern: str, said: str = "") -> str:
    """Read what a terminal shows until the pattern is in it."""
    while not re.search(pattern, said):
        assert select.select([terminal], [], [], 60)[0], said
        said += os.read(terminal, 65536).decode()
    return said


def start_on_a_terminal(shell: Shell, *words: str) -> tuple[int, int]:
    """Start a command whose controlling terminal is ours; return its number, and our end."""
    pid, ours = pty.fork()
    if not pid:
        os.chdir(ROOT)
        os.execve(words[0], words, {**shell.env, "TERM": "xterm"})
    return pid, ours


def open_link(address: str, code: str) -> int:
    """Sign in with a link's code; return the HTTP status."""
    headers = {"Origin": address, "Content-Type": "application/json"}
    body = json.dumps({"code": code}).encode()
    try:
        with urlopen(Request(f"{address}/inbox/api/login", data=body, headers=headers)) as answer:
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code


def test_enter_in_the_terminal_of_up_prints_a_fresh_link(shell: Shell) -> None:
    """The first may have expired. Four lines say where it is, what to connect and how to stop. A
    used link is refused, and has a successor there at once."""
    pid, ours = start_on_a_terminal(shell, sys.executable, "-m", "gateway.cli", "up")
    try:
        said = read_until(ours, "press Enter")
        (first,) = re.findall(r"ready at \S+ · Answer.*#code=(\S+)", said)
        lines = said[said.index("The gateway is ready") :].splitlines()
        assert len(lines) == 4
        for line, part in zip(lines[1:], ("gateway install", "slack setup", "down"), strict=True):
            assert part in line
        os.write(ours, b"\n")
        second = re.search(r"#code=(\S+)\s", read_until(ours, r"#code=\S+\s"))
        assert second and second[1] != first
        address = re.search(r"ready at (\S+) ", said)
        assert address is not None
        assert [open_link(address[1], first) for _ in range(3)] == [200, 403, 403]
        shown = read_until(ours, r"rejected. Here is a new one:[^#]*#code=\S+\s")
        third = re.search(r"#code=(\S+)\s", shown)
        assert third and third[1] not in (first, second[1])
        os.write(ours, b"\x04")  # the end of what is typed ends nothing
        assert shell.run("pending") == "nothing waits\n"
    finally:
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        os.close(ours)
    assert os.waitstatus_to_exitcode(status) == 0


def test_in_the_background_of_a_terminal_it_goes_on(shell: Shell) -> None:
    """Started with `&` it takes nothing that is typed there, and is not stopped by it."""
    script = f"set -m; {sys.executable} -m gateway.cli up & wait; read typed; echo got $typed"
    pid, ours = start_on_a_terminal(shell, "/bin/sh", "-c", script)
    try:
        read_until(ours, "press Enter")
        os.write(ours, b"hello\n")
        for _ in range(5):
            assert shell.run("pending") == "nothing waits\n"
        assert "has ended" in shell.run("down")
        read_until(ours, "got hello")
    finally:
        shell.call("down")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ours)
