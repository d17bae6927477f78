"""The HTTP transport against the real API: few calls for many waiters, and nobody left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from gateway.api.api_call import Limits
from gateway.client import AsyncClient, http_transport
from gateway.client.http_transport import HttpTransport
from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Query
from gateway.errors import Denied, NotFound, Pending, Unauthorized, Unreachable, Unverified
from gateway.models import Execution, Status
from tests.api.replica import AGENT_TOKEN, POLICY, Replica, made, replica, until


@pytest_asyncio.fixture
async def gate(server_url: str, namespace: str) -> AsyncIterator[Replica]:
    """A replica with a policy under which Ann approves, and room for twenty long polls."""
    async with replica(server_url, namespace, limits=Limits(waits=20)) as one:
        await one.store.apply(POLICY, by="test")
        yield one


@pytest_asyncio.fixture
async def client(gate: Replica) -> AsyncIterator[AsyncClient]:
    """A client of agent1."""
    async with AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, "agent1")) as made:
        yield made


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than a real client does."""
    monkeypatch.setattr(http_transport, "_LOOK_SECONDS", 0.02)


async def decide_all(gate: Replica, count: int) -> None:
    """Approve that many requests, once they are there."""
    ids: list[str] = []
    while len(ids) < count:
        page = await gate.core.requests.page(Query(limit=200))
        ids = [record.id for record in page.items]
    for request_id in ids:
        assert (await gate.decided(request_id)).status == 200


async def test_ask_and_go_on(gate: Replica, client: AsyncClient) -> None:
    """A long poll is woken by the decision."""
    approval, _ = await asyncio.gather(client.ask("shell", {"command": "ls"}), decide_all(gate, 1))
    assert approval.decision.decided_by.name == "ann"


async def test_what_a_rule_decides_costs_one_call(gate: Replica, client: AsyncClient) -> None:
    """The answer to the submission is the decision."""
    rule = Route(name="rule", tools=("shell",), mode=Mode.AUTO_APPROVE)
    await gate.store.apply(replace(await gate.store.policy(), routes=(rule,)), by="test")
    before = gate.credentials.asked
    assert (await client.ask("shell", {})).decision.status is Status.APPROVED
    assert gate.credentials.asked == before + 1


@pytest.mark.parametrize("places", [20, 3])
async def test_many_waiters_share_few_calls(server_url: str, namespace: str, places: int) -> None:
    """Each gets its own decision, also where the gateway lets fewer calls hang than we would."""
    async with (
        replica(server_url, namespace, limits=Limits(waits=places)) as gate,
        AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, "agent1")) as client,
    ):
        await gate.store.apply(POLICY, by="test")
        asking = [asyncio.create_task(client.ask("n", {"n": number})) for number in range(60)]
        await until(lambda: gate.hanging == min(places, http_transport.MOST_POLLS))
        await decide_all(gate, 60)
        approvals = await asyncio.wait_for(asyncio.gather(*asking), 20)
    assert [approval.arguments["n"] for approval in approvals] == list(range(60))


async def test_who_has_no_call_of_its_own_is_woken_all_the_same(gate: Replica) -> None:
    """While sixteen others go on hanging."""
    transport = HttpTransport(gate.url, AGENT_TOKEN, "agent1")
    async with AsyncClient(transport) as client:
        asking = [asyncio.create_task(client.ask("n", {"n": number})) for number in range(20)]
        await until(lambda: len(transport._waits._shared) == 4 and gate.hanging == 16)
        for request_id in list(transport._waits._shared):
            assert (await gate.decided(request_id)).status == 200
        await until(lambda: sum(task.done() for task in asking) == 4)
        assert gate.hanging == 16
        await decide_all(gate, 16)
        await asyncio.gather(*asking)


async def test_waiters_for_one_request_share_one_call(gate: Replica, client: AsyncClient) -> None:
    """Two tasks that wait for the same request hang once, and one may leave."""
    pending = await client.submit(client.request("shell", {}))
    waits = [asyncio.create_task(client.wait(pending, rerun=True)) for _ in range(3)]
    await until(lambda: gate.hanging == 1)
    waits[0].cancel()
    await asyncio.wait(waits[:1])
    await decide_all(gate, 1)
    for wait in waits[1:]:
        assert (await wait).decision.status is Status.APPROVED
    assert gate.hanging == 0


