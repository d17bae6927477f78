"""`gateway ask --hook`: a host's tool runs after an approval, and after nothing else."""

from __future__ import annotations

import io
import json
import os
import signal
from typing import Any

import pytest

from gateway.client import ask
from gateway.client.host_hooks import BLOCKED, TIMEOUTS
from gateway.models import Action, Reason, Status
from tests.client.approving import PENDING, deciding
from tests.client.scripted import Script, answer

EVENTS = {"claude-code": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool"}
HOSTS = sorted(EVENTS)


def call(host: str, **changes: Any) -> str:
    """Return what a host writes to its hook."""
    values = {
        "session_id": "s-1",
        "cwd": "/srv/app",
        "hook_event_name": EVENTS[host],
        "tool_name": "Bash",
        "tool_input": {"command": "rm x", "timeout": 5},
    }
    return json.dumps({**values, **changes})


@pytest.fixture
def hook(run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what runs the hook of a host: its exit code, and what it printed."""

    def hook(
        host: str, *answers: Script, given: str | None = None, words: tuple[str, ...] = ()
    ) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(call(host) if given is None else given))
        code, _ = run(*answers, words=("ask", "--hook", host, *words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return hook


@pytest.mark.parametrize("host", HOSTS)
def test_an_approval_is_told_in_the_hosts_words(hook: Any, host: str) -> None:
    """What is asked is the host's own call, in its folder."""
    asked: list[Any] = []

    def noted(sent: bytes) -> bytes:
        asked.append(json.loads(sent.partition(b"\r\n\r\n")[2])["request"])
        return deciding()(sent)

    code, out, _ = hook(host, noted)
    told = json.loads(out)
    assert code == 0
    if host == "gemini":
        assert told["decision"] == "allow"
    else:
        assert told["hookSpecificOutput"]["permissionDecision"] == "allow"
        assert told["hookSpecificOutput"]["hookEventName"] == EVENTS[host]
    (request,) = asked
    assert (request["tool"], request["session"]) == ("Bash", "s-1")
    assert request["arguments"] == {"command": "rm x", "timeout": 5}
    assert request["context"]["cwd"] == "/srv/app"
    assert 0 < request["timeout"] <= TIMEOUTS[host]


@pytest.mark.parametrize("host", HOSTS)
def test_an_edit_is_what_the_host_runs(hook: Any, host: str) -> None:
    """Whole, as the person left it."""
    edited = {"command": "rm y", "timeout": 5}
    code, out, _ = hook(host, deciding(action=Action.EDIT, arguments=edited), words=("--edit",))
    told = json.loads(out)["hookSpecificOutput"]
    assert (code, told["tool_input" if host == "gemini" else "updatedInput"]) == (0, edited)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "ending",
    [
        {"status": Status.DENIED, "action": Action.DENY},
        {"status": Status.EXPIRED, "action": None, "reason": Reason.TIMEOUT},
        {"status": Status.CANCELLED, "action": None, "reason": Reason.CANCELLED_BY_OPERATOR},
    ],
)
def test_every_other_end_blocks(hook: Any, host: str, ending: dict[str, Any]) -> None:
    """With the one exit code that these hosts take as a no, and with the reason."""
    code, out, err = hook(host, deciding(**ending))
    assert (code, out) == (BLOCKED, "")
    assert err


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("answers", "given", "words"),
    [
        ((), "no json", ()),
        ((), "[" * 100_000, ()),
        ((), "{}", ()),
        ((), None, ("--hook", "emacs")),
        ((), None, ("shell",)),
        ((), None, ("--no-wait",)),
        ((), None, ("--timeout", "0")),
        ((), None, ("--nonsense",)),
        ((answer({"code": "unauthorized", "detail": "no"}, 401),) * 2, None, ()),
        ((answer({"code": "over_budget", "detail": "no"}, 429),), None, ()),
        ((answer([]),), None, ("--timeout", "0.2")),
        ((PENDING, b""), None, ("--timeout", "0.2")),
        ((deciding(lambda state: {**state, "id": "1" * 32}),), None, ()),
    ],
)
def test_whatever_goes_wrong_blocks(
    hook: Any, host: str, answers: tuple[Script, ...], given: str | None, words: tuple[str, ...]
) -> None:
    """A hook that fails in another way lets the tool run."""
    code, out, err = hook(host, *answers, given=given, words=words)
    assert (code, out) == (BLOCKED, "")
    assert err


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "changes",
    [
        {"hook_event_name": "PostToolUse"},
        {"hook_event_name": None},
        {"tool_name": 5},
        {"tool_input": "rm x"},
        {"cwd": ["/"]},
    ],
)
def test_another_kind_of_call_is_not_asked_about(
    hook: Any, host: str, changes: dict[str, Any]
) -> None:
    """After the tool it is too late, and what cannot be read cannot be shown."""
    code, out, err = hook(host, deciding(), given=call(host, **changes))
    assert (code, out) == (BLOCKED, "")
    assert "no call of" in err


@pytest.mark.parametrize("spelling", ["--hook=codex", "--hoo=codex"])
def test_every_spelling_of_the_option_blocks(run: Any, spelling: str) -> None:
    """argparse takes more than one, and the guard no fewer."""
    assert run(words=("ask", spelling, "shell"))[0] == BLOCKED


def test_a_host_that_stops_its_hook_runs_nothing(hook: Any) -> None:
    """SIGTERM is what it sends when its own time is over."""

    def stopped(call: bytes) -> bytes:
        os.kill(os.getpid(), signal.SIGTERM)
        return b""

    assert hook("codex", PENDING, stopped, answer({}))[0] == BLOCKED


def test_an_error_of_our_own_blocks(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that nobody thought of."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ask, "_request", broken)
    assert hook("codex", PENDING)[0] == BLOCKED
