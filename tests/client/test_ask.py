"""`gateway ask` and a gateway that lies: only a true approval of what was asked exits with 0."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.client import ask
from gateway.client.files import bound
from gateway.models import (
    Action,
    ApprovalRequest,
    DecidedBy,
    DeciderKind,
    Decision,
    Reason,
    State,
    Status,
    digest_of,
)
from gateway.signatures import Signer
from gateway.wire import JsonObject, build, plain
from tests.client.scripted import Cut, Script, answer, scripted
from tests.world import SEED

SIGNER = Signer(SEED)
OTHER = Signer("b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIhISE=")
ASK = ("ask", "shell", "--", "rm", "x")
PENDING = answer({"id": "0" * 32, "status": "pending", "revision": 1, "digest": "", "deadline": 0})
REFUSED = answer({"code": "unauthorized", "detail": "rotated"}, 401)
BUSY = answer({"code": "too_many_requests", "detail": "later"}, 429, Retry_After="0")


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the handlers back that the command replaces, and pause shortly."""
    monkeypatch.setattr(ask, "_PAUSE_SECONDS", 0.01)
    held = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in held.items():
        signal.signal(number, handler)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str]]]:
    """Return what runs the command against scripted answers: its exit code and the paths called."""

    def run(*answers: Script, words: tuple[str, ...] = ASK) -> tuple[int, list[str]]:
        with scripted(*answers) as server:
            monkeypatch.setenv("GATEWAY_URL", server.url)
            monkeypatch.setenv("GATEWAY_TOKEN", "token")
            code = ask.main(words)
            return code, [call.split(b" ")[1].decode() for call in server.calls]

    monkeypatch.setenv("GATEWAY_PUBLIC_KEY", SIGNER.public_key)
    return run


def decided(request: ApprovalRequest, **changes: Any) -> JsonObject:
    """Return the state of a request that a person approved, or as changed, signed."""
    edited = changes.get("arguments")
    decision = Decision(
        request_id=request.id,
        revision=2,
        status=Status.APPROVED,
        action=Action.APPROVE,
        reason=Reason.PERSON,
        digest=digest_of(request, edited),
        decided_by=DecidedBy(kind=DeciderKind.PERSON, name="ann"),
        decided_at=1,
        expires_at=2,
    )
    decision = replace(decision, **changes)
    signed = replace(decision, signature=SIGNER.sign(decision.signed_bytes()))
    state: JsonObject = plain(
        State(
            id=request.id,
            status=decision.status,
            revision=2,
            digest=request.digest,
            deadline=0,
            decision=signed,
        )
    )
    return state


def deciding(
    change: Callable[[JsonObject], Any] = lambda state: state, **changes: Any
) -> Callable[[bytes], bytes]:
    """Return an answer to a submission: decided, and the state changed after it was signed."""

    def reply(call: bytes) -> bytes:
        request = build(ApprovalRequest, json.loads(call.partition(b"\r\n\r\n")[2])["request"])
        assert request.digest == digest_of(request)
        return answer(change(decided(request, **changes)))

    return reply


