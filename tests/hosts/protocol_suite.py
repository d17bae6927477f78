"""What each adapter of the Agent Approval Protocol's client must do with an answer, unchanged: the
test of a framework inherits these, with a program that has the model call `remove` once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from gateway.models import Execution
from tests.api.replica import Replica
from tests.hosts.conftest import Answer, environment, run

Start = Callable[..., asyncio.Task[tuple[int, str]]]
"""Starts a program in the host's own environment; its result is the exit code and what it said."""

COMMON = """
import json, os
URL, TOKEN = os.environ["GATEWAY_URL"] + "/aap", os.environ["GATEWAY_TOKEN"]
ran = []

def remove(path: str) -> str:
    "Remove a file."
    ran.append(path)
    return f"removed {path}"
"""

RAN = "\nprint('ran', json.dumps(ran))\n"


def starter(gate: Replica, installed: Path, folder: Path) -> Start:
    """Return what starts a program."""

    def start(program: str, **more: str) -> asyncio.Task[tuple[int, str]]:
        env = environment(gate, folder, **more)
        words = (str(installed / "bin" / "python"), "-W", "ignore", "-c", COMMON + program + RAN)
        return asyncio.create_task(run(*words, env=env, cwd=folder))

    return start


class ProtocolSuite:
    """Approved and denied."""

    program: ClassVar[str]

    @pytest.fixture
    def start(self, gate: Replica, installed: Path, tmp_path: Path) -> Start:
        """Return what starts a program."""
        return starter(gate, installed, tmp_path)

    async def test_an_approved_call_runs_once(
        self, start: Start, gate: Replica, answer: Answer
    ) -> None:
        """The model reads what came of it; that it succeeded is on the record."""
        ends = start(self.program)
        record = await answer()
        code, said = await ends
        assert code == 0, said
        assert 'ran ["a"]' in said
        assert "removed a" in said
        assert (record.request.tool, record.request.arguments) == ("remove", {"path": "a"})
        kept = await gate.store.load(record.id)
        assert kept is not None and kept.report is not None
        assert kept.report.execution is Execution.SUCCEEDED
        assert len(kept.consumers) == 1

    async def test_a_denied_call_does_not_run(self, start: Start, answer: Answer) -> None:
        """The model reads that a reviewer denied it, with the words."""
        ends = start(self.program)
        await answer("deny", message="the other one")
        code, said = await ends
        assert code == 0, said
        assert "ran []" in said
        assert "the other one" in said
