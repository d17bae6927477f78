"""What asking costs a run of each agent framework: one gated call, beside the same run ungated."""

from __future__ import annotations

from pathlib import Path

from benchmarks.floor import echo_entries
from benchmarks.hooks import find_host, time_in
from benchmarks.stage import stage
from benchmarks.table import Row, p50, percentile
from benchmarks.wake import agent

_COUNT = 60
_MS = 1_000_000
_SCRIPT = Path(__file__).with_name("framework_runs.py")
_FRAMEWORKS = (
    "pydantic-ai",
    "langchain",
    "openai-agents",
    "crewai",
    "ag2",
    "agent-framework",
    "smolagents",
    "google-adk",
)


async def frameworks() -> list[Row]:
    """Time runs of the frameworks that are installed, with a rule's answer, over Redis."""
    rows = []
    async with stage() as scene, echo_entries(scene.redis_url), agent(scene) as asking:
        for name in _FRAMEWORKS:
            if python := find_host(name):
                trip = p50((await asking.call("trips", count=_COUNT))["product"])
                times = await time_in(python, _SCRIPT, name, _COUNT, scene)
                rows.append(_row(name, times["with"], times["without"], trip))
    return rows


def _row(name: str, gated: list[int], ungated: list[int], trip: float) -> Row:
    """Return a row over the same run ungated; a rule's answer was timed just before."""
    # One after the other they ran at the same speed of the machine.
    added = p50(one - other for one, other in zip(gated, ungated, strict=True))
    return Row(
        name=f"{name.replace('-', '_')}_run_ratio",
        value=p50(gated) / p50(ungated),
        unit="of a run",
        p99=percentile(gated, 99) / p50(ungated),
        samples={
            "count": len(gated),
            "gated_ms": p50(gated) / _MS,
            "ungated_ms": p50(ungated) / _MS,
            "added_ms": added / _MS,
            "rule_ms": trip / _MS,
            "added_over_rule": added / trip,
        },
    )