def late(reply: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return an answer that comes a tenth of a second later."""

    def replied(call: bytes) -> bytes:
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass
        return reply(call)

    return replied


def member(name: str, value: Any) -> Callable[[JsonObject], Any]:
    """Change one member of the decision after it was signed."""
    return lambda state: {**state, "decision": {**state["decision"], name: value}}


def resigned(name: str, value: Any) -> Callable[[JsonObject], Any]:
    """Change one member of the decision, and sign it as the gateway would."""

    def change(state: JsonObject) -> Any:
        decision = replace(build(Decision, state["decision"]), **{name: value})
        signature = SIGNER.sign(decision.signed_bytes())
        return {**state, "decision": plain(replace(decision, signature=signature))}

    return change


def test_a_true_approval_exits_with_0(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Signed, about this request and this action; with --json the whole decision is printed."""
    assert run(deciding())[0] == 0
    assert capsys.readouterr().err == "approved by ann\n"
    assert run(deciding(), words=("ask", "x", "--arg", "a=1", "--json"))[0] == 0
    assert json.loads(capsys.readouterr().out)["decided_by"]["name"] == "ann"


@pytest.mark.parametrize(
    "change",
    [
        member("signature", None),
        member("signature", 7),
        member("signature", OTHER.sign(b"")),
        member("message", "changed after it was signed"),
        resigned("request_id", "0" * 32),
        resigned("digest", "0" * 64),
        resigned("action", Action.RESPOND),
        resigned("action", Action.EDIT),
        resigned("action", None),
        resigned("arguments", {"command": "ls"}),
        member("status", "fine"),
        member("status", ["approved"]),
        member("arguments", "ls"),
        lambda state: {**state, "id": "0" * 32},
        lambda state: {**state, "id": ["0"]},
        lambda state: {**state, "decision": None},
        lambda state: {**state, "decision": ["approved"]},
        lambda state: {**state, "status": None},
        lambda state: [state],
        lambda state: None,
    ],
)
def test_anything_else_exits_with_5(change: Any, run: Any) -> None:
    """Unsigned, wrongly signed, about something else, no leave to run, or no answer at all."""
    assert run(deciding(change))[0] == 5


def test_an_unedited_approval_cannot_carry_other_arguments(run: Any) -> None:
    """With a digest that fits the changed arguments, too: the caller would run the old ones."""
    assert run(deciding(arguments={"command": "ls"}))[0] == 5
    edited = deciding(action=Action.EDIT, arguments={"command": "ls"})
    assert run(edited)[0] == 5  # nobody allowed edits


def test_an_edit_prints_what_may_run(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The edited command where a person edited it, else the one that was asked for."""
    words = ("ask", "shell", "--edit", "--", "rm", "x y")
    assert run(deciding(action=Action.EDIT, arguments={"command": "ls"}), words=words)[0] == 0
    assert capsys.readouterr().out == "ls\n"
    assert run(deciding(), words=words)[0] == 0
    assert capsys.readouterr().out == "rm 'x y'\n"


def test_without_a_pinned_key_an_unsigned_approval_counts(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signature is for those who pin a key; what is no key lets nothing pass."""
    monkeypatch.delenv("GATEWAY_PUBLIC_KEY")
    assert run(deciding(member("signature", None)))[0] == 0
    monkeypatch.setenv("GATEWAY_PUBLIC_KEY", "no key")
    assert run(deciding())[0] == 5


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"action": Action.EDIT, "arguments": {"command": "ls"}}, 0),
        ({"action": Action.RESPOND, "result": 1}, 5),
        ({"action": Action.ANSWER}, 5),
        ({"request_id": "1" * 32}, 5),
    ],
)
def test_waiting_takes_only_what_can_run(changes: Any, code: int, run: Any, capsys: Any) -> None:
    """An edit is printed; a result or an answer is nothing that a command can follow."""
    request = ApprovalRequest(id="0" * 32, agent="local", tool="x", arguments={}, digest="0" * 64)
    state = decided(request, **changes)
    words = ("wait", request.id)
    assert run(answer(state), answer(state), words=words)[0] == code
    assert capsys.readouterr().out == ("ls\n" if "arguments" in changes else "")
    assert run(answer(state), answer({**state, "may_have_run": True}), words=words)[0] != 0


def test_an_approval_that_is_held_back_says_so(run: Any, capsys: Any) -> None:
    """As while the kill switch is on: no leave, and not "something else answered"."""

    def held(state: JsonObject) -> JsonObject:
        return {name: value for name, value in state.items() if name != "decision"}

    assert run(deciding(held))[0] == 5
    assert "kill switch" in capsys.readouterr().err


def test_it_looks_now_and_then_where_no_more_calls_may_hang(run: Any) -> None:
    """Refused with 429, it looks without waiting, and tries to wait again."""
    state: list[bytes] = []

    def submitted(call: bytes) -> bytes:
        state.append(deciding()(call))
        return PENDING

    code, paths = run(submitted, BUSY, PENDING, BUSY, lambda call: state[0])
    assert code == 0
    assert ["wait=" in path for path in paths] == [False, True, False, True, False]


def test_it_waits_on_when_the_gateway_goes_away(run: Any) -> None:
    """Connections that end in the middle of the wait cost time, not the answer."""
    state: list[bytes] = []

    def submitted(call: bytes) -> bytes:
        state.append(deciding()(call))
        return PENDING

    code, paths = run(submitted, Cut(), Cut(), lambda call: state[0])
    assert (code, len(paths)) == (0, 4)