async def test_who_stops_waiting_frees_the_place_at_once(
    gate: Replica, client: AsyncClient
) -> None:
    """A cancelled or expired wait hangs up; the request of a cancelled one is withdrawn."""
    asking = asyncio.create_task(client.ask("shell", {}))
    await until(lambda: gate.hanging == 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    ended = await gate.core.requests.page(Query(final=True))
    assert [record.decision.reason for record in ended.items if record.decision] == ["abandoned"]
    pending = await client.submit(client.request("shell", {}))
    with pytest.raises(Pending):
        await client.wait(pending, timeout=0.05)
    await asyncio.wait_for(until(lambda: gate.hanging == 0), 15)


async def test_a_stream_tells_before_it_waits_and_when_it_may_run(
    gate: Replica, client: AsyncClient
) -> None:
    """First the request, which waits by then; after the decision the leave, or the refusal."""
    seen: list[tuple[str, str]] = []
    for action in ("approve", "deny"):
        request = client.request("shell", {"command": "ls"})
        try:
            async for event in client.stream(request):
                seen.append((action, event.name))
                if event.approval is None:
                    assert (await gate.core.requests.get(request.id)).status is Status.PENDING
                    assert (await gate.decided(request.id, action)).status == 200
                else:
                    assert event.approval.arguments == {"command": "ls"}
        except Denied:
            seen.append((action, "Denied"))
    assert seen == [
        ("approve", "confirmation_required"),
        ("approve", "decided"),
        ("deny", "confirmation_required"),
        ("deny", "Denied"),
    ]


async def test_leaving_a_stream_withdraws_its_request(gate: Replica, client: AsyncClient) -> None:
    """Nobody is left with a card that nothing waits for."""
    async with aclosing(client.stream(client.request("shell", {}))) as events:
        async for event in events:
            assert event.name == "confirmation_required"
            break
    ended = await gate.core.requests.page(Query(final=True))
    assert [record.decision.reason for record in ended.items if record.decision] == ["abandoned"]


async def test_errors_reach_every_waiter(
    gate: Replica, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown request and a revoked token end the wait, with a call of its own and without."""
    for most in (16, 0):
        monkeypatch.setattr(http_transport, "MOST_POLLS", most)
        with pytest.raises(NotFound):
            await client.wait(made())
    pending = await client.submit(client.request("shell", {}))
    waiting = asyncio.create_task(client.wait(pending))
    await asyncio.sleep(0)
    del gate.credentials.known[AGENT_TOKEN]
    with pytest.raises(Unauthorized):
        await asyncio.wait_for(waiting, 15)


async def test_one_state_that_cannot_be_read_fails_no_other(
    gate: Replica, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among many that one look brings, as a gateway of another version could tell it."""
    monkeypatch.setattr(http_transport, "MOST_POLLS", 0)
    transport = client._transport
    assert isinstance(transport, HttpTransport)
    pending = [await client.submit(client.request("n", {"n": n})) for n in range(2)]
    exchange = transport._http.exchange

    def newer(method: str, path: str, body: Any = None) -> Any:
        told, date = exchange(method, path, body)
        if path == "/v1/sync":
            for item in told["items"]:
                if item["id"] == pending[0].request.id:
                    item["status"] = "perhaps"
        return told, date

    monkeypatch.setattr(transport._http, "exchange", newer)
    waits = [asyncio.create_task(client.wait(one)) for one in pending]
    with pytest.raises(Unverified, match="cannot parse"):
        await asyncio.wait_for(waits[0], 15)
    await decide_all(gate, 2)
    assert (await asyncio.wait_for(waits[1], 15)).decision.status is Status.APPROVED


async def test_leaving_ends_all_waits(gate: Replica) -> None:
    """Nothing hangs on after the client is closed, and who waited is cancelled."""
    async with AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, "agent1")) as client:
        pending = [await client.submit(client.request("n", {"n": n})) for n in range(20)]
        waits = [asyncio.create_task(client.wait(one)) for one in pending]
        await until(lambda: gate.hanging == http_transport.MOST_POLLS)
    await asyncio.wait(waits, timeout=5)
    assert all(wait.cancelled() for wait in waits)
    await until(lambda: gate.hanging == 0)


async def test_a_report_after_leaving_is_not_sent_and_fails_nothing(gate: Replica) -> None:
    """An action may outlive its client: that nobody can be told takes nothing from it."""
    async with AsyncClient(HttpTransport(gate.url, AGENT_TOKEN, "agent1")) as client:
        request = client.request("shell", {})
    await client.report(request, Execution.SUCCEEDED)
    with pytest.raises(Unreachable, match="closed"):
        await client.submit(request)


async def test_a_session_of_any_name_ends(gate: Replica, client: AsyncClient) -> None:
    """A name with a slash is one name, not a path."""
    await client.submit(client.request("shell", {}, session="repo/main"))
    await client.end_session("repo/main")
    await client.end_session("never/begun")
    assert (await gate.core.requests.page(Query())).items == ()
