"""Long polls: woken by any replica, bounded, and cheap to abandon."""

import asyncio
from functools import partial

import pytest
from aiohttp import ClientError

from gateway.api.api_call import Limits
from gateway.api.app import SERVICES
from gateway.models import new_id
from tests.api.replica import (
    AGENT_TOKEN,
    ANN_TOKEN,
    EVE_TOKEN,
    OTHER_TOKEN,
    POLICY,
    PROCESS,
    Answer,
    Replica,
    made,
    replica,
    until,
)


def hang(gate: Replica, many: int) -> bool:
    """Whether so many calls wait."""
    return gate.hanging == many


async def test_a_wait_is_woken_by_a_decision_on_another_replica(
    server_url: str, namespace: str
) -> None:
    """Two replicas on one server: the click on one ends the wait on the other."""
    async with replica(server_url, namespace) as one, replica(server_url, namespace) as two:
        await one.store.apply(POLICY, by="test")
        request = made()
        await one.submitted(request)
        path = f"/v1/requests/{request.id}?wait=30&process={PROCESS}"
        wait = asyncio.create_task(two.call("GET", path))
        await until(lambda: two.hanging)
        assert (await one.decided(request.id)).status == 200
        state = (await asyncio.wait_for(wait, 15)).json
        assert state["decision"]["status"] == "approved"


async def test_many_waits_for_one_request_are_all_woken(gate: Replica) -> None:
    """Each waiter is one task without polling; all hear of the end."""
    request = made()
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}?wait=30"
    waits = []
    for many in range(32, 257, 32):  # all at once they wait for a connection longer than allowed
        waits += [asyncio.create_task(gate.call("GET", path)) for _ in range(32)]
        await until(partial(hang, gate, many))
    await gate.decided(request.id)
    answers = await asyncio.wait_for(asyncio.gather(*waits), 15)
    assert {one.json["status"] for one in answers} == {"approved"}


async def test_all_credentials_together_take_so_many_places(
    server_url: str, namespace: str
) -> None:
    """However many agents there are: beyond the bound each call looks, and none hangs."""
    async with replica(server_url, namespace, limits=Limits(all_waits=2)) as gate:
        await gate.store.apply(POLICY, by="test")
        request = made()
        await gate.submitted(request)
        path = f"/v1/requests/{request.id}?wait=30"
        waits = [
            asyncio.create_task(gate.call("GET", path, token=token))
            for token in (AGENT_TOKEN, ANN_TOKEN)
        ]
        await until(lambda: gate.hanging == 2)
        refused = await asyncio.wait_for(gate.call("GET", path, token=EVE_TOKEN), 15)
        assert refused.problem == (429, "too_many_requests")
        await gate.decided(request.id)
        assert {(await wait).status for wait in waits} == {200}
        assert (await gate.call("GET", path, token=EVE_TOKEN)).status == 200


async def test_one_credential_cannot_take_all_the_places(server_url: str, namespace: str) -> None:
    """Beyond its share its calls are refused at once and told when to come back; others wait."""
    async with replica(server_url, namespace, limits=Limits(waits=2)) as gate:
        await gate.store.apply(POLICY, by="test")
        request = made()
        await gate.submitted(request)
        path = f"/v1/requests/{request.id}?wait=30"
        waits = [asyncio.create_task(gate.call("GET", path)) for _ in range(2)]
        await until(lambda: gate.hanging == 2)
        refused = await asyncio.wait_for(gate.call("GET", path), 15)
        assert refused.problem == (429, "too_many_requests")
        assert refused.headers["Retry-After"] == "2"
        assert (await gate.call("GET", f"/v1/requests/{request.id}")).json["status"] == "pending"
        waits.append(asyncio.create_task(gate.call("GET", path, token=ANN_TOKEN)))
        await until(lambda: gate.hanging == 3)
        waits[0].cancel()
        await until(lambda: gate.hanging == 2)
        waits[0] = asyncio.create_task(gate.call("GET", path))  # the place is free again
        await until(lambda: gate.hanging == 3)
        await gate.decided(request.id)
        assert {(await wait).status for wait in waits} == {200}
        assert not gate.app[SERVICES].waits


async def test_a_wait_ends_with_its_time_and_the_present_state(gate: Replica) -> None:
    """Without news the answer is the state as it stands."""
    request = made()
    await gate.submitted(request)
    answer = await gate.call("GET", f"/v1/requests/{request.id}?wait=0.05")
    assert answer.json["status"] == "pending"


@pytest.mark.parametrize("token", [AGENT_TOKEN, ANN_TOKEN])
async def test_an_ended_request_is_answered_at_once(gate: Replica, token: str) -> None:
    """There is nothing to wait for any more, and a wait beyond the cap is no fault."""
    request = made()
    await gate.submitted(request)
    await gate.decided(request.id)
    path = f"/v1/requests/{request.id}?wait=3600"
    answer = await asyncio.wait_for(gate.call("GET", path, token=token), 15)
    assert answer.json["status"] == "approved"


