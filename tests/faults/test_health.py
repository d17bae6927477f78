"""What a gateway says of itself while Redis refuses to write, and what people can do then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from gateway.errors import Unreachable
from gateway.models import Action, Status
from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from gateway.stores.connect import connect, disconnect
from gateway.stores.scripts import NotRecorded
from tests.faults.server import Server, own_server
from tests.waiting import moment
from tests.world import AGENT, World, assembled, click, over_http, request


class Site:
    """A whole gateway on a server of its own that can be made to refuse."""

    def __init__(self, url: str, server: Any, world: World) -> None:
        self.url, self.server, self.world = url, server, world

    async def ready(self) -> tuple[int, dict[str, Any]]:
        """Return what /readyz says."""
        async with aiohttp.ClientSession() as http, http.get(f"{self.url}/readyz") as answer:
            return answer.status, await answer.json()

    async def metrics(self) -> str:
        """Return the figures for Prometheus."""
        async with aiohttp.ClientSession() as http, http.get(f"{self.url}/metrics") as answer:
            return await answer.text()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Server]:
    """Yield a server of its own."""
    async with own_server(tmp_path) as server:
        yield server


@pytest.fixture
async def site(
    engine: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    """Yield a gateway on that server, with people who may answer. It looks at every call."""
    monkeypatch.setattr("gateway.server.background._FRESH_SECONDS", 0.0)
    settings = Settings(
        data_dir=tmp_path / "data", port=0, adapters=("web",), REDIS_URL=SecretStr(engine.url)
    )
    server = connect(engine.url)
    async with assembled(engine.url, "gw") as world, run_gateway(settings) as gateway:
        yield Site(gateway.url, server, world)
    await disconnect(server)


async def test_a_full_redis_is_degraded_and_people_still_decide(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so to probes, metrics and the log, once; and it says when that is over."""
    assert await site.ready() == (200, {"status": "ready"})
    waiting = [await site.world.submit() for _ in range(3)]
    used = int((await site.server.info("memory"))["used_memory"])
    await site.server.config_set("maxmemory", used - 1)
    status, said = await site.ready()
    assert (status, said["status"]) == (200, "degraded")
    assert said["problems"] == [
        "Redis is full, so new requests are rejected; people can still decide, revoke grants and "
        "use the kill switch"
    ]
    assert 'gateway_troubles{severity="degraded"} 1.0' in await site.metrics()
    with pytest.raises(Unreachable, match="Redis is full"):
        await site.world.submit()
    for record, action in zip(waiting, (Action.DENY, Action.APPROVE, Action.DENY), strict=True):
        site.world.core.writer.forget_policy()  # as after any change of it
        done = await site.world.core.requests.decide(click(record, action))
        assert done.status is (Status.APPROVED if action is Action.APPROVE else Status.DENIED)
    await site.ready()
    await site.server.config_set("maxmemory", 0)
    assert await site.ready() == (200, {"status": "ready"})
    told = [one.getMessage() for one in caplog.records if one.name == "gateway.domain"]
    assert [one.startswith("resolved: ") for one in told] == [False, True]


@pytest.mark.parametrize("remember", [None, {"lifetime": "1d"}])
async def test_a_full_redis_makes_no_recorded_answer_an_error(
    site: Site, remember: dict[str, str] | None
) -> None:
    """Over HTTP it is answered with 200, and a warning where something else was asked for."""
    token = (await site.world.credentials.add_approver("zoe")).token
    site.world.core.writer.forget_policy()
    record = await site.world.submit()
    await site.server.config_set(
        "maxmemory", int((await site.server.info("memory"))["used_memory"])
    )
    body = {"revision": record.revision, "action": "deny", "remember": remember}
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{site.url}/v1/requests/{record.id}/decide"
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.post(url, json={name: one for name, one in body.items() if one}) as answer,
    ):
        told = await answer.json()
    assert (answer.status, told["status"]) == (200, "denied")
    assert bool(told.get("warning")) == (remember is not None)
    if remember:
        assert "your decision was recorded" in told["warning"]
        assert "Redis is full" in told["warning"]


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("replicaof", "127.0.0.1 1", "this Redis is a read-only replica"),
        ("min-replicas-to-write", "1", "too few replicas are connected to Redis"),
    ],
)
async def test_where_nothing_is_recorded_it_is_not_ready_and_says_why(
    site: Site, setting: str, value: str, why: str
) -> None:
    """Every decision is refused with that reason, and none is lost once it can be written."""
    record = await site.world.submit()
    if setting == "replicaof":
        await site.server.replicaof(*value.split())
    else:
        await site.server.config_set(setting, value)
    status, said = await site.ready()
    assert (status, said["status"]) == (503, "not ready")
    assert said["problems"][0] == f"nothing was recorded: {why}"
    for action in (Action.APPROVE, Action.DENY):
        with pytest.raises(NotRecorded, match=why):
            await site.world.core.requests.decide(click(record, action))
    if setting == "replicaof":
        await site.server.replicaof("NO", "ONE")
    else:
        await site.server.config_set(setting, "0")
    assert (await site.ready())[0] == 200
    done = await site.world.core.requests.decide(click(record, Action.APPROVE))
    assert done.status is Status.APPROVED


