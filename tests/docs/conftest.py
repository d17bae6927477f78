"""Real gateways for the pages whose commands are run as a reader would run them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tests.docs.documented import START
from tests.docs.reader import Reader, path_of_ours


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run `gateway up` in a scratch folder; yield the environment of all terminals."""
    with _started("gateway up", tmp_path_factory.mktemp("tutorial")) as env:
        yield env


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Start a gateway as the page says that starts one; yield somebody who types beside it."""
    folder = tmp_path_factory.mktemp("reader")
    with _started(START, folder) as env:
        yield Reader(env, folder)


@contextmanager
def _started(command: str, folder: Path) -> Iterator[dict[str, str]]:
    env = {**os.environ, "GATEWAY_DATA_DIR": str(folder / "state"), "GATEWAY_PORT": "0"}
    env["GATEWAY_DENIAL_MINUTES"] = "0"  # every page asks the same, and answers it anew
    env["PATH"] = path_of_ours()
    words = ["sh", "-c", f"exec env {command}"]
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as gateway:
        assert gateway.stderr is not None
        while "Answer in the browser" not in (line := gateway.stderr.readline()):
            assert line
        # A full pipe would hold the gateway up.
        draining = Thread(target=gateway.stderr.read)
        draining.start()
        yield env
        gateway.terminate()
        draining.join(timeout=20)
    assert gateway.returncode == 0