async def test_a_wait_past_a_revision_is_woken_by_a_newer_one(gate: Replica) -> None:
    """With `revision`, news is a higher one, not only the end: here the agent's process returns."""
    request = made()
    await gate.submitted(request)
    await gate.lapse(PROCESS)
    record = await gate.core.requests.get(request.id)
    path = f"/v1/requests/{request.id}?wait=30&revision={record.revision}"
    wait = asyncio.create_task(gate.call("GET", path, token=ANN_TOKEN))
    await until(lambda: gate.hanging)
    await gate.call("POST", "/v1/sync", {"process": PROCESS, "ids": [request.id]})
    view = (await asyncio.wait_for(wait, 15)).json
    assert (view["status"], view["revision"]) == ("pending", record.revision + 1)
    at_once = gate.call("GET", path, token=ANN_TOKEN)  # the newer revision is there already
    assert (await asyncio.wait_for(at_once, 15)).json["revision"] == record.revision + 1


async def test_a_wait_renews_the_lease_of_its_process(gate: Replica) -> None:
    """Who waits over HTTP counts as waiting, without a sync of its own."""
    request = made()
    await gate.submitted(request)
    await gate.lapse(PROCESS)
    assert (await gate.core.requests.get(request.id)).waiting is False
    await gate.call("GET", f"/v1/requests/{request.id}?wait=0.01&process={PROCESS}")
    assert (await gate.core.requests.get(request.id)).waiting is True


async def test_a_caller_that_hangs_up_leaves_nothing_behind(gate: Replica) -> None:
    """A closed connection ends its wait at once."""
    request = made()
    await gate.submitted(request)
    wait = asyncio.create_task(gate.call("GET", f"/v1/requests/{request.id}?wait=30"))
    await until(lambda: gate.hanging)
    wait.cancel()
    await asyncio.wait({wait})
    await until(lambda: not gate.hanging)


async def test_a_stopping_server_ends_waits_at_once(server_url: str, namespace: str) -> None:
    """A rolling restart does not hang for a minute on its long polls."""
    async with replica(server_url, namespace) as gate:
        await gate.store.apply(POLICY, by="test")
        request = made()
        await gate.submitted(request)
        wait = asyncio.create_task(gate.call("GET", f"/v1/requests/{request.id}?wait=60"))
        await until(lambda: gate.hanging)
        await asyncio.wait_for(gate.served.cleanup(), 15)
        with pytest.raises(ClientError):
            await asyncio.wait_for(wait, 15)


async def test_a_token_revoked_during_the_wait_gets_no_answer(gate: Replica) -> None:
    """Revoking works on calls that already hang: the decision is not handed out."""
    request = made()
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}?wait=30&process={PROCESS}"
    wait: asyncio.Task[Answer] = asyncio.create_task(gate.call("GET", path))
    await until(lambda: gate.hanging)
    del gate.credentials.known[AGENT_TOKEN]
    await gate.decided(request.id)
    assert (await asyncio.wait_for(wait, 15)).problem == (401, "unauthorized")


async def test_a_wait_for_a_foreign_or_unknown_id_does_not_hang(gate: Replica) -> None:
    """Not found is said at once, and equally fast for both."""
    request = made()
    await gate.submitted(request)
    for one in (request.id, new_id()):
        call = gate.call("GET", f"/v1/requests/{one}?wait=60", token=OTHER_TOKEN)
        assert (await asyncio.wait_for(call, 15)).problem == (404, "not_found")


async def test_a_decision_goes_through_when_its_caller_hangs_up(gate: Replica) -> None:
    """A write that has begun is finished, whatever becomes of the connection."""
    request = made()
    await gate.submitted(request)
    async with gate.core.feed.watch(request.id) as wait:
        await gate.store.redis.client_pause(200, all=True)  # the server's answers stand still
        asked = gate.credentials.asked
        click = asyncio.create_task(gate.decided(request.id))
        await until(lambda: gate.credentials.asked > asked)
        click.cancel()
        assert await wait(5)
    assert (await gate.core.requests.get(request.id)).status == "approved"


async def test_no_wait_begins_once_the_server_stops(gate: Replica) -> None:
    """What comes as the server stops, or was on its way, is told to ask again and holds nothing
    up; what needs no wait is answered still."""
    request = made()
    await gate.submitted(request)
    path = f"/v1/requests/{request.id}?wait=30"
    hanging = asyncio.create_task(gate.call("GET", path))
    await until(lambda: gate.hanging)
    await gate.app.shutdown()
    handed_over = await asyncio.wait_for(hanging, 5)  # cut off, and repeated by the HTTP client
    assert handed_over.problem == (503, "unreachable")
    for late, token in ((path, AGENT_TOKEN), (path, ANN_TOKEN), ("/v1/events", ANN_TOKEN)):
        refused = await asyncio.wait_for(gate.call("GET", late, token=token), 5)
        assert refused.problem == (503, "unreachable")
        assert refused.headers["Retry-After"] == "1"
    assert not gate.hanging
    look = await gate.call("GET", f"/v1/requests/{request.id}")
    assert look.json["status"] == "pending"
