"""One approval, one run: whichever way a request is reached, and however often."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Approval, AsyncClient, CallableTransport, Client
from gateway.client.http_transport import HttpTransport
from gateway.client.redis_transport import RedisTransport
from gateway.client.transport import Transport
from gateway.domain.records import Query
from gateway.errors import (
    AlreadyUsed,
    Cancelled,
    Conflict,
    Denied,
    Expired,
    GatewayError,
    Unverified,
)
from gateway.models import Action, ApprovalRequest, Context, Execution, Status, new_id
from gateway.wire.signatures import Signer
from tests.api.replica import AGENT_TOKEN, POLICY, SEED, Replica, replica
from tests.waiting import moment
from tests.world import AGENT, World, assembled, click


@dataclass
class Door:
    """A way to a gateway, and the person behind it."""

    transport: Callable[[], Transport]
    answer: Callable[[str, Action], Awaitable[None]]
    waits: Callable[[str], Awaitable[bool]]
    public_key: str | None = None

    def client(self) -> AsyncClient:
        """Return a new client, with a process token of its own."""
        return AsyncClient(self.transport(), public_key=self.public_key)

    async def answered(self, request_id: str, action: Action = Action.APPROVE) -> None:
        """Answer a request once it waits."""
        while not await self.waits(request_id):
            await moment()
        await self.answer(request_id, action)


def door_to(gate: Replica | World, transport: Callable[[], Transport], key: str) -> Door:
    """Return the door to a real gateway, where ann answers."""

    async def waits(request_id: str) -> bool:
        found = await gate.core.requests.page(Query())
        return any(record.id == request_id for record in found.items)

    async def answer(request_id: str, action: Action) -> None:
        await gate.core.requests.decide(click(await gate.core.requests.get(request_id), action))

    return Door(transport, answer, waits, key)


def local_door() -> Door:
    """Return a door to a function, which answers what the test says."""
    answers: dict[str, asyncio.Future[bool]] = {}

    async def approver(request: ApprovalRequest) -> bool:
        answers[request.id] = asyncio.get_running_loop().create_future()
        return await answers[request.id]

    async def waits(request_id: str) -> bool:
        return request_id in answers

    async def answer(request_id: str, action: Action) -> None:
        answers[request_id].set_result(action is Action.APPROVE)

    return Door(lambda: CallableTransport(approver), answer, waits)


@pytest.fixture(params=["http", "redis", "local"])
async def door(
    request: pytest.FixtureRequest, server_url: str, namespace: str
) -> AsyncIterator[Door]:
    """Yield each way to ask."""
    async with AsyncExitStack() as stack:
        if request.param == "http":
            gate = await stack.enter_async_context(replica(server_url, namespace))
            await gate.store.apply(POLICY, by="test")
            key = Signer(SEED).public_key
            yield door_to(gate, lambda: HttpTransport(gate.url, AGENT_TOKEN, "agent1"), key)
        elif request.param == "redis":
            world = await stack.enter_async_context(assembled(server_url, namespace))
            await stack.enter_async_context(world.ingress().running())
            key = world.signer.public_key
            yield door_to(world, lambda: RedisTransport(server_url, AGENT, namespace), key)
        else:
            yield local_door()


def made(client: AsyncClient | Client, request_id: str) -> ApprovalRequest:
    """Return the request that a host makes anew at every try of one call."""
    return client.request("pay", {"amount": 5}, id=request_id, timeout=40, context=Context())


async def ask(client: AsyncClient, request_id: str) -> Approval:
    """Ask under an id of the host's."""
    details: dict[str, Any] = {"id": request_id, "timeout": 40, "context": Context()}
    return await client.ask("pay", {"amount": 5}, **details)


async def send(client: AsyncClient, request_id: str) -> Approval:
    """Send a request that was made."""
    return await client.send(made(client, request_id))


async def wait(client: AsyncClient, request_id: str) -> Approval:
    """Hand it over first, and wait then."""
    return await client.wait(await client.submit(made(client, request_id)), timeout=40)


