"""A gateway that is away for a while: what was asked, told and given up reaches it later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from gateway.approvals.services import Core
from gateway.client import AsyncClient, Client
from gateway.client.config import LAST_BOUND, Backoff
from gateway.client.http_transport import HttpTransport
from gateway.client.redis_transport import RedisTransport
from gateway.client.transport import Transport
from gateway.domain.records import Query, StoredRequest
from gateway.errors import Cancelled, Denied, Expired, NotFound, Unreachable
from gateway.models import Action, ApprovalRequest, Execution, Reason, State, Status
from gateway.stores.requests import RedisStore
from tests.api.replica import AGENT_TOKEN, POLICY, replica
from tests.faults.proxy import Proxy
from tests.waiting import moment
from tests.world import AGENT, assembled, click


@dataclass
class Line:
    """A gateway, and the network on which an agent reaches it."""

    core: Core
    store: RedisStore
    proxy: Proxy
    transport: Callable[[], Transport]
    said: list[str] = field(default_factory=list)
    up: bool = True

    def client(self, **options: Any) -> AsyncClient:
        """Return a client of the agent on this network."""
        return AsyncClient(self.transport(), say=self.said.append, **options)

    def is_away(self) -> bool:
        """Whether nobody reaches the gateway."""
        return not self.up

    def break_off(self) -> None:
        """Take the gateway away."""
        self.up = False
        self.proxy.cut()

    async def record(self, request_id: str) -> StoredRequest:
        """Return a request, once the gateway has it."""
        while True:
            try:
                return await self.core.requests.get(request_id)
            except NotFound:
                await moment()

    async def ended(self, request_id: str) -> StoredRequest:
        """Return a request, once it has ended."""
        while not (record := await self.record(request_id)).final:
            await moment()
        return record

    async def decide(self, request_id: str, action: Action = Action.APPROVE) -> None:
        """Decide a request as Ann."""
        await self.core.requests.decide(click(await self.record(request_id), action))

    async def reported(self, request_id: str) -> Execution:
        """Return what was reported of a request, once it was."""
        while (report := (await self.record(request_id)).report) is None:
            await moment()
        return report.execution


@pytest_asyncio.fixture(params=["http", "redis"])
async def line(
    request: pytest.FixtureRequest, server_url: str, namespace: str
) -> AsyncIterator[Line]:
    """A gateway that is reached over HTTP or over Redis, through a network that can fail."""
    over_http = request.param == "http"

    async def upstream() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if line.is_away():
            raise OSError("nobody is there")
        if over_http:
            opened = await asyncio.open_connection("127.0.0.1", port)
        else:
            opened = await asyncio.open_unix_connection(urlsplit(server_url).path)
        if line.is_away():  # taken away meanwhile
            opened[1].close()
            raise OSError("nobody is there any more")
        return opened

    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(upstream).running())
        if over_http:
            gate = await stack.enter_async_context(replica(server_url, namespace))
            await gate.store.apply(POLICY, by="test")
            port, there = urlsplit(gate.url).port, f"http://127.0.0.1:{proxy.port}"
            line = Line(
                gate.core, gate.store, proxy, lambda: HttpTransport(there, AGENT_TOKEN, "agent1")
            )
        else:
            world = await stack.enter_async_context(assembled(server_url, namespace))
            await stack.enter_async_context(world.ingress().running())
            there = f"redis://127.0.0.1:{proxy.port}"
            line = Line(
                world.core, world.store, proxy, lambda: RedisTransport(there, AGENT, namespace)
            )
        yield line


async def reach(line: Line, client: AsyncClient) -> None:
    """Have the client reach the gateway once."""
    pending = await client.submit(client.request("hello", {}))
    await line.record(pending.request.id)


async def test_what_is_asked_while_the_gateway_is_away_waits_for_it(line: Line) -> None:
    """It was there before, so it is waited for; with what is left of the time, and longer than for
    one that was never there."""
    async with line.client(connect_timeout=0.5) as client:
        await reach(line, client)
        line.break_off()
        request = client.request("shell", {"command": "ls"}, timeout=20)
        asking = asyncio.create_task(client.send(request))
        began = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < began + 0.8:
            await moment()
        line.up = True
        record = await line.record(request.id)
        assert record.deadline - record.created <= 19_600
        await line.decide(request.id)
        assert (await asking).decision.status is Status.APPROVED


async def test_one_that_was_never_there_is_waited_for_a_while_and_that_is_said(line: Line) -> None:
    """At once, once, and with its address."""
    line.break_off()
    async with line.client(connect_timeout=0.6) as client:
        asking = asyncio.create_task(client.ask("shell", {}))
        while not line.said:
            await moment()
        assert not asking.done()
        assert str(line.proxy.port) in line.said[0]
        assert "waiting for the gateway" in line.said[0]
        with pytest.raises(Unreachable):
            await asking
    assert len(line.said) == 1


async def test_one_that_comes_within_that_time_is_asked(line: Line) -> None:
    """Started after the agent was."""
    line.break_off()
    async with line.client() as client:
        request = client.request("shell", {})
        asking = asyncio.create_task(client.send(request))
        while not line.said:
            await moment()
        line.up = True
        while f"gateway approve {request.id}" not in line.said[-1]:
            await moment()
        await line.decide(request.id)
        assert (await asking).decision.status is Status.APPROVED


async def test_without_a_listener_it_says_so_on_standard_error(
    line: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host that set nothing up still learns why nothing happens, and of nothing else."""
    line.break_off()
    async with AsyncClient(line.transport(), connect_timeout=0.1) as client:
        with pytest.raises(Unreachable):
            await client.ask("shell", {})
        line.up = True
        asking = asyncio.create_task(client.ask("shell", {"n": 1}))
        while not (await line.core.requests.page(Query())).items:
            await moment()
        asking.cancel()
    assert capsys.readouterr().err.count("waiting for") == 1


