"""`gateway ask` and a gateway that lies: only a true approval of what was asked exits with 0."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.client import commands
from gateway.models import Action, ApprovalRequest, Decision
from gateway.wire.codec import JsonObject, build, plain
from gateway.wire.signatures import Signer
from tests.client.approving import PENDING, SIGNER, decided, deciding
from tests.client.scripted import Cut, answer

OTHER = Signer("b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIhISE=")
BUSY = answer({"code": "too_many_requests", "detail": "later"}, 429, Retry_After="0")


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


def test_it_waits_on_when_the_gateway_goes_away(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Connections that end in the middle of the wait cost time, not the answer; that is said
    once, and when it is over."""
    state: list[bytes] = []

    def submitted(call: bytes) -> bytes:
        state.append(deciding()(call))
        return PENDING

    code, paths = run(submitted, Cut(), Cut(), lambda call: state[0])
    assert (code, len(paths)) == (0, 4)
    said = capsys.readouterr().err
    assert said.count("does not respond") == said.count("responds again") == 1


def test_an_answer_after_its_own_deadline_is_refused(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approved, but too late: expired."""
    monkeypatch.setattr(commands, "MARGIN_SECONDS", 0.0)
    assert run(late(deciding()), words=("ask", "x", "--timeout", "0.001", "--arg", "a=1"))[0] == 3


def test_a_wait_that_ends_says_that_the_request_goes_on(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """6, and not 3: a script must not take it for expired while a person may still approve."""
    assert run(late(lambda call: PENDING), words=("wait", "0" * 32, "--timeout", "0.05"))[0] == 6
    assert capsys.readouterr().err == "gateway wait: no answer yet\n"


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


CARD = "https://discord.com/channels/1/2/3"


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"messages": [CARD]}, [f"the card for 'shell': {CARD}"]),
        ({"messages": [CARD, 7, "https://x\u202e", "a\nb"]}, [f"the card for 'shell': {CARD}"]),
        ({"messages": "https"}, []), ({}, []), (None, []), ([], []), ("x", []),
    ],
)  # fmt: skip
def test_it_says_where_the_card_is(
    run: Any, capsys: pytest.CaptureFixture[str], record: Any, said: list[str]
) -> None:
    """Once, after a first short look; whatever else a gateway tells is no address."""
    final: list[bytes] = []

    def submitted(call: bytes) -> bytes:
        final.append(deciding()(call))
        return PENDING

    state = json.loads(PENDING.partition(b"\r\n\r\n")[2])
    code, paths = run(submitted, answer({**state, "record": record}), lambda call: final[0])
    assert code == 0
    lines = capsys.readouterr().err.splitlines()
    assert [one for one in lines if one.startswith("the card")] == said
    assert ["&record=true" in path for path in paths[1:]] == [True, False]
