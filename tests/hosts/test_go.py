"""The Go provider of `examples/go`: compiled, and run against a real gateway."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, Replica
from tests.frame.tree import ROOT

EXAMPLE = ROOT / "examples" / "go"
HOST = ROOT / "build" / "hosts" / "go"
LONGEST_PROVIDER = 150


@pytest.fixture
def go() -> Path:
    """Return the toolchain that `make test-hosts` installed."""
    found = HOST / "bin" / "go"
    if not found.exists():
        pytest.skip("no Go toolchain: make test-hosts installs it")
    return found


async def run(go: Path, *words: str, **more: str) -> tuple[int | None, str]:
    """Run the toolchain in the example, offline; return its exit code and what it printed."""
    env = {
        **os.environ,
        "GOCACHE": str(HOST / "cache"),
        "GOTOOLCHAIN": "local",
        "GOPROXY": "off",
        **more,
    }
    process = await asyncio.create_subprocess_exec(
        str(go), *words, cwd=EXAMPLE, env=env,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@pytest.mark.hosts
@pytest.mark.timeout(600)  # the first run compiles the standard library
async def test_the_go_provider_against_a_real_gateway(go: Path, gate: Replica) -> None:
    """Every Go test runs and passes: none fails, none is skipped, none is left out."""
    assert await run(go, "vet", "./...") == (0, "")
    code, said = await run(
        go, "test", "-json", "-count=1", "-timeout=40s", "./approval",
        GATEWAY_URL=gate.url, GATEWAY_TOKEN=AGENT_TOKEN, APPROVER_TOKEN=ANN_TOKEN,
    )  # fmt: skip
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    ended = {
        event["Test"]: event["Action"]
        for event in events
        if "Test" in event and event["Action"] in ("pass", "fail", "skip")
    }
    text = (EXAMPLE / "approval" / "approval_test.go").read_text()
    words = "".join(event.get("Output", "") for event in events)
    assert ended == dict.fromkeys(re.findall(r"^func (Test\w+)", text, re.MULTILINE), "pass"), words
    assert code == 0


def test_the_provider_is_short_and_needs_the_standard_library_alone() -> None:
    """A reader can judge all of it, and nothing else comes with it."""
    provider = EXAMPLE / "approval" / "approval.go"
    assert len(provider.read_text().splitlines()) < LONGEST_PROVIDER
    for path in EXAMPLE.rglob("*.go"):
        imported = re.findall(r'^(?:import)?\s+"([^"]+)"$', path.read_text(), re.MULTILINE)
        assert imported, path
        assert {name for name in imported if "." in name.partition("/")[0]} <= {
            "approvals.example/agent",
            "approvals.example/agent/tool",
            "approvals.example/agent/types",
            "approvals.example/approval",
        }
    assert "require" not in (EXAMPLE / "go.mod").read_text()
