"""A route's time holds for an agent that names none, and the client's own wait follows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import NamedTuple

import pytest
import pytest_asyncio

from gateway.approvals.services import Core
from gateway.client import AsyncClient, Client, requires_approval
from gateway.client.async_client import DEFAULT_TIMEOUT
from gateway.client.gate import gate_of
from gateway.client.http_connection import seconds_left
from gateway.client.http_transport import HttpTransport
from gateway.client.redis_transport import RedisTransport
from gateway.domain.policy_document import Route
from gateway.domain.records import Query, StoredRequest
from gateway.errors import Denied
from gateway.models import Action, Status
from tests.api.replica import AGENT_TOKEN, POLICY, replica
from tests.client.test_ask_reach import asking
from tests.waiting import moment
from tests.world import AGENT, assembled, click, policy

ROUTE = replace(POLICY.routes[0], timeout=7_200)
LONG = replace(POLICY, routes=(ROUTE,))


class Gate(NamedTuple):
    """A gateway, and an agent's client of it."""

    core: Core
    client: AsyncClient


@pytest_asyncio.fixture(params=["http", "redis"])
async def gate(
    request: pytest.FixtureRequest, server_url: str, namespace: str
) -> AsyncIterator[Gate]:
    """A gateway with a route of two hours."""
    async with AsyncExitStack() as stack:
        if request.param == "http":
            one = await stack.enter_async_context(replica(server_url, namespace))
            await one.store.apply(LONG, by="test")
            core, transport = one.core, HttpTransport(one.url, AGENT_TOKEN, "agent1")
            client = AsyncClient(transport)
        else:
            world = await stack.enter_async_context(assembled(server_url, namespace))
            await policy(world.store, Route(timeout=7_200, approvers=("ann",)))
            await stack.enter_async_context(world.ingress().running())
            core = world.core
            client = AsyncClient(RedisTransport(server_url, AGENT, namespace))
        yield Gate(core, await stack.enter_async_context(client))


async def waiting(core: Core) -> StoredRequest:
    """Return the first request that waits."""
    while not (items := (await core.requests.page(Query())).items):
        await moment()
    return await core.requests.get(items[0].id)


def lives(record: StoredRequest) -> int:
    """Return how many seconds a request has."""
    return round((record.deadline - record.created) / 1000)


async def test_the_routes_time_holds_for_the_sdk(gate: Gate) -> None:
    """No time is sent, and the client waits as long as the gateway does, not its own 900 s."""
    request = gate.client.request("shell", {})
    assert request.timeout is None
    began = asyncio.get_running_loop().time()
    until = await gate.client._begin(request, began + 900, asyncio.Lock())
    assert 7_195 < until - began < 7_210
    assert lives(await waiting(gate.core)) == 7_200


async def test_what_the_agent_names_still_holds(gate: Gate) -> None:
    """A time of its own, longer than the route's, is kept where no bound is written."""
    await gate.client.submit(gate.client.request("shell", {}, timeout=9_000))
    assert lives(await waiting(gate.core)) == 9_000


@pytest.mark.parametrize("named", [None, 9_000.0])
async def test_what_the_route_bounds_is_bounded(
    server_url: str, namespace: str, named: float | None
) -> None:
    """The route's own time and the agent's; who named none waits no longer than that."""
    bounded = replace(POLICY, routes=(replace(ROUTE, max_timeout=60),))
    async with replica(server_url, namespace) as one:
        await one.store.apply(bounded, by="test")
        async with AsyncClient(HttpTransport(one.url, AGENT_TOKEN, "agent1")) as client:
            request = client.request("shell", {}, timeout=named)
            began = asyncio.get_running_loop().time()
            until = await client._begin(request, began + 900, asyncio.Lock())
            assert lives(await waiting(one.core)) == 60
            assert named is not None or 55 < until - began < 65


async def test_the_routes_time_holds_for_the_command(server_url: str, namespace: str) -> None:
    """`gateway ask` without --timeout."""
    async with replica(server_url, namespace) as one:
        await one.store.apply(LONG, by="test")
        async with asking(one.url, "shell") as process:
            record = await waiting(one.core)
            assert lives(record) == 7_200
            await one.core.requests.decide(click(record, Action.APPROVE))
            assert await process.wait() == 0
        assert (await one.core.requests.get(record.id)).status is Status.APPROVED


def test_the_time_that_is_left_is_counted_on_the_servers_clock() -> None:
    """A wrong clock here changes nothing; an answer without times gives none."""
    there = datetime(2001, 1, 1, tzinfo=UTC)
    state = {"status": "pending", "deadline": (there.timestamp() + 60) * 1000}
    date = format_datetime(there, usegmt=True)
    assert seconds_left(state, date) == 60
    assert seconds_left({**state, "status": "approved"}, date) is None  # it waits for nothing
    for answer, said in ((state, ""), ({"status": "pending"}, date), (None, "x"), ([], "")):
        assert seconds_left(answer, said) is None


async def test_the_routes_time_holds_for_decorated_functions(gate: Gate) -> None:
    """Neither the decorator nor its gate names a time of its own."""

    @requires_approval
    def deploy(version: str) -> str:
        return version

    request = gate_of(deploy).request(gate.client, {"version": "1.4"})
    assert request.timeout is None
    await gate.client.submit(request)
    assert lives(await waiting(gate.core)) == 7_200


async def test_the_routes_time_holds_for_the_blocking_client(
    server_url: str, namespace: str
) -> None:
    """It waits until the gateway's deadline, and runs what is approved."""
    async with replica(server_url, namespace) as one:
        await one.store.apply(LONG, by="test")
        transport = HttpTransport(one.url, AGENT_TOKEN, "agent1")
        client = await asyncio.to_thread(Client, transport)
        asked = asyncio.create_task(asyncio.to_thread(client.ask, "shell", {}))
        record = await waiting(one.core)
        assert lives(record) == 7_200
        await one.core.requests.decide(click(record, Action.APPROVE))
        assert (await asked).arguments == {}
        await asyncio.to_thread(client.close)


async def test_an_older_gateway_that_tells_no_deadline_is_waited_for_900_seconds(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's own bound holds where nobody says more."""

    async def silent(request_id: str) -> None:
        return None

    monkeypatch.setattr(gate.client._transport, "deadline", silent)
    request = gate.client.request("shell", {})
    until = asyncio.get_running_loop().time() + DEFAULT_TIMEOUT
    assert await gate.client._begin(request, until, asyncio.Lock()) == until


async def test_a_denial_after_the_deadline_was_learned_is_raised(gate: Gate) -> None:
    """What a person says is told at once, however long the wait may be."""
    asked = asyncio.create_task(gate.client.ask("shell", {}))
    record = await waiting(gate.core)
    await gate.core.requests.decide(click(record, Action.DENY, message="no"))
    with pytest.raises(Denied, match="no"):
        await asked
