"""The figures for Prometheus: what is asked of the store, what this process counts, what it is."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.domain.policy_document import Mode, Route
from gateway.models import new_id
from gateway.server.background import run_in_background, watch_loop
from gateway.stores.audit import Sealer
from gateway.stores.ingress import REPLICA_LEASE_MS
from tests.api.replica import ANN_TOKEN, Replica, made
from tests.api.test_operations import figures
from tests.waiting import moment
from tests.world import policy

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http-api.md"


async def test_how_long_requests_waited_is_told_by_how_they_ended(gate: Replica) -> None:
    """Each counts once where it ended: alone, in a batch or withdrawn; not when asked again."""
    one, two, three, gone = (made() for _ in range(4))
    for request in (one, two, three, gone):
        await gate.submitted(request)
    for _ in range(2):
        await gate.decided(one.id)
    items = [{"id": each.id, "revision": 1} for each in (two, three)]
    batch = {"action": "deny", "items": items}
    assert (await gate.call("POST", "/v1/batches", batch, token=ANN_TOKEN)).status == 200
    await gate.call("POST", f"/v1/requests/{gone.id}/cancel", {})
    found = await figures(gate)
    counted = {
        status: found[f"gateway_waited_seconds_count[('status', '{status}')]"]
        for status in ("approved", "denied", "cancelled", "expired")
    }
    assert counted == {"approved": 1, "denied": 2, "cancelled": 1, "expired": 0}
    assert found["gateway_waited_seconds_bucket[('le', '60.0'), ('status', 'denied')]"] == 2
    assert 0 < found["gateway_waited_seconds_sum[('status', 'denied')]"] < 60


async def test_what_stands_still_is_seen(gate: Replica) -> None:
    """The kill switch, paused agents, replicas, what is not sealed and what is not taken in."""
    store = gate.store
    for name in ("intake_messages", "intake_seconds", "stopped", "paused_agents", "replicas"):
        assert (await figures(gate))[f"gateway_{name}"] == 0, name
    await store.set_stopped(True, by="ann")
    late = await store.now() + 60_000
    await store.redis.hset(store.keys.breakers, mapping={"one": late, "two": 1})
    await store.redis.zadd(store.keys.replicas, {"a": late, "b": late, "killed": 1})
    for agent in ("wrong", "slow", "quick"):
        await store.register_agent(agent)
    await store.redis.set(store.keys.ingress("wrong"), "no stream")
    await store.redis.xadd(
        store.keys.ingress("slow"), {"v": "1"}, id=f"{await store.now() - 70_000}-0"
    )
    await store.redis.xadd(store.keys.ingress("quick"), {"v": "1"})
    found = await figures(gate)
    assert found["gateway_stopped"] == 1
    assert found["gateway_paused_agents"] == 1
    assert found["gateway_replicas"] == 2
    assert found["gateway_intake_messages"] == 2
    assert 70 <= found["gateway_intake_seconds"] < 130
    assert found["gateway_redis_memory_bytes"] > 100_000


async def test_what_is_not_sealed_has_its_age(gate: Replica) -> None:
    """The age of the first event that no seal covers, none once it is sealed."""
    await gate.store.note("first", data={})
    await Sealer(gate.store, gate.core.feed).seal_all()
    assert (await figures(gate))["gateway_unsealed_seconds"] == 0
    early, _ = await gate.store.redis.time()
    head, _, _ = (await gate.store.redis.hget(gate.store.keys.meta, "sealed")).partition("-")
    await gate.store.redis.hset(gate.store.keys.meta, "sealed", f"{int(head) - 9_000_000}-0")
    await gate.store.redis.delete(gate.store.keys.events)
    old = {"t": "x", "at": "1", "agent": "", "id": "", "rev": "0", "d": "{}"}
    await gate.store.redis.xadd(gate.store.keys.events, old, id=f"{(early - 90) * 1000}-0")
    assert 89 <= (await figures(gate))["gateway_unsealed_seconds"] < 150


async def test_the_page_is_there_while_redis_is_away(
    gate: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, with what is known without it, and leaves out what would be out of date."""
    await gate.submitted()
    assert (await figures(gate))["gateway_redis_up"] == 1
    monkeypatch.setattr("gateway.api.metrics._ASK_SECONDS", 0.05)
    await gate.store.redis.client_pause(300, all=True)
    found = await figures(gate)
    assert found["gateway_redis_up"] == 0
    assert "gateway_pending_requests" not in found
    assert found["gateway_troubles[('severity', 'down')]"] == 0


async def test_answers_are_counted_by_status(gate: Replica) -> None:
    """Each call counts once, also those that are refused before they reach an operation."""
    await gate.call("GET", f"/v1/requests/{new_id()}")
    await gate.call("GET", "/v1/requests", token=None)
    await gate.call("GET", "/nowhere")
    await gate.call("GET", "/healthz", token=None, headers={"Host": "elsewhere.example"})
    found = await figures(gate)
    name = "gateway_http_responses_total[('status', '{}')]"
    assert [found.get(name.format(status)) for status in (200, 401, 404)] == [1, 1, 2]


