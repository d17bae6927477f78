"""The cost of taking in a request: with one registered agent, with a thousand, and with a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic_ns, process_time_ns

from benchmarks.children import Child, child
from benchmarks.stage import Stage, stage, until_pending
from benchmarks.table import Row, p50

_AGENTS = 1000
_ROUNDS = 6
_BURST = 500
_FILE_BYTES = 8192
_FILES = 100
_US = 1000


@dataclass(slots=True)
class Traffic:
    """One kind of traffic, and its time per request in ns."""

    scene: Stage
    namespace: str
    agents: list[str]
    file_bytes: int = 0
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


async def intake() -> list[Row]:
    """Submit bursts to two gateways on one server, in turns."""
    async with stage() as small, stage(small.redis_url, "many") as large:
        names = [f"agent-{number}" for number in range(_AGENTS)]
        await small.gateway.backend.credentials.add_agent(names[0])
        for name in names:
            await large.gateway.backend.credentials.add_agent(name)
        traffics = [
            Traffic(small, "gw", names[:1]),
            Traffic(large, "many", names[:1]),
            Traffic(large, "many", names),
            Traffic(small, "gw", names[:1], _FILE_BYTES),
        ]
        async with child("benchmarks.flood", small.redis_url) as writer:
            for number in range(_ROUNDS + 1):
                for traffic in traffics:
                    await _burst(traffic, writer, kept=number > 0)
    return [_row(*traffics[:3]), _file_row(traffics[0], traffics[3])]


async def _burst(traffic: Traffic, writer: Child, *, kept: bool) -> None:
    """Let one burst be taken in; record its CPU time (gateway and server) and wall time."""
    store = traffic.scene.gateway.backend.store
    burst = _FILES if traffic.file_bytes else _BURST
    wanted = await store.count_pending() + burst
    details = {"namespace": traffic.namespace, "agents": traffic.agents, "count": burst}
    cpu, wall = await _cpu(traffic.scene), monotonic_ns()
    await writer.call("submit", **details, file_bytes=traffic.file_bytes)
    await until_pending(store, wanted)
    if kept:
        traffic.wall.append((monotonic_ns() - wall) / burst)
        traffic.cpu.append((await _cpu(traffic.scene) - cpu) / burst)
    traffic.agents = traffic.agents[_BURST:] + traffic.agents[:_BURST]


async def _cpu(scene: Stage) -> float:
    """Return the ns of processor time that this process and the server have used."""
    used = await scene.gateway.backend.store.redis.info("cpu")
    server = float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
    return process_time_ns() + server * 1e9


def _row(one: Traffic, same: Traffic, spread: Traffic) -> Row:
    """Return the row of the costlier traffic: every request from another agent."""
    return Row(
        name="intake_1000_agents_ratio",
        value=p50(spread.cpu) / p50(one.cpu),
        unit="ratio of CPU",
        target="<= 2",
        samples={
            "rounds": _ROUNDS,
            "burst": _BURST,
            "one_us": p50(one.cpu) / _US,
            "spread_us": p50(spread.cpu) / _US,
            "one_of_1000_ratio": p50(same.cpu) / p50(one.cpu),
            "wall_ratio": p50(spread.wall) / p50(one.wall),
            "wall_one_us": p50(one.wall) / _US,
        },
    )


def _file_row(one: Traffic, file: Traffic) -> Row:
    """Return what the text of a file costs, which is searched for secrets, beside a short call."""
    return Row(
        name="intake_8kb_file_ratio",
        value=p50(file.cpu) / p50(one.cpu),
        unit="ratio of CPU",
        target="<= 5",
        samples={"rounds": _ROUNDS, "burst": _FILES, "file_us": p50(file.cpu) / _US},
    )
