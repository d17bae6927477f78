"""`gateway run`: exactly what was approved runs, in its folder, and its exit code is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client import commands
from gateway.integrations.commands import find_command
from gateway.models import Action, Reason, Status
from gateway.wire.codec import JsonObject
from tests.client.approving import SIGNER, deciding
from tests.client.scripted import Script, answer, scripted
from tests.signals import handlers_kept

REPORTED = answer({})
CODE = "import sys; from gateway.client.commands import main; sys.exit(main(sys.argv[1:]))"


def body_of(call: bytes) -> JsonObject:
    """Return the JSON that a call carries."""
    body: JsonObject = json.loads(call.partition(b"\r\n\r\n")[2])
    return body


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., tuple[int, list[bytes]]]]:
    """Return what runs the command in an empty folder against scripted answers: its exit code,
    and the calls that it made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEWAY_PUBLIC_KEY", SIGNER.public_key)

    def run(*answers: Script, words: tuple[str, ...]) -> tuple[int, list[bytes]]:
        with scripted(*answers) as server:
            monkeypatch.setenv("GATEWAY_URL", server.url)
            monkeypatch.setenv("GATEWAY_TOKEN", "token")
            command = find_command(("run", *words))
            assert command
            return command(), server.calls

    with handlers_kept():
        yield run


def test_what_was_approved_runs_as_it_was_asked(run: Any, tmp_path: Path) -> None:
    """Word by word, no shell in between; that it began and how it ended is reported."""
    words = (
        "--",
        sys.executable,
        "-c",
        "import sys; open('out', 'w').write(sys.argv[1])",
        "$HOME;*",
    )
    code, calls = run(deciding(), REPORTED, REPORTED, words=words)
    assert code == 0
    assert (tmp_path / "out").read_text() == "$HOME;*"
    asked = body_of(calls[0])["request"]
    assert (asked["kind"], asked["tool"]) == ("command", "shell")
    assert asked["arguments"]["command"].endswith("'$HOME;*'")
    reports = [body_of(call)["report"] for call in calls[1:]]
    assert [one["execution"] for one in reports] == ["started", "succeeded"]
    assert reports[1]["duration_ms"] >= 0


def test_the_exit_code_of_the_command_is_told(run: Any) -> None:
    """Its own where it ran, a shell's where a signal ended it."""
    for script, code in (("exit 3", 3), ("kill -9 $$", 137)):
        found, calls = run(deciding(), REPORTED, REPORTED, words=("--", "sh", "-c", script))
        assert found == code
        assert body_of(calls[2])["report"]["execution"] == "failed"


@pytest.mark.parametrize(
    ("word", "code", "says"),
    [
        ("no-such-program", 127, "there is no program 'no-such-program' in any folder of PATH"),
        ("./none", 127, "there is no program './none'"),
        ("/", 127, "there is no program '/'"),
        ("./data", 126, "'./data' may not be executed"),
    ],
)
def test_nobody_is_asked_about_a_program_that_cannot_be_started(
    run: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str, code: int, says: str
) -> None:
    """It is said before; an approval of it could not be used."""
    (tmp_path / "data").write_text("")
    (tmp_path / "data").chmod(0o644)
    assert run(words=("--", word)) == (code, [])
    assert f"nobody was asked: {says}" in capsys.readouterr().err


def test_a_program_that_went_away_meanwhile_could_not_be_started(run: Any, tmp_path: Path) -> None:
    """That is told as a shell tells it, and reported."""
    program = tmp_path / "bin" / "here"
    program.parent.mkdir()
    program.write_text("")  # neither a program nor a script
    program.chmod(0o755)
    code, calls = run(deciding(), REPORTED, REPORTED, words=("--", "bin/here"))
    assert code == 126
    assert body_of(calls[2])["report"]["execution"] == "failed"


