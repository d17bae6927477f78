"""A real gateway for the pages whose commands are run as a reader would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run `gateway up` in a scratch folder; yield the environment of all terminals."""
    state = tmp_path_factory.mktemp("tutorial") / "state"
    env = {**os.environ, "GATEWAY_DATA_DIR": str(state), "GATEWAY_PORT": "0"}
    env["GATEWAY_DENIAL_MINUTES"] = "0"  # every page asks the same, and answers it anew
    command = [sys.executable, "-m", "gateway.cli", "up"]
    gateway = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    assert gateway.stderr is not None
    while "Answer in the browser" not in (line := gateway.stderr.readline()):
        assert line
    yield env
    gateway.terminate()
    gateway.communicate(timeout=20)
