"""How calls that a framework makes side by side become one batch, without any framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.client import Client, Outcome
from gateway.client.http_transport import HttpTransport
from gateway.domain.records import Query, StoredRequest
from gateway.errors import Aborted, Unauthorized
from gateway.integrations.frameworks.calls import (
    ALONE,
    AT_ONCE,
    FrameworkCall,
    FrameworkGate,
    ThreadTurnGate,
    Turn,
    TurnGate,
)
from tests.api.replica import AGENT_TOKEN, Replica
from tests.waiting import moment


def call(path: str) -> FrameworkCall:
    """Return a call of a tool, as one of those that have no ids."""
    return FrameworkCall(tool="delete_file", arguments={"path": path})


@pytest_asyncio.fixture
async def gates(gate: Replica) -> AsyncIterator[tuple[TurnGate, ThreadTurnGate]]:
    """Yield both gates of a framework that is not installed."""
    client = Client(HttpTransport(gate.url, AGENT_TOKEN, "agent1"), say=None)
    asking = FrameworkGate("no-framework", client, {})
    yield TurnGate(asking), ThreadTurnGate(asking)
    await asyncio.to_thread(client.close)


@pytest.fixture(params=["tasks", "threads"])
def start(gates: tuple[TurnGate, ThreadTurnGate], request: pytest.FixtureRequest) -> Any:
    """Return what starts a call in a task, or in a thread."""
    tasks, threads = gates

    def start_call(path: str, turn: Turn) -> asyncio.Task[Outcome]:
        if request.param == "tasks":
            return asyncio.create_task(tasks.ask(call(path), turn))
        return asyncio.create_task(asyncio.to_thread(threads.ask, call(path), turn))

    return start_call


async def wait_for_requests(gate: Replica, count: int) -> list[StoredRequest]:
    """Return what waits, once there is so much, in the order of the paths."""
    while len(items := (await gate.core.requests.page(Query())).items) != count:
        await moment()
    return sorted(items, key=lambda one: str(one.request.arguments))


async def test_the_calls_of_a_turn_are_one_batch(gate: Replica, start: Any) -> None:
    """Each is given its own answer, and none before all have one; another turn is another batch."""
    first = [start(path, Turn("first", 2)) for path in ("a", "b")]
    second = [start(path, Turn("second", 2)) for path in ("c", "d")]
    a, b, c, d = await wait_for_requests(gate, 4)
    assert a.request.group == b.request.group != c.request.group == d.request.group
    assert a.request.group and c.request.group
    for record, action in ((a, "approve"), (c, "deny"), (d, "approve")):
        assert (await gate.decided(record.id, action)).status == 200
    assert [one.runs for one in await asyncio.gather(*second)] == [False, True]
    assert not any(one.done() for one in first)
    assert (await gate.decided(b.id, "deny")).status == 200
    assert [one.runs for one in await asyncio.gather(*first)] == [True, False]


async def test_what_does_not_come_is_not_waited_for(gate: Replica, start: Any) -> None:
    """A call of a tool that asks nobody never comes; one that comes late is asked by itself."""
    early = [start(path, Turn("turn", 3)) for path in ("a", "b")]
    a, b = await wait_for_requests(gate, 2)
    assert a.request.group == b.request.group is not None
    late = start("c", Turn("turn", 3))
    *_, c = await wait_for_requests(gate, 3)
    assert c.request.group is None
    for one in (a, b, c):
        assert (await gate.decided(one.id)).status == 200
    assert all(one.runs for one in await asyncio.gather(*early, late))


async def test_an_abort_stops_each_call_of_the_turn(gate: Replica, start: Any) -> None:
    """Also the one that was approved before; the rest is withdrawn."""
    asked = [start(path, Turn("turn", 3)) for path in ("a", "b", "c")]
    a, b, _ = await wait_for_requests(gate, 3)
    assert (await gate.decided(a.id)).status == 200
    assert (await gate.decided(b.id, "abort", abort="turn")).status == 200
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in ended] == [Aborted] * 3
    assert (await gate.core.requests.page(Query())).items == ()


@pytest.mark.parametrize("threads", [False, True])
async def test_a_mistake_reaches_each_call_of_the_turn(gate: Replica, threads: bool) -> None:
    """No call is left waiting for one that failed."""
    client = Client(HttpTransport(gate.url, "agw_agent1_wrong", "agent1"), say=None)
    wrong, turn = FrameworkGate("f", client, {}), Turn("turn", 2)
    if threads:
        blocking = ThreadTurnGate(wrong)
        asked = [asyncio.to_thread(blocking.ask, call(path), turn) for path in ("a", "b")]
    else:
        own = TurnGate(wrong)
        asked = [own.ask(call(path), turn) for path in ("a", "b")]
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in ended] == [Unauthorized] * 2
    await asyncio.to_thread(client.close)


async def test_calls_that_start_at_once_need_no_count(
    gate: Replica, gates: tuple[TurnGate, ThreadTurnGate]
) -> None:
    """Those of one run that start in the same pass of the event loop, however many they are."""
    asked = [asyncio.create_task(gates[0].ask(call(one), Turn(7, AT_ONCE))) for one in "abc"]
    other = asyncio.create_task(gates[0].ask(call("d"), Turn(8, AT_ONCE)))
    *own, foreign = await wait_for_requests(gate, 4)
    assert len({one.request.group for one in own}) == 1
    assert own[0].request.group is not None and foreign.request.group is None
    for one in (*own, foreign):
        assert (await gate.decided(one.id)).status == 200
    assert all(one.runs for one in await asyncio.gather(*asked, other))


async def test_what_nobody_waits_for_any_longer_is_withdrawn(
    gate: Replica, gates: tuple[TurnGate, ThreadTurnGate]
) -> None:
    """One call that is given up leaves those beside it alone; the last one withdraws all."""
    asked = [asyncio.create_task(gates[0].ask(call(one), Turn("turn", 2))) for one in "ab"]
    await wait_for_requests(gate, 2)
    asked[0].cancel()
    await asyncio.wait({asked[0]})
    assert asked[0].cancelled()
    _, b = await wait_for_requests(gate, 2)
    assert not asked[1].done()
    asked[1].cancel()
    await wait_for_requests(gate, 0)
    record = await gate.store.load(b.id)
    assert record is not None and record.status.value == "cancelled"


async def test_a_call_that_has_none_beside_it_is_asked_at_once(gate: Replica, start: Any) -> None:
    """It is in no group."""
    asked = [start("a", ALONE), start("b", Turn("turn", 1))]
    records = await wait_for_requests(gate, 2)
    assert [one.request.group for one in records] == [None, None]
    for one in records:
        assert (await gate.decided(one.id)).status == 200
    assert all(one.runs for one in await asyncio.gather(*asked))