@pytest.mark.parametrize("line", ["http"], indirect=True)  # over Redis to write it is enough
async def test_what_arrived_all_the_same_is_withdrawn(line: Line) -> None:
    """The gateway has it, its answer is lost, the agent is told Unreachable: nobody may approve
    it then."""
    line.proxy.most_replies = 0
    async with line.client(connect_timeout=0.3) as client:
        request = client.request("shell", {})
        asking = asyncio.create_task(client.send(request))
        await line.record(request.id)
        line.break_off()
        with pytest.raises(Unreachable):
            await asking
        assert (await line.record(request.id)).status is Status.PENDING
        line.proxy.most_replies, line.up = None, True
        record = await line.ended(request.id)
    assert record.decision is not None
    assert record.decision.reason is Reason.ABANDONED


async def test_leaving_withdraws_what_still_waits(line: Line) -> None:
    """Nothing runs what would be approved after the block."""
    async with line.client() as client:
        request = client.request("shell", {})
        asking = asyncio.create_task(client.send(request))
        await line.record(request.id)
    record = await line.ended(request.id)
    assert record.decision is not None
    assert record.decision.reason is Reason.ABANDONED
    with pytest.raises((Cancelled, asyncio.CancelledError)):
        await asking


async def test_leaving_a_gateway_that_is_away_takes_a_moment(line: Line) -> None:
    """Nobody hangs on, neither who leaves nor who waits."""
    async with line.client() as client:
        await reach(line, client)
        request = client.request("shell", {})
        waiting = asyncio.create_task(client.send(request))
        await line.record(request.id)
        line.break_off()
        asking = asyncio.create_task(client.ask("shell", {}))
        await moment()
        leaving = asyncio.get_running_loop().time()
    await asyncio.wait({waiting, asking}, timeout=8)
    assert waiting.done()
    assert asking.done()
    assert asyncio.get_running_loop().time() - leaving < 8
    assert isinstance(asking.exception(), Unreachable)


async def test_both_sides_tell_the_same_end(line: Line) -> None:
    """The agent waits to the end before anything at the gateway has looked at the clock."""
    async with line.client() as client:
        request = client.request("shell", {}, timeout=0.2)
        with pytest.raises(Expired):
            await client.send(request)
        assert (await line.ended(request.id)).status is Status.EXPIRED


async def test_a_denial_that_could_not_be_fetched_in_time_is_told(line: Line) -> None:
    """The last look finds it: a person said no, and the agent is not told that nobody did."""
    async with line.client() as client:
        request = client.request("shell", {}, timeout=1)
        asking = asyncio.create_task(client.send(request))
        await line.record(request.id)
        while "waiting for approval" not in "".join(line.said):
            await moment()
        line.proxy.stall()
        await line.decide(request.id, Action.DENY)
        loop = asyncio.get_running_loop()
        loop.call_later(1.6, line.proxy.flow)
        with pytest.raises(Denied):
            await asking
    assert (await line.record(request.id)).status is Status.DENIED


