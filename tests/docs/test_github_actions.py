"""The GitHub Actions example: its steps run as they are printed, in order, as a runner does."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from gateway.stores.embedded_server import running_engine
from gateway.wire.signatures import Signer
from tests.api.replica import AGENT_TOKEN, POLICY, SEED, Replica, replica
from tests.frame.tree import ROOT

pytestmark = pytest.mark.thorough

EXAMPLE = ROOT / "examples" / "github-actions" / "deploy.yml"
SCRIPT = "#!/bin/sh\necho $1 >> deployed\n"


@pytest_asyncio.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Replica]:
    """A gateway under which Ann approves."""
    async with running_engine(tmp_path / "engine") as engine, replica(engine.url, "gw") as one:
        await one.store.apply(POLICY, by="test")
        yield one


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a runner begins with: Python, `pip`, and the agent's wheel in `wheels/`. What that needs
    is there already, since a test has no package index."""
    folder = tmp_path_factory.mktemp("image")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d"]
    wheels, project = str(folder / "wheels"), ROOT / "packaging" / "agent"
    subprocess.run([*build, wheels], cwd=project, check=True, capture_output=True)
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = venv / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {shlex.quote(str(venv / "bin" / "python"))} -m pip "$@"\n')
    pip.chmod(0o755)
    return folder


class Runner:
    """Runs the steps of a job as a runner does: `bash -e`, expressions filled in, outputs kept."""

    def __init__(self, gate: Replica, folder: Path, image: Path) -> None:
        self._folder = folder
        self._bin = image / "venv" / "bin"
        (folder / "wheels").symlink_to(image / "wheels")
        self._workflow: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
        self.outputs: dict[str, str] = {}
        self._known = {
            "vars.GATEWAY_URL": gate.url,
            "vars.GATEWAY_PUBLIC_KEY": Signer(SEED).public_key,
            "secrets.GATEWAY_TOKEN": AGENT_TOKEN,
        }
        (folder / "deploy.sh").write_text(SCRIPT)
        (folder / "deploy.sh").chmod(0o755)
        (folder / "deploy.toml").write_text("replicas = 2\n")

    async def run(self, job: str) -> list[int]:
        """Run every step of a job but actions of others; return their exit codes."""
        made = self._workflow["jobs"][job]
        codes = [await self._step(one) for one in made["steps"] if "run" in one]
        for name, value in made.get("outputs", {}).items():
            self.outputs[f"needs.{job}.outputs.{name}"] = self._fill(value)
        return codes

    async def _step(self, step: dict[str, Any]) -> int:
        told = self._folder / "output"
        told.write_text("")
        env = {name: self._fill(value) for name, value in self._workflow["env"].items()}
        env |= {
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}", "HOME": str(self._folder),
            "GITHUB_OUTPUT": str(told), "GITHUB_SHA": "0a1b2c", "GITHUB_RUN_ID": "7",
            "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }  # fmt: skip
        env["GATEWAY_AGENT"] = "agent1"  # whom the test's token is
        process = await asyncio.create_subprocess_exec(
            "bash", "-e", "-o", "pipefail", "-c", self._fill(step["run"]),
            cwd=self._folder, env=env, stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        code = await process.wait()
        for line in told.read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"steps.{step['id']}.outputs.{name}"] = value
        return code

    def _fill(self, text: str) -> str:
        known = self._known | self.outputs
        return re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda match: known[match[1]], text)

    @property
    def deployed(self) -> list[str]:
        """What the script was run for."""
        path = self._folder / "deployed"
        return path.read_text().split() if path.exists() else []


async def answer(gate: Replica, action: str) -> None:
    """Have Ann answer what waits next."""
    waiting = await gate.waiting()
    assert (await gate.decided(waiting[0].id, action)).status == 200


async def test_a_job_that_waits_runs_what_was_approved(
    gate: Replica, image: Path, tmp_path: Path
) -> None:
    """Approved, it deploys; denied, the job fails and nothing was run."""
    runner = Runner(gate, tmp_path, image)
    job = asyncio.create_task(runner.run("deploy"))
    await answer(gate, "approve")
    assert await job == [0, 0]
    assert runner.deployed == ["production"]
    (tmp_path / "deployed").unlink()
    (tmp_path / "deploy.toml").write_text("replicas = 3\n")
    job = asyncio.create_task(runner.run("deploy"))
    await answer(gate, "deny")
    assert await job == [0, 121]
    assert runner.deployed == []


async def test_a_job_that_comes_later_takes_the_answer_once(
    gate: Replica, image: Path, tmp_path: Path
) -> None:
    """The first job ends while the request waits; the second deploys; run again, it does not."""
    runner = Runner(gate, tmp_path, image)
    assert await runner.run("ask") == [0, 0]
    await answer(gate, "approve")
    assert await runner.run("deploy-later") == [0, 0]
    assert await runner.run("deploy-later") == [0, 1]
    assert runner.deployed == ["staging"]


def test_every_job_of_the_example_is_run_here() -> None:
    """A new one needs a test; of its steps only what actions of others do is left out."""
    workflow = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    assert set(workflow["jobs"]) == {"deploy", "ask", "deploy-later"}
    steps = [one for job in workflow["jobs"].values() for one in job["steps"]]
    assert {one["uses"] for one in steps if "run" not in one} == {"actions/checkout@v5"}