async def test_where_the_kill_switch_was_lost_it_is_not_ready(site: Site) -> None:
    """Until an operator says whether it was on; a request that came meanwhile is refused."""
    record = await site.world.submit()
    await site.server.delete(site.world.store.keys.meta)
    status, said = await site.ready()
    assert (status, said["status"]) == (503, "not ready")
    assert said["problems"][0].endswith(
        "run `gateway stop-all`, or `gateway resume` if agents may continue"
    )
    with pytest.raises(NotRecorded, match="kill switch"):
        await site.world.submit()
    await site.world.store.set_stopped(False, by="root")
    assert (await site.ready())[0] == 200
    site.world.core.writer.forget_policy()
    done = await site.world.core.requests.decide(click(record, Action.APPROVE))
    assert done.status is Status.APPROVED


async def test_a_target_that_takes_no_cards_is_told_until_it_does(site: Site) -> None:
    """Whichever replica finds it; also until no route names it any more."""
    store = site.world.store
    refused = {"target": "slack:C1", "why": "channel_not_found"}
    for delivered in (True, False):
        while (await site.ready())[1]["status"] == "ready":
            await store.note("undelivered", agent=AGENT, data=refused)  # card by card
            await moment()
        status, said = await site.ready()
        assert (status, said["problems"]) == (
            200,
            ["cannot post cards to slack:C1: channel_not_found"],
        )
        if delivered:
            await store.note("delivered", agent=AGENT, data={"target": "slack:C1"})
        else:
            await store.apply(await store.policy(), by="test")
        while (await site.ready())[1]["status"] != "ready":
            await moment()


async def test_a_redis_that_is_gone_is_not_ready(site: Site, engine: Server) -> None:
    """Nothing can be recorded anywhere."""
    await engine.kill()
    status, said = await site.ready()
    while status == 200:
        await moment()
        status, said = await site.ready()
    assert said["problems"][0].startswith("nothing can be recorded, because Redis does not respond")
    await engine.start()
    while (await site.ready())[0] != 200:
        await moment()


async def test_a_clock_that_is_set_back_loses_no_request(world: World) -> None:
    """An agent whose name was given to it an hour ahead of the clock still has its requests."""
    hour = 3_600_000
    ahead = await world.store.now() + hour
    origin = replace(over_http(), since=ahead)
    record, _ = await world.core.approvals.submit(request(), origin)
    assert [one.id for one in await world.core.approvals.sync([record.id], origin)] == [record.id]
    assert (await world.core.approvals.fetch(record.id, origin)).id == record.id
    decided = await world.core.requests.decide(click(record, Action.APPROVE))
    assert decided.status is Status.APPROVED


async def test_a_clock_that_is_set_back_gives_nobody_the_requests_of_another(world: World) -> None:
    """A name that is given anew is newer than whatever was asked under it before."""
    ahead = await world.store.now() + 3_600_000
    await world.store.redis.xadd(world.store.keys.events, {"type": "x"}, id=f"{ahead}-0")
    since = await world.store.register_agent(AGENT)
    assert since > ahead
    assert since > (await world.submit()).created
