"""Start-up time of whole processes, relative to `python -c pass`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic_ns
from urllib.parse import urlsplit

from benchmarks.stage import Stage, stage
from benchmarks.table import Row, p50

_ROUNDS = 25
_MS = 1_000_000

NOTHING = (sys.executable, "-c", "pass")
IMPORT = (sys.executable, "-c", "import gateway.client; gateway.client.AsyncClient")
_ASK = ("ask", "shell", "--", "true")
HOOK = (str(Path(sys.executable).with_name("gateway")), "hook", "claude-code", "--agent", "local")
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


async def hook_forms(scene: Stage) -> list[Row]:
    """Time Claude Code's hook for a call that a rule answers, as a command and by HTTP, in turns
    with nothing."""
    environment = {**os.environ, "GATEWAY_DATA_DIR": str(scene.folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as above
    agent = await scene.gateway.backend.credentials.add_agent("bench-hook")
    post = partial(_post, HTTPConnection(urlsplit(scene.gateway.url).netloc), agent.token)
    times: dict[str, list[int]] = {"nothing": [], "hook": [], "http": []}
    for number in range(_ROUNDS + 2):
        taken = {
            "nothing": await asyncio.to_thread(_run, NOTHING, environment),
            "hook": await asyncio.to_thread(_run, HOOK, environment, _call(f"t{number}")),
            "http": await asyncio.to_thread(post, _call(f"h{number}")),
        }
        if number >= 2:
            for name, elapsed in taken.items():
                times[name].append(elapsed)
    http = _ratio("hook_by_http_over_process", times, "http", "", floor="hook")
    return [_ratio("hook_process_ratio", times, "hook", ""), http]


def _call(call_id: str) -> bytes:
    """Return what Claude Code tells its hook of a call."""
    call = {
        "hook_event_name": "PreToolUse", "session_id": "bench", "cwd": "/srv",
        "tool_name": "shell", "tool_input": {"command": "true"}, "tool_use_id": call_id,
    }  # fmt: skip
    return json.dumps(call).encode()


def _post(connection: HTTPConnection, token: str, said: bytes) -> int:
    """Call the hook over a kept connection, as Claude Code does; return its ns."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    began = monotonic_ns()
    connection.request("POST", "/v1/hooks/claude-code", said, headers)
    answer = connection.getresponse().read()
    if b'"allow"' not in answer:
        raise RuntimeError(f"the hook did not approve: {answer!r}")
    return monotonic_ns() - began


def _run(command: Sequence[str], environment: dict[str, str], said: bytes | None = None) -> int:
    """Run a command that must succeed; return its ns."""
    began = monotonic_ns()
    done = subprocess.run(command, env=environment, check=True, input=said, capture_output=True)
    if said is not None and b'"allow"' not in done.stdout:
        raise RuntimeError(f"the hook did not approve: {done.stdout!r} {done.stderr!r}")
    return monotonic_ns() - began


def _ratio(
    name: str, times: dict[str, list[int]], which: str, target: str, floor: str = "nothing"
) -> Row:
    value, least = p50(times[which]), p50(times[floor])
    beside = "python" if floor == "nothing" else floor
    return Row(
        name=name,
        value=value / least,
        unit=f"of {beside}",
        target=target,
        samples={"count": _ROUNDS, "p50_ms": value / _MS, f"{beside}_ms": least / _MS},
    )
