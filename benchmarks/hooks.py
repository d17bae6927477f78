"""What asking costs a host: its hook with us, beside the same hook without us."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from benchmarks.floor import echo_entries
from benchmarks.processes import hook_forms
from benchmarks.stage import Stage, stage
from benchmarks.table import Row, p50, percentile
from benchmarks.wake import agent

_COUNT = 200
_US = 1000
_LONGEST_SECONDS = 120  # CrewAI alone takes ten to begin
_SCRIPT = Path(__file__).with_name("hook_calls.py")
_HOSTS = Path("build/hosts")
_NOTE = "not installed, so not timed: make test-hosts HOSTS={}\n"


async def hooks() -> list[Row]:
    """Time a hook in the process over Redis and HTTP, and each host's, with a rule's answer."""
    here = Path(sys.executable)
    async with stage() as scene, echo_entries(scene.redis_url), agent(scene) as asking:
        trips = (await asking.call("trips", count=_COUNT))["product"]
        http = await _over_http(scene)
        rows = [
            _row("hook_over_redis_ratio", await _time(scene, here, "hook"), trips, "<= 1.5"),
            _row("hook_over_http_ratio", await _time(scene, here, "hook", **http), trips),
            _row("decorated_over_redis_ratio", await _time(scene, here, "decorated"), trips),
            *await hook_forms(scene),
            _row("picoclaw_hook_ratio", await _time(scene, here, "picoclaw"), trips),
            _row("mcp_proxy_ratio", await _time(scene, here, "mcp"), trips),
        ]
        for host in ("gptme", "udspy"):
            if python := find_host(host):
                rows.append(_row(f"{host}_hook_ratio", await _time(scene, python, host), trips))
    return rows


def find_host(host: str) -> Path | None:
    """Return the interpreter of a host that is installed; say so where it is not."""
    if (_HOSTS / host / "installed").exists():
        return _HOSTS / host / "bin" / "python"
    sys.stderr.write(_NOTE.format(host))
    return None


async def _over_http(scene: Stage) -> dict[str, str]:
    """Return the environment of an agent that is told of HTTP alone."""
    token = await scene.gateway.backend.credentials.add_agent("bench-http")
    url = scene.gateway.url
    return {"GATEWAY_URL": url, "GATEWAY_TOKEN": token.token, "GATEWAY_AGENT": "bench-http"}


async def _time(scene: Stage, python: Path, host: str, **more: str) -> dict[str, list[int]]:
    return await time_in(python, _SCRIPT, host, _COUNT, scene, **more)


async def time_in(
    python: Path, script: Path, host: str, count: int, scene: Stage, **more: str
) -> dict[str, list[int]]:
    """Return the ns that a script printed, run by a host's own interpreter: with us, without."""
    environment = {**os.environ, "GATEWAY_DATA_DIR": str(scene.folder), **more}
    process = await asyncio.create_subprocess_exec(
        *(str(python), str(script), host, str(count)),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,  # gptme reads what it is given there to the end
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:  # it waits for a person, and nobody is there
            process.kill()
    if process.returncode:
        raise RuntimeError(f"the calls of {host} failed; the message is above")
    found: dict[str, list[int]] = json.loads(said.splitlines()[-1])
    return found


def _row(name: str, times: dict[str, list[int]], trips: list[int], target: str = "") -> Row:
    """Return a row over the round trip of a request that a rule answers, in the same run."""
    with_us, without, trip = times["with"], times["without"], p50(trips)
    slow = percentile(with_us, 99)
    return Row(
        name=name,
        value=p50(with_us) / trip,
        unit="of a rule's answer",
        target=target,
        p99=slow / trip,
        samples={
            "count": len(with_us),
            "p50_us": p50(with_us) / _US,
            "p99_us": slow / _US,
            "without_us": p50(without) / _US,
            "rule_us": trip / _US,
        },
    )
