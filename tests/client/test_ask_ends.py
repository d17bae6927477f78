"""When `gateway ask` leaves without an answer, and that nothing it asked for waits on then."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.client import commands
from gateway.wire.local_discovery import FILE_NAME, write_private
from tests.client.approving import ASK, PENDING, SIGNER, deciding
from tests.client.scripted import Script, answer, scripted

REFUSED = answer({"code": "unauthorized", "detail": "rotated"}, 401)
ENROLLED = answer({"token": "good", "public_key": SIGNER.public_key})


@pytest.fixture
def found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _signals: None
) -> Callable[..., tuple[int, list[tuple[str, str]]]]:
    """Return what runs the command at a gateway that it finds and enrols at: its exit code, and
    the token and path of each call."""
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(tmp_path))

    def found(*answers: Script) -> tuple[int, list[tuple[str, str]]]:
        with scripted(*answers) as server:
            announced = {"url": server.url, "enroll": "enrol"}
            write_private(tmp_path / FILE_NAME, json.dumps(announced))
            code = commands.main(ASK)
            heads = [call.decode().partition("\r\n\r\n")[0] for call in server.calls]
        tokens = [head.partition("Bearer ")[2].split("\r\n")[0] for head in heads]
        return code, [(t, head.split(" ")[1]) for t, head in zip(tokens, heads, strict=True)]

    return found


def stopping(call: bytes) -> bytes:
    """Stop the command instead of answering."""
    os.kill(os.getpid(), signal.SIGINT)
    return b""


def test_looking_for_the_gateway_costs_none_of_the_time(
    found: Any, hours: Callable[[bytes], bytes]
) -> None:
    """Enrolling for an hour, and approved at once: both clocks began when it asked."""
    assert found(lambda call: hours(ENROLLED), deciding())[0] == 0


def test_what_it_waits_for_no_longer_is_withdrawn(
    run: Any, hours: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """So that nobody approves what nobody runs; what it only looked at goes on."""
    code, paths = run(PENDING, lambda call: hours(PENDING), answer({}))
    assert (code, len(paths)) == (3, 3)
    assert paths[-1].endswith("/cancel")
    assert "nobody answered in time" in capsys.readouterr().err
    code, paths = run(lambda call: hours(PENDING), words=("wait", "0" * 32))
    assert (code, len(paths)) == (6, 1)


def test_a_signal_while_it_enrols_anew_withdraws_too(found: Any) -> None:
    """It asked, its token was rotated, and it is stopped before it could ask on with another."""
    code, calls = found(ENROLLED, PENDING, REFUSED, stopping, answer({}))
    assert code == 4
    assert calls[-1][0] == "good"
    assert calls[-1][1].endswith("/cancel")


def test_a_gateway_that_hangs_costs_no_more_than_its_deadline(run: Any) -> None:
    """It takes the call and never answers: the wait ends all the same, two seconds later at most,
    one of which tries to withdraw."""
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
    assert run(REFUSED, REFUSED)[0] == 9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("last", [answer({}), REFUSED])
def test_a_signal_withdraws_the_request(
    run: Any, number: signal.Signals, last: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped while it waits: the gateway is told, and the exit code says cancelled. Refused
    there, it says so, and does not ask again."""

    def stopped(call: bytes) -> bytes:
        os.kill(os.getpid(), number)
        return b""

    code, paths = run(PENDING, stopped, last)
    assert (code, len(paths)) == (4, 3)
    assert paths[-1].endswith("/cancel")
    assert ("not cancelled" in capsys.readouterr().err) == (last is REFUSED)