async def test_calls_are_timed_by_route_and_kind_of_answer(gate: Replica) -> None:
    """No word of a caller's becomes a label: neither ids, unknown paths nor methods."""
    for _ in range(2):
        await gate.call("GET", f"/v1/requests/{new_id()}")
    await gate.submitted()
    await gate.call("GET", f"/{new_id()}")
    await gate.call("DELETE", "/v1/requests")
    found = await figures(gate)
    counts = {
        name: value
        for name, value in found.items()
        if name.startswith("gateway_http_seconds_count") and "/metrics" not in name
    }
    form = "gateway_http_seconds_count[('method', '{}'), ('route', '{}'), ('status', '{}')]"
    assert counts == {
        form.format("GET", "/v1/requests/{id}", "4xx"): 2,
        form.format("POST", "/v1/requests", "2xx"): 1,
        form.format("*", "none", "4xx"): 2,
    }
    total = found[form.format("POST", "/v1/requests", "2xx").replace("_count", "_sum")]
    assert 0 < total < 10


async def test_answers_without_a_person_are_timed(gate: Replica) -> None:
    """A rule's, once for each request; not those that wait for a person."""
    await gate.submitted()
    name = "gateway_unasked_seconds"
    assert (await figures(gate))[f"{name}_count"] == 0
    await policy(gate.store, Route(mode=Mode.AUTO_APPROVE))
    gate.core.writer.forget_policy()
    request = made()
    for _ in range(2):
        await gate.submitted(request)
    found = await figures(gate)
    assert found[f"{name}_count"] == 1
    assert 0 < found[f"{name}_sum"] < 10
    assert found[f"{name}_bucket[('le', '5.0')]"] == 1


async def test_a_loop_that_was_held_up_is_seen(gate: Replica) -> None:
    """The time for which nothing else got its turn counts, and little where nobody holds it."""
    lags, name = gate.core.tally.lags, "gateway_loop_lag_seconds"
    async with run_in_background("loop", partial(watch_loop, gate.core.tally)):
        while not sum(lags.counts):
            await moment()
        calm, until = lags.seconds, time.monotonic() + 0.8
        while time.monotonic() < until:
            pass  # a long computation: nothing else gets its turn
        while lags.seconds < calm + 0.25:
            await moment()
    found = await figures(gate)
    assert found[f"{name}_sum"] == lags.seconds
    assert found[f"{name}_bucket[('le', '0.25')]"] < found[f"{name}_count"]


async def test_the_leaders_lease_has_its_age(gate: Replica) -> None:
    """Each renewal begins it again; without a leader it is as old as a lease may be."""
    keys, redis = gate.store.keys, gate.store.redis
    lease = REPLICA_LEASE_MS / 1000
    assert (await figures(gate))["gateway_lease_seconds"] == lease
    await redis.hset(keys.owners, "duty", "one")
    await redis.zadd(keys.replicas, {"one": await gate.store.now() + REPLICA_LEASE_MS - 2000})
    assert 2 <= (await figures(gate))["gateway_lease_seconds"] < lease
    await redis.zadd(keys.replicas, {"one": await gate.store.now() - 60_000})
    assert (await figures(gate))["gateway_lease_seconds"] >= lease + 60


async def test_process_and_build_are_told(gate: Replica) -> None:
    """Which version runs, and what the process takes."""
    found = await figures(gate)
    assert any(name.startswith("gateway_build_info[") for name in found)
    assert found["process_resident_memory_bytes"] > 1_000_000


@pytest.mark.parametrize("host", ["gateway-1:8080", "evil.example", "10.0.0.5.evil.example", "a1"])
async def test_a_scrape_by_another_name_is_refused(gate: Replica, host: str) -> None:
    """A web page could give such a name to the gateway's address."""
    answer = await gate.call("GET", "/metrics", token=None, headers={"Host": host})
    assert answer.problem == (421, "wrong_host")


@pytest.mark.parametrize("host", ["10.0.0.5:8787", "10.1.2.3", "[fd00::1]:8080", "gateway.example"])
async def test_a_scrape_at_an_address_is_answered(gate: Replica, host: str) -> None:
    """So Prometheus finds each gateway, and only the metrics of it."""
    headers = {"Host": host}
    assert (await gate.call("GET", "/metrics", token=None, headers=headers)).status == 200
    own = host == "gateway.example"
    assert (await gate.call("GET", "/v1/requests", headers=headers)).status == (200 if own else 421)


async def test_a_proxy_publishes_no_metrics(gate: Replica) -> None:
    """Whoever calls through it, and however often the header stands."""
    for told in ("203.0.113.9", "", "127.0.0.1, 203.0.113.9"):
        headers = {"X-Forwarded-For": told}
        answer = await gate.call("GET", "/metrics", token=None, headers=headers)
        assert (answer.status, answer.json["code"]) == (404, "not_found")
    assert (await gate.call("GET", "/metrics", token=None)).status == 200


async def test_every_figure_stands_in_the_docs(gate: Replica) -> None:
    """The page about the HTTP API names every family that is served."""
    page = await gate.call("GET", "/metrics", token=None)
    text = PAGE.read_text(encoding="utf-8")
    served = [family.name for family in text_string_to_metric_families(page.text)]
    assert len(served) > 20
    ours = {one.removesuffix("_created") for one in served if one.startswith("gateway_")}
    missing = [name for name in sorted(ours) if f"`{name}" not in text]
    assert missing == []