def test_an_answer_after_its_own_deadline_is_refused(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approved, but too late: expired."""
    monkeypatch.setattr(ask, "_MARGIN_SECONDS", 0.0)
    assert run(late(deciding()), words=("ask", "x", "--timeout", "0.001", "--arg", "a=1"))[0] == 3


def test_a_gateway_that_hangs_costs_no_more_than_its_deadline(run: Any) -> None:
    """It takes the call and never answers: the wait ends all the same, a second later at most."""
    began = time.monotonic()
    assert run(PENDING, b"", words=("ask", "x", "--timeout", "0.1"))[0] == 3
    assert time.monotonic() - began < 8


def test_a_token_rotated_meanwhile_asks_nobody_twice(run: Any) -> None:
    """Refused in the middle of the wait, it goes on with what it asked: one id, one card."""
    asked: list[tuple[str, str]] = []

    def noted(call: bytes, reply: Script) -> bytes:
        body = json.loads(call.partition(b"\r\n\r\n")[2])
        asked.append((body["request"]["id"], body["process"]))
        return reply if isinstance(reply, bytes) else reply(call)

    code, paths = run(
        lambda call: noted(call, PENDING), REFUSED, lambda call: noted(call, deciding())
    )
    assert (code, len(paths), len(set(asked))) == (0, 3, 1)
    assert run(REFUSED, REFUSED)[0] == 2


def test_a_wait_that_ends_says_that_the_request_goes_on(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """6, and not 3: a script must not take it for expired while a person may still approve."""
    assert run(late(lambda call: PENDING), words=("wait", "0" * 32, "--timeout", "0.05"))[0] == 6
    assert capsys.readouterr().err == "gateway wait: no answer yet\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("last", [answer({}), REFUSED])
def test_a_signal_withdraws_the_request(
    run: Any, number: signal.Signals, last: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped while it waits: the gateway is told, and the exit code says cancelled. Refused
    there, it says so, and does not ask again."""

    def stopping(call: bytes) -> bytes:
        os.kill(os.getpid(), number)
        return b""

    code, paths = run(PENDING, stopping, last)
    assert (code, len(paths)) == (4, 3)
    assert paths[-1].endswith("/cancel")
    assert ("not withdrawn" in capsys.readouterr().err) == (last is REFUSED)


def test_what_cannot_be_asked_exits_with_2(run: Any, tmp_path: Any) -> None:
    """Arguments that are no JSON object, have no canonical form, or an id that is none."""
    for words in (
        ("ask", "x", "--arguments", "{"),
        ("ask", "x", "--arguments", "[]"),
        ("ask", "x", "--arguments", '{"a": 1e999}'),
        ("ask", "x", "--arg", "novalue"),
        ("ask", "x", "--arg", "a=\udcff"),
        ("ask", "x", "--agent", "../up"),
        ("ask", "x", "--file", str(tmp_path)),
        ("ask", "x", "--file", "\udcff"),
        ("ask", "x", "--no-wait", "--file", "x.sh"),
        ("ask", "x", "--no-wait", "--edit"),
        ("wait", "0000?x="),
    ):
        assert run(words=words) == (2, []), words


# ---------------------------------------------------------------- files that an action uses


def meanwhile(change: Callable[[], Any], **changes: Any) -> Callable[[bytes], bytes]:
    """Return an approval of what was asked, given after something was done to its files."""

    def reply(call: bytes) -> bytes:
        change()
        return deciding(**changes)(call)

    return reply


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a script in the working folder, in a folder that a link leads to."""
    monkeypatch.chdir(tmp_path)
    for name in ("honest", "evil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.sh").write_text("same words")
    (tmp_path / "link").symlink_to("honest")
    return tmp_path / "link" / "x.sh"


FILES = ("ask", "shell", "--file", "link/x.sh", "--file", "log", "--", "link/x.sh")


def test_bound_files_are_asked_about_as_the_sdk_does(run: Any, script: Path) -> None:
    """Same paths, same digests, so that people and grants see the same; unchanged, it exits 0."""
    asked: list[JsonObject] = []

    def reply(call: bytes) -> bytes:
        asked.append(json.loads(call.partition(b"\r\n\r\n")[2])["request"])
        return deciding()(call)

    assert run(reply, words=FILES)[0] == 0
    files = asked[0]["context"]["files"]
    assert files == bound(["link/x.sh", "log"])
    assert files[str(script.resolve())] == hashlib.sha256(b"same words").hexdigest()


def test_a_file_that_changed_meanwhile_exits_with_5_and_is_named(
    run: Any, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written, made, removed or turned by its link, also to the same words; nothing is printed."""
    link, log = script.parent, script.parent.parent / "log"

    def turned() -> None:
        link.unlink()
        link.symlink_to("evil")

    for change, named in (
        (lambda: log.write_text("x"), "log"),
        (turned, "x.sh"),
        (lambda: script.write_text("other words"), "x.sh"),
        (script.unlink, "x.sh"),
    ):
        log.unlink(missing_ok=True)
        answer_ = meanwhile(change, action=Action.EDIT, arguments={"command": "ls"})
        assert run(answer_, words=("ask", "shell", "--edit", *FILES[2:]))[0] == 5
        said = capsys.readouterr()
        assert said.out == ""
        assert f"{named} was changed after it was asked about" in said.err


def test_a_denial_is_a_denial_whatever_became_of_the_files(run: Any, script: Path) -> None:
    """Nothing runs, so nothing is checked."""
    denied = meanwhile(script.unlink, status=Status.DENIED, action=Action.DENY)
    assert run(denied, words=FILES)[0] == 1
