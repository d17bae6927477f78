"""The invariants over a Sentinel trio and a cluster that fail over while an agent is at work."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from redis.crc import key_slot

from gateway.domain.time_and_tasks import SystemClock
from gateway.models import ApprovalRequest, Status, digest_of, new_id
from gateway.stores.credentials import RedisCredentials
from gateway.stores.keys import Keys
from gateway.wire.codec import plain
from tests.faults.invariants import problems
from tests.faults.nodes import Servers, cluster, sentinel_trio
from tests.faults.site import Site
from tests.waiting import moment

NAMESPACE = "gw"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.xdist_group("nodes")]


@pytest.fixture(params=["sentinel", "cluster"])
async def servers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Servers]:
    """Yield several servers, and the URL that leads to them."""
    folder = tmp_path / "servers"
    folder.mkdir()
    made: AbstractAsyncContextManager[Servers] = (
        sentinel_trio(folder)
        if request.param == "sentinel"
        else cluster(folder, key_slot(Keys(NAMESPACE).events.encode()))
    )
    async with made as running:
        yield running


async def hand_over(servers: Servers) -> None:
    """Have a replica take over in order: nothing is written meanwhile, so nothing is lost."""
    before = await servers.primary()
    if "cluster" in servers.url:
        assert await (await servers.replica()).says("CLUSTER", "FAILOVER")
    else:
        await before.says("CLIENT", "PAUSE", "3000", "WRITE")
        await servers.replica()
        watcher = servers.watcher  # type: ignore[attr-defined]
        while not await watcher.says("SENTINEL", "FAILOVER", "main"):
            await moment()
    while await servers.primary() is before:
        await moment()


async def kill(servers: Servers) -> None:
    """kill -9 the primary, and wait until another is."""
    before = await servers.primary()
    await servers.replica()
    await before.kill()
    while await servers.primary() is before:
        await moment()


@pytest.mark.parametrize("fail_over", [hand_over, kill])
async def test_everything_holds_while_another_server_takes_over(
    servers: Servers, tmp_path: Path, fail_over: Callable[[Servers], Awaitable[None]]
) -> None:
    """While an agent asks over both ways: nothing is lost, doubled or wrongly told.

    In order it happens twice. A primary that is killed had handed everything on a moment before:
    what it acknowledges in the moment itself may be lost, as docs/guides/high-availability.md says.
    """
    async with Site(servers.url, NAMESPACE, tmp_path) as site:
        gateway = await site.gateway()
        await site.add_approver()
        async with asyncio.timeout(50), site.agent_at_work() as agent:
            approving = asyncio.create_task(site.approve())
            for event in ("submitted", "approved")[: 1 + (fail_over is hand_over)]:
                await site.until(event)
                await fail_over(servers)
            assert await agent.ended() == 0
            approving.cancel()
            await site.deny_the_rest()
            await site.until_shown()
        await site.stopped(gateway)
        assert problems(await site.export(), site.logs(), site.cards()) == []


AT_ONCE = 32
PROCESS = "0123456789abcdef"
BEFORE, AFTER = 600, 600  # answers


@dataclass
class Load:
    """Agents that ask over HTTP and a person who approves, as fast as the gateway takes it. Keeps
    when each answer was given, by request."""

    url: str
    agent: str
    token: str
    approver: str
    taken: dict[str, float] = field(default_factory=dict)
    approved: dict[str, float] = field(default_factory=dict)
    again: int = 0

    async def run(self) -> None:
        """Go on until cancelled."""
        async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._one_after_another(http))

    async def _one_after_another(self, http: aiohttp.ClientSession) -> None:
        now = asyncio.get_running_loop().time
        while True:
            one = new_id()
            asked = ApprovalRequest(
                id=one, agent=self.agent, tool="count", arguments={"n": one}, digest="0" * 64
            )
            asked = replace(asked, digest=digest_of(asked))
            body = {"request": plain(asked), "process": PROCESS}
            sent = await self._persist(http, "/v1/requests", self.token, body)
            self.taken[one] = now()
            click = {"revision": sent["revision"], "nonce": new_id(), "action": "approve"}
            if await self._persist(http, f"/v1/requests/{one}/decide", self.approver, click):
                self.approved[one] = now()

    async def _persist(
        self, http: aiohttp.ClientSession, path: str, token: str, body: dict[str, Any]
    ) -> Any:
        """Send it until it is taken. A request that went with the primary is not there any more."""
        while True:
            try:
                sending = http.post(
                    self.url + path, json=body, headers={"Authorization": f"Bearer {token}"}
                )
                async with sending as answer:
                    if answer.status < 400:
                        return await answer.json()
                    assert answer.status in (404, 409, 429, 503), await answer.text()
                    if answer.status in (404, 409):
                        return None
            except aiohttp.ClientError:
                pass
            self.again += 1
            await moment()


async def test_what_a_crash_under_a_heavy_load_loses(servers: Servers, tmp_path: Path) -> None:
    """The primary is killed between hundreds of answers a second: what was answered a second before
    is all there, nothing runs on an approval that is gone, and all goes on."""
    async with Site(servers.url, NAMESPACE, tmp_path) as site:
        gateway = await site.gateway()
        await site.add_approver()
        await servers.replica()
        new = await RedisCredentials(site.store, SystemClock()).add_agent(site.agent)
        load = Load(site.url, site.agent, new.token, site._token)
        working = asyncio.create_task(load.run())
        now = asyncio.get_running_loop().time
        began = now()
        async with asyncio.timeout(90):
            while len(load.approved) < BEFORE:
                await moment()
            before = await servers.primary()
            killed = now()
            await before.kill()
            rate = BEFORE / (killed - began)
            while await servers.primary() is before:
                await moment()
            until = len(load.approved) + AFTER
            while len(load.approved) < until:
                await moment()
            away = min(at for at in load.approved.values() if at > killed + 0.5) - killed
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        records = {one: await site.store.load(one) for one in load.taken}
        lost = [one for one, record in records.items() if record is None]
        undone = [
            one
            for one in load.approved
            if (kept := records[one]) is not None and kept.status is not Status.APPROVED
        ]
        counts = (
            f"{len(load.taken)} requests, {len(load.approved)} approvals ({rate:.0f}/s before), "
            f"{load.again} sent again; {away:.1f} s without an answer; lost with the primary: "
            f"{len(lost)} requests, {len(undone)} approvals"
        )
        sys.stderr.write(counts + "\n")
        assert all(killed - load.taken[one] < 1 for one in lost), counts
        assert all(killed - load.approved[one] < 1 for one in undone), counts
        await site.deny_the_rest()
        await site.stopped(gateway)
        assert problems(await site.export(), site.logs(), site.cards()) == []