async def stream(client: AsyncClient, request_id: str) -> Approval:
    """Follow what happens."""
    async with aclosing(client.stream(made(client, request_id))) as events:
        found = [event async for event in events]
    assert found[-1].approval is not None
    return found[-1].approval


WAYS = (ask, send, wait, stream)


def told(outcomes: list[Any]) -> list[str]:
    """Return the names of what came back, sorted."""
    return sorted(type(outcome).__name__ for outcome in outcomes)


async def test_after_any_way_no_other_gives_it_again(door: Door) -> None:
    """Every pair of ways under one id, with the action run and reported in between or not."""
    async with door.client() as client:
        for number, (first, second) in enumerate(product(WAYS, WAYS)):
            request_id = new_id()
            asking = asyncio.create_task(first(client, request_id))
            await door.answered(request_id)
            approval = await asking
            assert approval.arguments == {"amount": 5}
            if number % 2:
                await client.report(approval.request, Execution.STARTED)
                await client.report(approval.request, Execution.SUCCEEDED)
            for _ in range(2):
                with pytest.raises(AlreadyUsed):
                    await second(client, request_id)


async def test_of_all_who_ask_at_once_one_gets_it(door: Door) -> None:
    """Eight tasks of one client, two for each way, while it waits: one leave, seven told."""
    async with door.client() as client:
        request_id = new_id()
        asking = [asyncio.create_task(way(client, request_id)) for way in (*WAYS, *WAYS)]
        await door.answered(request_id)
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert told(outcomes) == ["AlreadyUsed"] * 7 + ["Approval"]


async def test_the_word_of_the_author_counts_and_is_remembered(door: Door) -> None:
    """`rerun` gives it again, and a later one without it is told all the same."""
    async with door.client() as client:
        asked = made(client, new_id())
        pending = await client.submit(asked)
        await door.answered(asked.id)
        assert (await client.wait(pending, rerun=True)).decision.status is Status.APPROVED
        assert (await client.wait(pending, rerun=True)).decision.status is Status.APPROVED
        with pytest.raises(AlreadyUsed):
            await client.send(asked)


async def test_a_denial_stays_a_denial(door: Door) -> None:
    """Asked again under its id, nobody is asked again, and it is not said to have been used."""
    async with door.client() as client:
        request_id = new_id()
        asking = asyncio.create_task(send(client, request_id))
        await door.answered(request_id, Action.DENY)
        for again in (asking, *(way(client, request_id) for way in WAYS)):
            with pytest.raises(Denied):
                await again


@pytest.mark.parametrize("door", ["http", "redis"], indirect=True)
async def test_of_several_clients_at_most_one_gets_it(door: Door) -> None:
    """Three of one process, all ways at once; then one that was made anew."""
    request_id = new_id()
    async with door.client() as one, door.client() as two, door.client() as three:
        clients = (one, two, three)
        asking = [asyncio.create_task(way(who, request_id)) for who in clients for way in WAYS]
        await door.answered(request_id)
        outcomes = told(await asyncio.gather(*asking, return_exceptions=True))
    assert set(outcomes) <= {"AlreadyUsed", "Approval"}
    assert outcomes.count("Approval") <= 1
    async with door.client() as anew:
        for way in WAYS:
            with pytest.raises(AlreadyUsed):
                await way(anew, request_id)


async def test_a_client_over_the_same_transport_is_no_new_taker(door: Door) -> None:
    """What the gateway takes for one process is one, also when a second client speaks for it."""
    transport = door.transport()
    async with AsyncClient(transport) as client:
        request_id = new_id()
        asking = asyncio.create_task(send(client, request_id))
        await door.answered(request_id)
        await asking
        for way in WAYS:
            with pytest.raises(AlreadyUsed):
                await way(AsyncClient(transport), request_id)