async def test_an_approval_that_was_never_fetched_is_told_as_refused(line: Line) -> None:
    """The agent gave up meanwhile: it runs nothing, and the record says so once it can."""
    async with line.client() as client:
        request = client.request("shell", {}, timeout=3)
        asking = asyncio.create_task(client.send(request))
        await line.record(request.id)
        while "waiting for approval" not in "".join(line.said):
            await moment()
        line.break_off()
        await line.decide(request.id)
        with pytest.raises(Expired):
            await asking
        line.up = True
        assert await line.reported(request.id) is Execution.REFUSED_LATE


async def test_an_approval_that_was_taken_is_not_withdrawn(line: Line) -> None:
    """What runs stays approved, whatever its client does afterwards."""
    async with line.client() as client:
        request = client.request("shell", {})
        asking = asyncio.create_task(client.send(request))
        await line.decide(request.id)
        approval = await asking
        await client.report(approval.request, Execution.STARTED)
    assert await line.reported(request.id) is Execution.STARTED
    assert (await line.record(request.id)).status is Status.APPROVED


async def test_a_report_and_a_withdrawal_are_repeated(line: Line) -> None:
    """Both are said while the gateway is away; a report holds nobody up for long."""
    async with line.client() as client:
        done, waits = client.request("shell", {"n": 1}), client.request("shell", {"n": 2})
        asking = asyncio.create_task(client.send(done))
        await line.decide(done.id)
        await asking
        await client.submit(waits)
        await line.record(waits.id)
        line.break_off()
        began = asyncio.get_running_loop().time()
        await client.report(done, Execution.SUCCEEDED)
        assert asyncio.get_running_loop().time() < began + 5
        withdrawing = asyncio.create_task(client.cancel(waits))
        await moment()
        assert not withdrawing.done()
        line.up = True
        await withdrawing
        assert (await line.ended(waits.id)).status is Status.CANCELLED
        assert await line.reported(done.id) is Execution.SUCCEEDED


async def test_an_approval_is_taken_once_the_gateway_is_back(line: Line) -> None:
    """Asked before, and waited for by another client, which has to take it."""
    async with line.client() as asker, line.client() as client:
        pending: ApprovalRequest = (await asker.submit(asker.request("shell", {}))).request
        await line.decide(pending.id)
        transport = client._transport
        consume, tries = transport.consume, 0

        async def away(request_id: str) -> Any:
            nonlocal tries
            tries += 1
            if tries == 1:
                line.break_off()
                asyncio.get_running_loop().call_later(0.3, setattr, line, "up", True)
            return await consume(request_id)

        transport.consume = away  # type: ignore[method-assign]
        approval = await client.wait(pending, timeout=30)
    assert approval.decision.status is Status.APPROVED
    assert tries > 1


async def test_the_blocking_client_waits_for_it_too(line: Line) -> None:
    """It was there when the thread asked before."""
    requests: list[ApprovalRequest] = []
    away = threading.Event()

    def ask() -> None:
        with Client(line.transport(), connect_timeout=0.5) as client:
            requests.append(client.submit(client.request("hello", {})).request)
            assert away.wait(20)
            requests.append(client.request("shell", {}))
            client.send(requests[-1])

    asking = asyncio.create_task(asyncio.to_thread(ask))
    while not requests:
        await moment()
    line.break_off()
    away.set()
    asyncio.get_running_loop().call_later(0.8, setattr, line, "up", True)
    while len(requests) < 2:
        await moment()
    await line.decide(requests[1].id)
    await asking


def test_pauses_grow_and_differ() -> None:
    """Full jitter: no two agents come back at once, and none waits longer than the bound."""
    many = [Backoff() for _ in range(200)]
    for _ in range(12):
        pauses = [one.pause() for one in many]
    assert all(0 <= pause < LAST_BOUND for pause in pauses)
    assert len(set(pauses)) > 100
    assert max(pauses) > LAST_BOUND / 2 > min(pauses)
    assert Backoff().pause(7) >= 7


async def test_a_late_approval_is_looked_for_as_long_as_it_may_be_withdrawn(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that takes seconds to come back must not hide an approval that nobody took."""
    looked: list[float] = []

    async def wait(request_id: str, *, until: float) -> State:
        looked.append(until)
        raise TimeoutError

    async with line.client() as client:
        request = client.request("shell", {})
        await client.submit(request)
        monkeypatch.setattr(client._transport, "wait", wait)
        until = asyncio.get_running_loop().time() + 100
        await client._unsent.withdraw(request.id, until).task
    assert looked and looked[0] > until
