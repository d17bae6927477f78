"""The Claude Agent SDK itself, with the hooks of the Agent Approval Protocol's published client."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.models import Execution
from tests.api.replica import Replica
from tests.frame.tree import ROOT
from tests.hosts.coding_models import coding_model
from tests.hosts.conftest import Answer, finish
from tests.hosts.test_claude_sdk import TOUCH, SdkAgent

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(120)]

HOOKED = ROOT / "tests" / "hosts" / "agents" / "claude_sdk_aap_agent.py"


@pytest.fixture
def agent(gate: Replica, installed: Path, tmp_path: Path) -> SdkAgent:
    """Return an agent with the client's hooks."""
    return SdkAgent(gate, installed, tmp_path, HOOKED)


async def test_an_approved_command_runs(agent: SdkAgent, gate: Replica, answer: Answer) -> None:
    """Once; that it succeeded is on the record."""
    async with coding_model(TOUCH) as model:
        said, record = await finish(agent.start(model), answer())
    assert (agent.work / "made").exists(), said
    assert (record.request.tool, record.request.arguments) == ("Bash", TOUCH.arguments)
    assert record.request.origin.framework == "agent-approval-protocol"
    kept = await gate.store.load(record.id)
    assert kept is not None and kept.report is not None
    assert kept.report.execution is Execution.SUCCEEDED
    assert len(kept.consumers) == 1


async def test_a_denial_reaches_the_model(agent: SdkAgent, answer: Answer) -> None:
    """With the person's words."""
    async with coding_model(TOUCH) as model:
        await finish(agent.start(model), answer("deny", message="not on a Friday"))
        assert "not on a Friday" in model.heard
    assert not (agent.work / "made").exists()
