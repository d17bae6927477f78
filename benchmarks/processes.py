"""Start-up time of whole processes, relative to `python -c pass`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic_ns

from benchmarks.stage import stage
from benchmarks.table import Row, p50

_ROUNDS = 25
_MS = 1_000_000

NOTHING = (sys.executable, "-c", "pass")
IMPORT = (sys.executable, "-c", "import gateway.client; gateway.client.AsyncClient")
_ASK = ("ask", "shell", "--", "true")
SCRIPT = (str(Path(sys.executable).with_name("gateway")), *_ASK)
MODULE = (sys.executable, "-m", "gateway.cli", *_ASK)


async def start_up() -> list[Row]:
    """Time the import of the client and a rule-decided `gateway ask`, in turns with nothing."""
    commands = {"nothing": NOTHING, "import": IMPORT, "ask": SCRIPT, "module": MODULE}
    times: dict[str, list[int]] = {name: [] for name in commands}
    async with stage() as scene:
        environment = {**os.environ, "GATEWAY_DATA_DIR": str(scene.folder)}
        # The two warm-up rounds leave bytecode behind, as installing does.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(_ROUNDS + 2):
            for name, command in commands.items():
                elapsed = await asyncio.to_thread(_run, command, environment)
                if number >= 2:
                    times[name].append(elapsed)
    return [
        _ratio("client_import_ratio", times, "import", "<= 8"),
        _ratio("ask_overhead_ratio", times, "ask", "<= 4.2"),
        _ratio("ask_as_module_ratio", times, "module", ""),
    ]


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command that must succeed; return its ns."""
    began = monotonic_ns()
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    return monotonic_ns() - began


def _ratio(name: str, times: dict[str, list[int]], which: str, target: str) -> Row:
    value, floor = p50(times[which]), p50(times["nothing"])
    return Row(
        name=name,
        value=value / floor,
        unit="of python",
        target=target,
        samples={"count": _ROUNDS, "p50_ms": value / _MS, "python_ms": floor / _MS},
    )