def test_threads_of_the_blocking_client_share_one_leave() -> None:
    """Every way of it, the first one included, under one id."""
    with Client(CallableTransport(lambda request: True)) as client:
        asked = made(client, new_id())
        assert client.send(asked).arguments == {"amount": 5}
        tries: list[Callable[[], Approval]] = [
            lambda: client.send(asked),
            lambda: client.ask("pay", {"amount": 5}, id=asked.id, context=Context()),
            lambda: client.wait(asked),
            lambda: client.wait(client.submit(asked)),
        ]
        for again in tries:
            with pytest.raises(AlreadyUsed):
                again()


class Late(CallableTransport):
    """Answers in time, and is heard after it."""

    async def wait(self, request_id: str, *, until: float) -> Any:
        """Hold the answer back."""
        state = await super().wait(request_id, until=until)
        while asyncio.get_running_loop().time() <= until:
            await moment()
        return state


async def test_what_was_refused_late_is_not_given_at_the_next_try() -> None:
    """The record says that it was not run: so it is not run afterwards, under the same id."""
    transport = Late(lambda request: True)
    async with AsyncClient(transport) as client:
        asked = client.request("pay", {}, timeout=0.01)
        with pytest.raises(Expired):
            await client.send(asked)
        with pytest.raises(AlreadyUsed):
            await client.wait(asked, timeout=0)
    assert [report.execution for _, report in transport.reports] == [Execution.REFUSED_LATE]


async def test_who_comes_second_says_nothing_of_what_the_first_did(tmp_path: Path) -> None:
    """Neither late, nor with a changed file, nor with a host that breaks: the report is the
    first one's."""
    script = tmp_path / "x.sh"
    script.write_text("make")
    broken = False

    def host(event: str, *rest: object) -> None:
        if broken and event == "decided":
            raise LookupError(event)

    transport = CallableTransport(lambda request: True)
    async with AsyncClient(transport, on_event=host) as client:
        asked = client.request("run", {}, files=[str(script)])
        await client.send(asked)
        script.write_text("make clean")
        with pytest.raises(Unverified):
            await client.send(asked)
        broken = True
        with pytest.raises(LookupError):
            await client.send(asked)
    assert transport.reports == []


async def test_a_function_is_asked_once_for_an_id() -> None:
    """As a gateway does: the same again is not asked again, another one is refused, and what was
    withdrawn stays so."""
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request.id)
        await asyncio.Event().wait()
        return True

    async with AsyncClient(CallableTransport(approver)) as client:
        request = client.request("pay", {"amount": 5})
        waiting = [asyncio.create_task(client.send(request)) for _ in range(2)]
        while not asked:
            await moment()
        with pytest.raises(Conflict):
            await client.submit(client.request("pay", {"amount": 6}, id=request.id))
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        for again in (waiting[1], client.send(request)):
            with pytest.raises(Cancelled):
                await again
    assert asked == [request.id]


async def test_who_gives_up_while_asking_again_leaves_nobody_behind(
    world: World, server_url: str, namespace: str
) -> None:
    """A second try that is cut while it is written: the first one hears how the request ended."""
    transport = RedisTransport(server_url, AGENT, namespace)
    async with AsyncClient(transport) as client, world.ingress().running():
        request_id = new_id()
        first = asyncio.create_task(send(client, request_id))
        await world.until(lambda found: any(e.type == "submitted" for e in found))
        second = asyncio.create_task(transport.submit(made(client, request_id), detached=False))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await world.core.requests.decide(click(await world.core.requests.get(request_id)))
        async with asyncio.timeout(20):
            assert (await first).decision.status is Status.APPROVED


@pytest.mark.parametrize(
    "transport",
    [
        lambda: HttpTransport("http://127.0.0.1:9", "token", AGENT),
        lambda: RedisTransport("redis://127.0.0.1:9", AGENT),
        lambda: CallableTransport(lambda request: True),
    ],
)
def test_a_forked_child_is_not_taken_for_its_parent(
    transport: Callable[[], Transport],
) -> None:
    """Both would be given one approval, and neither would know of the other."""
    process = transport().process
    assert process.token
    child = os.fork()
    if child == 0:
        try:
            assert process.token
        except GatewayError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
