"""What `gateway up` does for itself before it serves."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cli.test_adapters import install

pytestmark = pytest.mark.thorough

HANGING = """
import asyncio
import sys
from contextlib import asynccontextmanager
from gateway.ports import Adapter

class Hanging(Adapter):
    posts = False
    name = "hanging"

    @asynccontextmanager
    async def run(self, api):
        print("it hangs", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
        yield
"""

STUBBORN = """
import asyncio
import os
import sys
from contextlib import asynccontextmanager
from gateway.ports import Adapter

class Stubborn(Adapter):
    posts = False
    name = "hanging"

    @asynccontextmanager
    async def run(self, api):
        try:
            if "HANGS" in os.environ:
                print("it hangs", file=sys.stderr, flush=True)
                await asyncio.Event().wait()
            yield
        finally:
            print("it cleans up", file=sys.stderr, flush=True)
            await asyncio.Event().wait()
"""


def test_it_may_open_more_files_than_systems_begin_with(shell: Shell) -> None:
    """Otherwise a thousand waiting agents would leave no connection for a click."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"ulimit -Sn 200; exec {sys.executable} -m gateway.cli up"],
        env=shell.env,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "embedded server runs" in process.stderr.readline()
    limits = Path(f"/proc/{process.pid}/limits").read_text(encoding="utf-8")
    row = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    process.terminate()
    process.communicate(timeout=20)
    assert int(row.split()[3]) == (16_384 if hard == resource.RLIM_INFINITY else min(hard, 16_384))


@pytest.mark.parametrize("command", [("up",), ("adapter", "hanging")])
def test_a_start_that_takes_long_is_given_up_when_it_is_told_to(
    up: Shell, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Ctrl-C ends it at once, and in words."""
    site = tmp_path / "site"
    install(site, "hanging", HANGING, {"hanging": "hanging:Hanging"})
    env = {"PYTHONPATH": str(site), "GATEWAY_ADAPTERS": '["hanging"]'}
    if command == ("up",):
        env["GATEWAY_DATA_DIR"] = str(tmp_path / "other")
    process = up.popen(*command, env=env)
    assert process.stderr is not None
    line = ""
    while "it hangs" not in line:
        line = process.stderr.readline()
        assert line
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "The gateway stopped before it was ready" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("seen", ["it hangs", "The gateway is ready"])
def test_cleaning_up_that_hangs_is_cut_short_when_it_is_told_again(
    shell: Shell, tmp_path: Path, seen: str
) -> None:
    """A second signal ends that step, in a start that is given up and after serving; what comes
    after it is cleaned up all the same."""
    site = tmp_path / "site"
    install(site, "hanging", STUBBORN, {"hanging": "hanging:Stubborn"})
    env = {"PYTHONPATH": str(site), "GATEWAY_ADAPTERS": '["hanging"]'}
    process = shell.popen("up", env={**env, "HANGS": "yes"} if seen == "it hangs" else env)
    assert process.stderr is not None
    for awaited, number in ((seen, signal.SIGINT), ("it cleans up", signal.SIGTERM)):
        line = ""
        while awaited not in line:
            line = process.stderr.readline()
            assert line
        process.send_signal(number)
    try:
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "stopped" in said.lower()
    assert "Traceback" not in said
    assert not (Path(shell.env["GATEWAY_DATA_DIR"]) / "gateway.json").exists()
