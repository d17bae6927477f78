"""What the processes of the fault tests do: a gateway that dies at a step, and an agent that asks.

Imported once by the process that all of them are forked from.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from gateway.cli import main as command
from gateway.client import AsyncClient, config
from gateway.client.approval import Approval
from gateway.client.http_transport import HttpTransport
from gateway.client.redis_transport import RedisTransport
from gateway.errors import Denied, GatewayError, NotApproved, Unauthorized, Unreachable
from gateway.models import Action, ApprovalRequest, Execution
from gateway.server import app
from gateway.server.settings import Settings
from gateway.stores import archiver, ingress
from tests.faults.agentlog import AgentLog
from tests.faults.processes import Door
from tests.waiting import moment

ANY = "any step"
NEVER = 0
PLUGINS = Path(__file__).parent / "plugins"
"""Where the adapter `wall` is installed, for whoever looks for adapters."""

T = TypeVar("T")


class Deadly:
    """Ends this process as `kill -9` does, at the nth passing of a step. Counts all passings."""

    def __init__(self, step: str, nth: int) -> None:
        self._step = step
        self._left = nth
        self.passed: list[str] = []

    def __call__(self, step: str) -> None:
        self.passed.append(step)
        if self._step in (ANY, step):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


async def gateway(
    door: Door, step: str = ANY, nth: int = NEVER, lease_ms: int | None = None
) -> None:
    """Run a whole gateway as the environment describes it, until let go or dead.

    Says its URL when it is ready, and which steps it passed when it ends in order. `lease_ms` is
    how long it holds the agents' streams after its last sign of life, if not as in earnest.
    """
    if lease_ms is not None:
        ingress.REPLICA_LEASE_MS = lease_ms
        ingress._TICK_SECONDS = lease_ms / 3000
    # Everything moves to the archive as soon as it is sealed.
    archiver.PACE = archiver.ArchivePace(settled_ms=0, longest_ms=0)
    archiver._ARCHIVER_LOOK_SECONDS = 0.5
    at = Deadly(step, nth)
    sys.path.insert(0, str(PLUGINS))
    async with app.run_gateway(Settings(), at=at) as running:
        door.say(running.url)
        await door.opened()
    door.say(at.passed)


async def export(door: Door, path: Path) -> None:
    """Run `gateway audit export`."""
    sys.exit(await asyncio.to_thread(command, ["audit", "export", str(path)]))


async def agent(door: Door, folder: Path) -> None:
    """Play the agent over Redis and over HTTP at once; a log of each lies in the folder."""
    # What a killed gateway announced is refused until the next one has announced itself.
    found = await persisted(lambda: asyncio.to_thread(config.load), Unauthorized)
    over_redis = RedisTransport(found.redis_url or "", found.agent, found.namespace)
    over_http = HttpTransport(found.url or "", found.token or "", found.agent)
    async with (
        AsyncClient(over_redis, public_key=found.public_key) as first,
        AsyncClient(over_http, public_key=found.public_key) as second,
    ):
        door.say(found.agent)
        # The tokens are private to the transports; the log must name them all the same.
        redis_log = AgentLog(folder / "redis.log", found.agent, over_redis.process.token)
        http_log = AgentLog(folder / "http.log", found.agent, over_http.process.token)
        await asyncio.gather(
            Worker(first, redis_log, "over-redis").work(),
            Worker(second, http_log, "over-http").work(),
        )


async def waiter(door: Door, folder: Path, way: str) -> None:
    """Ask for one thing and wait for it; what is approved is run."""
    found = await persisted(lambda: asyncio.to_thread(config.load))
    transport = (
        RedisTransport(found.redis_url or "", found.agent, found.namespace)
        if way == "redis"
        else HttpTransport(found.url or "", found.token or "", found.agent)
    )
    log = AgentLog(folder / "waiter.log", found.agent, transport.process.token)
    async with AsyncClient(transport, public_key=found.public_key) as client:
        door.say(transport.process.token)
        await Worker(client, log, "default").allowed("wait", {"n": 1}, {"n": 1})


class Worker:
    """Asks for everything that an agent can ask for, in one session, and does what it may."""

    def __init__(self, client: AsyncClient, log: AgentLog, session: str) -> None:
        self._client = client
        self._log = log
        self._session = session

    async def work(self) -> None:
        """Do all of it at once; raises AssertionError when any of it ended in another way."""
        await asyncio.gather(
            self.allowed("write", {"n": 1}, {"n": 1}),
            self.allowed("edit", {"n": 2}, {"n": 99}),
            self.later(),
            self.refused(),
            self.withdrawn(),
            self.repeated(),
        )
        await persisted(lambda: self._client.end_session(self._session))

    async def allowed(self, tool: str, arguments: dict[str, int], run: dict[str, int]) -> None:
        """Ask, and run what was approved."""
        request = self.request(tool, arguments)
        self._log.asked(request)
        approval = await persisted(lambda: self._client.send(request))
        assert approval.arguments == run
        await self._run(request, approval)

    async def repeated(self) -> None:
        """Ask for the same twice: the first answer is remembered, for the session."""
        for _ in range(2):
            await self.allowed("remember", {"n": 4}, {"n": 4})

    async def later(self) -> None:
        """Hand over without waiting, and come for the answer afterwards."""
        request = self.request("later", {"n": 3})
        self._log.asked(request)
        pending = await persisted(lambda: self._client.submit(request))
        await self._run(request, await persisted(lambda: self._client.wait(pending, timeout=60)))

    async def refused(self) -> None:
        """Ask for what will be denied."""
        request = self.request("refuse", {})
        self._log.asked(request)
        try:
            await persisted(lambda: self._client.send(request))
        except NotApproved as refusal:
            assert isinstance(refusal, Denied)
            self._log.told(request, refusal.decision)
        else:
            raise AssertionError("it was to be denied")

    async def withdrawn(self) -> None:
        """Stop waiting as soon as it was handed over."""
        request = self.request("withdraw", {})
        self._log.asked(request)
        await persisted(lambda: self._client.submit(request))
        waiting = asyncio.create_task(self._client.send(request))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        self._log.gave_up(request)

    def request(self, tool: str, arguments: dict[str, int]) -> ApprovalRequest:
        """Return a request for which everything but an answer is allowed."""
        allowed = (Action.APPROVE, Action.EDIT, Action.DENY)
        return self._client.request(
            tool, arguments, allowed=allowed, timeout=60, session=self._session
        )

    async def _run(self, request: ApprovalRequest, approval: Approval) -> None:
        self._log.told(request, approval.decision)
        await self._client.report(request, Execution.STARTED)
        self._log.ran(request, approval.arguments)
        await self._client.report(request, Execution.SUCCEEDED)


async def persisted(call: Callable[[], Awaitable[T]], *passing: type[GatewayError]) -> T:
    """Call until the gateway is there."""
    while True:
        try:
            return await call()
        except (Unreachable, *passing):  # type: ignore[misc] # the stars hide that these are errors
            await moment()
