"""`gateway ask` run in this process, against scripted answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from gateway.client import commands, hook_request
from tests.client.approving import ASK, SIGNER
from tests.client.scripted import Script, scripted
from tests.signals import handlers_kept


@pytest.fixture
def _signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the handlers back that the command replaces, and pause shortly."""
    monkeypatch.setattr(hook_request, "_PAUSE_SECONDS", 0.01)
    with handlers_kept():
        yield


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, _signals: None) -> Callable[..., tuple[int, list[str]]]:
    """Return what runs the command against scripted answers: its exit code and the paths called."""

    def run(*answers: Script, words: tuple[str, ...] = ASK) -> tuple[int, list[str]]:
        with scripted(*answers) as server:
            monkeypatch.setenv("GATEWAY_URL", server.url)
            monkeypatch.setenv("GATEWAY_TOKEN", "token")
            code = commands.main(words)
            return code, [call.split(b" ")[1].decode() for call in server.calls]

    monkeypatch.setenv("GATEWAY_PUBLIC_KEY", SIGNER.public_key)
    return run


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], bytes]:
    """Return what lets an hour pass on the command's own clock before an answer is given."""
    late = [0.0]

    def after(reply: bytes) -> bytes:
        late[0] += 3600.0
        return reply

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late[0], sleep=lambda _: None)
    monkeypatch.setattr(commands, "time", clock)
    monkeypatch.setattr(hook_request, "time", clock)
    return after
