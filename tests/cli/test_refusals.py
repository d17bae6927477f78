"""What the commands say instead of a traceback, and that no secret is in it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli import main

_SECRET = "hunter2"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Use a state folder of the test's own; give back the signals that `ask` takes."""
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(tmp_path / "state"))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> list[str]:
    """Run a command that must fail with this exit code; return its sentences."""
    assert main(words) == code
    out, err = capsys.readouterr()
    assert _SECRET not in out + err
    assert out == ""
    return err.splitlines()


def test_each_bad_setting_has_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them at once, by the names of their variables."""
    bad = {
        "GATEWAY_ENV": "prod",
        "GATEWAY_PORT": "http",
        "GATEWAY_ADAPTERS": "web",
        "GATEWAY_WEBHOOK_HOSTS": "{}",
        "GATEWAY_SIGNING_KEY": _SECRET,
        "GATEWAY_PUBLIC_URL": "approvals.example",
        "GATEWAY_RETENTION_DAYS": "-1",
    }
    for name, value in bad.items():
        monkeypatch.setenv(name, value)
    for words in (["up"], ["agent", "list"], ["doctor"], ["login", "ann"]):
        sentences = said(capsys, *words)
        assert {sentence.split(":")[1].strip() for sentence in sentences} == set(bad)
        assert all(sentence.startswith("gateway: GATEWAY_") for sentence in sentences)


@pytest.mark.parametrize("url", [f"http://:{_SECRET}@host", f"redis://:{_SECRET}@host:{_SECRET}"])
def test_a_redis_url_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    """Says how to write it, and not what was written."""
    monkeypatch.setenv("REDIS_URL", url)
    for words in (["up"], ["agent", "list"]):
        assert "REDIS_URL is invalid" in said(capsys, *words)[0]


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b" \n"], ids=str)
@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("REDIS_URL", ["up"]),
        ("GATEWAY_SIGNING_KEY", ["agent", "list"]),
        ("GATEWAY_WEBHOOK_SECRET", ["doctor"]),
        ("GATEWAY_APPROVER_TOKEN", ["pending"]),
        ("GATEWAY_TOKEN", ["ask", "shell", "--", "true"]),
        ("GATEWAY_REDIS_URL", ["ask", "shell", "--", "true"]),
    ],
)
def test_a_file_that_holds_no_secret(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    variable: str,
    words: list[str],
    content: bytes | None,
) -> None:
    """Missing, empty or garbage: a sentence with the variable and the file, never a default."""
    path = folder / "secret"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("GATEWAY_URL", "http://127.0.0.1:1")
    monkeypatch.setenv(f"{variable}_FILE", str(path))
    sentence = said(capsys, *words)[0]
    assert f"{variable}_FILE names {path}" in sentence


@pytest.mark.parametrize("content", ["", "garbage", "c2hvcnQ="])
def test_a_signing_key_that_is_none(
    capsys: pytest.CaptureFixture[str], folder: Path, content: str
) -> None:
    """One sentence that names the file and says what to do, without what stands in it."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    (state / "signing.key").write_text(content)
    assert main(["up"]) == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert f"{state / 'signing.key'} is not a signing key" in sentence
    assert "backup" in sentence


@pytest.mark.parametrize(
    ("adapter", "variable"), [("slack", "GATEWAY_SLACK_"), ("discord", "DISCORD")]
)
def test_a_chat_without_its_token(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    adapter: str,
    variable: str,
) -> None:
    """A setting that is missing is no gateway that cannot be reached: 2, not 5."""
    monkeypatch.setenv("GATEWAY_ADAPTERS", f'["{adapter}"]')
    monkeypatch.setenv("GATEWAY_PORT", "0")
    assert main(["up"]) == 2
    assert variable in capsys.readouterr().err


def test_a_policy_with_a_channel_of_an_unknown_chat(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """A slip of the pen would leave requests unseen: refused before anything is changed."""
    path = folder / "policy.toml"
    for member in ("targets", "notify"):
        path.write_text(f'[[routes]]\n{member} = ["slak:T1/C1"]')
        (sentence,) = said(capsys, "apply", str(path))
        assert "'slak:T1/C1'" in sentence
        assert "slack" in sentence.partition("installed")[2]


def test_a_redis_that_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 5, and not a word about files."""
    monkeypatch.setenv("REDIS_URL", f"redis://:{_SECRET}@127.0.0.1:1")
    assert "Redis does not respond" in said(capsys, "agent", "list", code=5)[0]


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """Exit code 2, and not a word about Redis."""
    sentence = said(capsys, "audit", "verify", str(folder / "none.jsonl"))[0]
    assert "none.jsonl" in sentence
    assert "Redis" not in sentence
