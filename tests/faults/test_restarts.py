"""Orderly stops of the whole gateway under load: each is short, and no ask fails."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from gateway.client import AsyncClient
from gateway.client.config import load
from gateway.client.http_transport import HttpTransport
from gateway.client.redis_transport import RedisTransport
from gateway.errors import GatewayError
from tests.faults.test_kill import Machine
from tests.waiting import moment

SEED = int(os.environ.get("RESTARTS_SEED", "1"))
RESTARTS = int(os.environ.get("RESTARTS", "5"))
AGENTS = 12
MOST_SECONDS = 8.0
"""Generous: a busy machine is slow, and what this refuses took 10 seconds and more."""


class Load:
    """Agents that ask again and again over both transports, and a person who approves."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.asked: Counter[str] = Counter()
        self.failed: list[str] = []
        self.over = asyncio.Event()

    async def ask(self, client: AsyncClient, transport: str, number: int) -> None:
        """Ask until it is over; whatever ends without an approval has failed."""
        while not self.over.is_set():
            try:
                await client.ask("shell", {"number": number, "count": self.asked.total()})
            except GatewayError as error:
                self.failed.append(f"{transport}: {error!r}")
            self.asked[transport] += 1

    async def approve(self) -> None:
        """Approve what waits, while there is a gateway."""
        while True:
            try:
                page = await self.machine.call("GET", "/v1/requests?status=pending&limit=200")
                for item in page["items"]:
                    await self.machine.decide(item)
            except (GatewayError, OSError):
                await moment()
            await moment()


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_no_ask_fails_through_orderly_stops_under_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at random times and started again, with waits hanging over HTTP and Redis."""
    dice = random.Random(SEED)
    machine = Machine(tmp_path / "state")
    stops: list[float] = []
    await machine.start()
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(machine.folder))
    found = load("agent1")
    assert found.redis_url is not None
    over_http = HttpTransport(machine.found["url"], found.token or "", found.agent)
    over_redis = RedisTransport(found.redis_url, found.agent, found.namespace)
    load_ = Load(machine)
    async with AsyncClient(over_http) as http, AsyncClient(over_redis) as redis:
        person = asyncio.create_task(load_.approve())
        kinds = (("http", http), ("redis", redis))
        agents = [
            asyncio.create_task(load_.ask(client, name, number))
            for name, client in kinds
            for number in range(AGENTS)
        ]
        for _ in range(RESTARTS):
            before = load_.asked.total()
            until = time.monotonic() + dice.uniform(4, 12)
            while time.monotonic() < until or load_.asked.total() < before + AGENTS:
                await moment()
            assert machine.process is not None
            began = time.monotonic()
            machine.process.signal(signal.SIGTERM)
            assert await machine.process.ended() == 0, machine.process.said
            stops.append(time.monotonic() - began)
            await machine.start()
        load_.over.set()
        await asyncio.wait_for(asyncio.gather(*agents), 120)
        person.cancel()
    stops.sort()
    sys.stdout.write(
        f"seed {SEED}: {len(stops)} stops, median {stops[len(stops) // 2]:.2f} s, "
        f"longest {stops[-1]:.2f} s; asks {dict(load_.asked)}, failed {len(load_.failed)}\n"
    )
    assert not load_.failed
    assert stops[-1] < MOST_SECONDS
