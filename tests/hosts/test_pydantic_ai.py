"""Pydantic AI itself, as it is published, with its own function model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.api.replica import Replica
from tests.hosts.conftest import Answer, environment, run
from tests.hosts.framework_suite import KeptStateSuite, PausingSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

ASKING = """
import asyncio
from pydantic_ai import (
    Agent, ApprovalRequired, CallDeferred, DeferredToolRequests, ModelResponse, RunContext,
    TextPart, ToolCallPart, ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel
from gateway.integrations.frameworks.pydantic_ai import DeferredTools

def say(messages, info):
    told = [p.content for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
    if told:
        return ModelResponse(parts=[TextPart(str(told))])
    return ModelResponse(parts=[ToolCallPart("pay", {"amount": 500}, "c1")])

def agent(**more):
    return Agent(FunctionModel(say), **more)
"""
FROM_WITHIN = """
one = agent(capabilities=[DeferredTools(timeout=100).inline()])
@one.tool
def pay(ctx: RunContext, amount: int) -> str:
    if amount > 100 and not ctx.tool_call_approved:
        raise ApprovalRequired(metadata={"limit": 100})
    return f"paid {amount}: {sorted(ctx.tool_call_metadata)}"
async def main():
    async with one.iter("pay") as steps:
        async for step in steps:
            pass
    print(steps.result.output)
asyncio.run(main())
"""
ELSEWHERE = """
one = agent(output_type=[str, DeferredToolRequests], capabilities=[DeferredTools().inline()])
@one.tool_plain
def pay(amount: int) -> str:
    raise CallDeferred()
print(type(one.run_sync("pay").output).__name__)
try:
    print(asyncio.run(DeferredTools().begin(one, "pay")))
except Exception as error:
    print(type(error).__name__, error)
"""


class TestPydanticAi(KeptStateSuite, PausingSuite):
    """Deferred tools, within the run and paused."""

    name = "pydantic_ai"
    framework = "pydantic-ai-slim 2.68.0"


async def _run(gate: Replica, installed: Path, folder: Path, code: str) -> list[str]:
    env = environment(gate, folder)
    python = str(installed / "bin" / "python")
    code_, said = await run(python, "-c", ASKING + code, env=env, cwd=folder)
    assert code_ == 0, said
    return said.strip().splitlines()


async def test_a_tool_that_asks_from_within_says_why(
    gate: Replica, installed: Path, tmp_path: Path, answer: Answer
) -> None:
    """Its metadata is the hint, and it learns which request approved it."""
    running = asyncio.create_task(_run(gate, installed, tmp_path, FROM_WITHIN))
    record = await answer()
    assert "paid 500: ['request_id']" in (await running)[-1]
    assert (record.request.hint, record.request.timeout) == ("limit: 100", 100.0)


async def test_a_call_that_runs_elsewhere_is_nobodys_to_approve(
    gate: Replica, installed: Path, tmp_path: Path
) -> None:
    """Within the run it is left to others; a paused run says so."""
    first, second = await _run(gate, installed, tmp_path, ELSEWHERE)
    assert first == "DeferredToolRequests"
    assert second.startswith("GatewayError the run has external calls")
