"""schemathesis holds the OpenAPI document against the server, with an agent's and an approver's
token: valid messages are taken, others are refused, and answers look as the document says."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.api.app import SERVICES
from tests.api.replica import AGENT_TOKEN, ANN_TOKEN, POLICY, Replica

pytestmark = pytest.mark.thorough

HERE = Path(__file__).parent
TOKENS = {"agent": AGENT_TOKEN, "approver": ANN_TOKEN}
SCHEMATHESIS = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
SEED = "20261123"
# The stream of events never ends, so its answer cannot be held against a schema.
_ENDLESS = "/v1/events"


async def run_schemathesis(gate: Replica, token: str, folder: Path, *options: str) -> str:
    """Run schemathesis in a folder against a replica; return what it printed, once it passed."""
    assert SCHEMATHESIS is not None, "schemathesis is not installed"
    ann, *others = POLICY.people
    people = (replace(ann, admin=True), *others)
    await gate.store.apply(replace(POLICY, people=people, generation=1), by="test")
    gate.app[SERVICES].access.limit.most = 10**9  # it sends bad tokens too
    found = await asyncio.create_subprocess_exec(
        SCHEMATHESIS, "--config-file", str(HERE / "schemathesis.toml"),
        "run", f"{gate.url}/v1/openapi.json", "-H", f"Authorization: Bearer {token}",
        "--exclude-path", _ENDLESS, "--seed", SEED, "--generation-database", "none",
        "--request-timeout", "30", *options,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.api.schemathesis_hooks", "NO_COLOR": "1",
             "PYTHONPATH": str(HERE.parents[1])},
        cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await found.communicate()
    printed = said.decode()
    assert found.returncode == 0, printed
    return printed


@pytest.mark.parametrize("who", TOKENS)
async def test_the_document_says_what_the_server_does(
    gate: Replica, who: str, tmp_path: Path
) -> None:
    """A few messages for each operation, right and wrong ones."""
    printed = await run_schemathesis(gate, TOKENS[who], tmp_path, "--phases", "fuzzing", "-n", "4")
    assert _passed(printed) > 100, printed


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("who", TOKENS)
async def test_the_document_says_what_the_server_does_at_length(
    gate: Replica, who: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every keyword of every schema met and broken, and many messages made by chance."""
    options = ("--phases", "examples,coverage,fuzzing", "-n", "200")
    printed = await run_schemathesis(gate, TOKENS[who], tmp_path, *options)
    with capsys.disabled():
        sys.stdout.write(f"\n{who}: {_passed(printed)} messages, seed {SEED}\n")
    assert _passed(printed) > 5000, printed


def _passed(printed: str) -> int:
    """Return how many messages were sent, all of which passed."""
    counted = re.search(r"(\d+) generated, (\d+) passed", printed)
    assert counted is not None, printed
    return int(counted[2])