def test_it_runs_without_a_standard_input(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As under `<&-`, where Python has none."""
    monkeypatch.setattr("sys.stdin", None)
    assert run(deciding(), REPORTED, REPORTED, words=("--", "touch", "ran"))[0] == 0
    assert (tmp_path / "ran").exists()
    sys.stdin.close()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ({"status": Status.DENIED, "action": Action.DENY}, 121),
        ({"status": Status.EXPIRED, "action": None, "reason": Reason.TIMEOUT}, 123),
        ({"status": Status.CANCELLED, "action": None, "reason": Reason.CANCELLED_BY_AGENT}, 124),
    ],
)
def test_nothing_runs_without_an_approval(
    run: Any, tmp_path: Path, end: dict[str, Any], code: int
) -> None:
    """Denied, expired and cancelled have codes of their own, far from those of commands."""
    assert run(deciding(**end), words=("--", "touch", "ran"))[0] == code
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("by", ["a link", "a folder", "a link to where it went"])
def test_a_folder_in_anothers_place_runs_nothing(run: Any, tmp_path: Path, by: str) -> None:
    """Whoever may rename beside it chooses where a command works, were it not held."""
    (tmp_path / "shown").mkdir()
    (tmp_path / "other").mkdir()

    def swap(call: bytes) -> bytes:
        (tmp_path / "shown").rename(tmp_path / "away")
        if by == "a folder":
            (tmp_path / "shown").mkdir()
        else:
            (tmp_path / "shown").symlink_to("other" if by == "a link" else "away")
        return deciding()(call)

    assert run(swap, words=("--cwd", "shown", "--", "touch", "ran"))[0] == 125
    assert not list(tmp_path.glob("*/ran"))


def test_a_gateway_that_is_away_runs_nothing(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does an answer that nobody signed."""
    monkeypatch.setenv("GATEWAY_CONNECT_TIMEOUT", "0.05")
    assert run(b"", words=("--", "touch", "ran"))[0] == 125
    monkeypatch.delenv("GATEWAY_CONNECT_TIMEOUT")
    forged = answer({"id": "0" * 32, "status": "approved", "revision": 1, "decision": {}})
    assert run(forged, words=("--", "touch", "ran"))[0] == 125
    assert not (tmp_path / "ran").exists()


def test_usage_is_no_answer(run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No command, an unknown option, a folder that does not exist: 122, and nothing was asked."""
    for words in ((), ("touch", "ran"), ("--nothing", "--", "touch", "ran")):
        assert run(words=words)[0] == 122
    assert run(words=("--cwd", "nowhere", "--", "touch", "ran"))[0] == 122
    assert not (tmp_path / "ran").exists()
    assert run(words=("--help",))[0] == 0
    assert "121 denied" in capsys.readouterr().out


def test_an_edit_runs_instead(run: Any, tmp_path: Path) -> None:
    """As a person typed it, in a shell; an edit with more than a command runs nothing."""
    edit = deciding(action=Action.EDIT, arguments={"command": "echo edited > out"})
    assert run(edit, REPORTED, REPORTED, words=("--edit", "--", "touch", "ran"))[0] == 0
    assert (tmp_path / "out").read_text() == "edited\n"
    more = deciding(action=Action.EDIT, arguments={"command": "touch more", "timeout": 3})
    assert run(more, answer({}), words=("--edit", "--", "touch", "ran"))[0] == 125
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_it_runs_in_the_folder_that_was_shown(run: Any, tmp_path: Path) -> None:
    """`--cwd` is where people see that it runs, and where it does; a program there is bound."""
    (tmp_path / "deep").mkdir()
    script = tmp_path / "deep" / "make.sh"
    script.write_text("#!/bin/sh\npwd > out\n")
    script.chmod(0o755)
    words = ("--cwd", "deep", "--", "./make.sh")
    code, calls = run(deciding(), REPORTED, REPORTED, words=words)
    assert code == 0
    assert (tmp_path / "deep" / "out").read_text().strip() == str(tmp_path / "deep")
    context = body_of(calls[0])["request"]["context"]
    assert context["cwd"] == str(tmp_path / "deep")
    assert str(script) in context["files"]


def test_a_program_that_was_changed_meanwhile_does_not_run(run: Any, tmp_path: Path) -> None:
    """Named by its path, it is bound to the approval, as are the files of `--file`."""
    for changed, words in (
        ("x.sh", ("--", "./x.sh")),
        ("data", ("--file", "data", "--", "./x.sh")),
    ):
        (tmp_path / "x.sh").write_text("#!/bin/sh\ntouch ran\n")
        (tmp_path / "x.sh").chmod(0o755)
        (tmp_path / "data").write_text("one")

        def meanwhile(call: bytes, changed: str = changed) -> bytes:
            (tmp_path / changed).write_text("#!/bin/sh\ntouch evil\n")
            return deciding()(call)

        assert run(meanwhile, answer({}), words=words)[0] == 125
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "evil").exists()


def test_it_runs_though_nobody_takes_the_report(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was approved; that the report is missing is said."""
    away = answer({"code": "unavailable", "detail": "away"}, 503)
    assert run(deciding(), away, away, words=("--", "touch", "ran"))[0] == 0
    assert (tmp_path / "ran").exists()
    assert "not reported" in capsys.readouterr().err


def test_a_signal_reaches_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends the runner ends the command, which may clean up first; its code is told."""
    trap = "trap 'echo cleaned > out; exit 7' TERM; echo > began; while :; do sleep 0.05; done"
    with scripted(deciding(), REPORTED, REPORTED) as server:
        environment = {
            **os.environ, "GATEWAY_URL": server.url, "GATEWAY_TOKEN": "token",
            "GATEWAY_PUBLIC_KEY": SIGNER.public_key,
        }  # fmt: skip
        command = [sys.executable, "-c", CODE, "run", "--", "sh", "-c", trap]
        runner = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL)
        while not (tmp_path / "began").exists():
            assert runner.poll() is None
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(30) == 7
    assert (tmp_path / "out").read_text() == "cleaned\n"


def test_a_signal_before_the_answer_withdraws_the_request(run: Any, tmp_path: Path) -> None:
    """So that nobody approves what nothing will run."""

    def stopped(call: bytes) -> bytes:
        os.kill(os.getpid(), signal.SIGTERM)
        return b""

    code, calls = run(stopped, answer({}), words=("--", "touch", "ran"))
    assert code == 124
    assert b"/cancel " in calls[-1]
    assert not (tmp_path / "ran").exists()


def test_the_command_of_the_shell_is_asked_in_the_same_way(run: Any) -> None:
    """`run` and `ask` of the same words have one digest, so what is remembered holds for both."""
    _, calls = run(deciding(), REPORTED, REPORTED, words=("--", "true", "a b"))
    digest = body_of(calls[0])["request"]["digest"]
    with scripted(deciding()) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATEWAY_URL", server.url)
        assert commands.main(("ask", "shell", "--", "true", "a b")) == 0
        assert body_of(server.calls[0])["request"]["digest"] == digest
