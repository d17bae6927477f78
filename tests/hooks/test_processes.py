"""The processes in which hooks run."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from gateway.policy.hooks import Hook, HookProcess
from tests.hooks.stage import PUPPET, QUICK, hook
from tests.waiting import moment


async def test_a_hook_that_ended_is_started_again() -> None:
    """A new process answers; until then asking fails, it does not hang."""
    process = HookProcess("puppet", hook(timeout=5))
    async with process.running():
        await process.ready.wait()
        first = process.pid
        with pytest.raises(Exception, match="no answer"):
            await process.ask("hook.approve_tool", {"arguments": {"all": {"die": True}}})
        answer = await process.ask("hook.approve_tool", {"arguments": {}})
        assert answer == {"approved": True}
        assert process.pid not in (None, first)


async def test_a_hook_without_hello_is_never_asked() -> None:
    """It is not taken for ready, and asking fails in time."""
    process = HookProcess("puppet", hook(timeout=QUICK, env={"MUTE": "1"}))
    async with process.running():
        with pytest.raises(Exception, match="did not answer in time"):
            await process.ask("hook.approve_tool", {"arguments": {}})


async def test_leaving_ends_the_process_and_its_children(tmp_path: Path) -> None:
    """Nothing stays behind, also when a hook starts children and ignores signals."""
    code = (
        "import subprocess, sys, signal, os\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"exec(open({str(PUPPET)!r}).read())\n"
    )
    process = HookProcess("stubborn", Hook(command=(sys.executable, "-c", code)))
    async with process.running():
        await process.ready.wait()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    async with asyncio.timeout(40):
        while any(map(alive, pids)):
            await moment()


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be counted does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
