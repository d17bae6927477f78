"""kill -9 of the whole gateway, its server included: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.client import AsyncClient
from gateway.client.approval import Approval
from gateway.client.config import AgentConfig, load
from gateway.client.http_connection import HttpPool
from gateway.client.http_transport import HttpTransport
from gateway.client.redis_transport import RedisTransport
from gateway.client.transport import Transport
from gateway.domain.audit import verify
from gateway.errors import Expired, GatewayError
from gateway.models import Status, new_id
from gateway.wire.codec import plain
from tests.faults.processes import Command
from tests.ports import free_port
from tests.world import request


class Machine:
    """One state folder, and the gateway process that runs on it or does not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = str(free_port())
        self.env = {**os.environ, "GATEWAY_DATA_DIR": str(folder), "GATEWAY_PORT": port}
        self.process: Command | None = None

    async def start(self) -> None:
        """Run `gateway up` until it is ready, on the port of this machine."""
        self.process = self.run("up")
        await self.process.until_said("Answer in the browser", "gateway login")

    async def kill(self) -> None:
        """kill -9 the gateway; its server goes with it."""
        assert self.process is not None
        self.process.signal(signal.SIGKILL)
        assert await self.process.ended() == -signal.SIGKILL

    def run(self, *words: str) -> Command:
        """Start a command of the gateway."""
        return Command(self.env, self.folder.with_name(f"said-{new_id()}"), *words)

    async def answer(self, *words: str) -> str:
        """Run a command to its end; return what it printed."""
        process = self.run(*words)
        assert await process.ended() == 0, process.said
        return process.printed

    @property
    def found(self) -> Any:
        """The discovery file."""
        return json.loads((self.folder / "gateway.json").read_text(encoding="utf-8"))

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API as the owner."""
        owner = json.loads((self.folder / "approver.json").read_text(encoding="utf-8"))
        with HttpPool(self.found["url"], owner["token"]) as http:
            return await asyncio.to_thread(http.call, method, path, body)

    async def pending(self) -> list[Any]:
        """Return what waits, once something does."""
        while True:
            page = await self.call("GET", "/v1/requests?status=pending")
            if page["items"]:
                items: list[Any] = page["items"]
                return items

    async def decide(self, record: Any, action: str = "approve") -> None:
        """Decide as the owner."""
        body = {"revision": record["revision"], "action": action, "nonce": new_id()}
        path = f"/v1/requests/{record['request']['id']}/decide"
        await self.call("POST", path, body)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """Yield a machine whose gateway runs."""
    made = Machine(tmp_path / "state")
    await made.start()
    yield made
    assert made.process is not None
    if made.process.lives:
        made.process.signal(signal.SIGTERM)
        await made.process.ended()


def transports(found: AgentConfig) -> dict[str, Transport]:
    """Return both ways to ask."""
    return {
        "redis": RedisTransport(found.redis_url or "", found.agent),
        "http": HttpTransport(found.url or "", found.token or "", found.agent),
    }


@pytest.fixture
def config(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> AgentConfig:
    """Enrol the agent `local`."""
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(machine.folder))
    return load()


@pytest.mark.parametrize("way", ["redis", "http"])
@pytest.mark.parametrize("moment", ["pending", "decided"])
async def test_a_waiter_survives_the_death_of_gateway_and_server(
    machine: Machine, config: AgentConfig, way: str, moment: str
) -> None:
    """Killed while it waits, or right after the click: one decision, and it arrives."""
    async with AsyncClient(transports(config)[way], public_key=config.public_key) as client:
        asking = asyncio.create_task(client.ask("shell", {"command": "ls"}, timeout=60))
        record = (await machine.pending())[0]
        if moment == "pending":
            await machine.kill()
            await machine.start()
            record = (await machine.pending())[0]
            await machine.decide(record)
        else:
            await machine.decide(record)
            await machine.kill()
            await machine.start()
        approval: Approval = await asking
    assert approval.decision.status is Status.APPROVED
    assert approval.request.id == record["request"]["id"]
    lines = (await machine.answer("audit", "export", "-")).splitlines()
    found = verify(lines)
    assert found.problems == []
    assert sum('"approved"' in line for line in lines) == 1


async def test_a_batch_that_is_cut_off_decided_all_or_none(
    machine: Machine, config: AgentConfig
) -> None:
    """Killed with its server at some moment of a batch; sent again, it is the same batch."""
    for moment in range(2):
        with HttpPool(config.url or "", config.token or "") as http:
            for number in range(30):
                made = plain(request(agent=config.agent, arguments={"n": [moment, number]}))
                body = {"request": made, "detached": True}
                await asyncio.to_thread(http.call, "POST", "/v1/requests", body)
        waiting = await machine.pending()
        items = [{"id": one["request"]["id"], "revision": one["revision"]} for one in waiting]
        batch = {"action": "approve", "items": items, "nonce": new_id()}
        sending = asyncio.create_task(machine.call("POST", "/v1/batches", batch))
        while moment and (await machine.call("GET", "/v1/requests?status=pending"))["items"]:
            pass  # the second time it dies when the batch was just applied
        await machine.kill()
        await asyncio.gather(sending, return_exceptions=True)
        await machine.start()
        page = await machine.call("GET", "/v1/requests?status=pending&limit=100")
        assert len(page["items"]) in (0, len(items))
        again = await machine.call("POST", "/v1/batches", batch)
        assert [one["status"] for one in again["items"]] == ["approved"] * 30
    lines = (await machine.answer("audit", "export", "-")).splitlines()
    assert verify(lines).problems == []
    assert sum('"type": "approved"' in line for line in lines) == 2 * 30


async def test_asked_while_no_gateway_runs_and_read_when_one_does(
    machine: Machine, config: AgentConfig
) -> None:
    """The request is sent again until someone takes it in; it is one request."""
    await machine.kill()
    async with AsyncClient(transports(config)["redis"]) as client:

        async def persist() -> Approval:
            request = client.request("shell", {"command": "ls"}, timeout=60)
            while True:
                try:
                    return await client.send(request)
                except GatewayError as error:
                    assert error.code == "unreachable"

        asking = asyncio.create_task(persist())
        await machine.start()
        await machine.decide((await machine.pending())[0])
        assert (await asking).decision.status is Status.APPROVED


@pytest.mark.parametrize("way", ["redis", "http"])
async def test_without_a_gateway_the_waiter_returns_by_its_deadline(
    machine: Machine, config: AgentConfig, way: str
) -> None:
    """Gone and not coming back: expired by the agent's own clock, nobody else can say so."""
    async with AsyncClient(transports(config)[way]) as client:
        asking = asyncio.create_task(client.ask("shell", {}, timeout=4.0))
        await machine.pending()
        await machine.kill()
        with pytest.raises(Expired):
            await asking
