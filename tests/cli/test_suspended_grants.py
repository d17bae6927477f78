"""A gateway that starts on what was remembered under other declarations, and what it tells."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gateway.doctor import OK, WARN, Check, examine
from gateway.models import Kind, Status
from gateway.policy.grants.grant import Grant
from gateway.server.app import Gateway, run_gateway
from gateway.server.connections import open_backend
from gateway.server.settings import Settings
from tests.cli.shell import Shell
from tests.outdated import outdated
from tests.waiting import moment
from tests.world import over_http, request

pytestmark = pytest.mark.thorough

CALL = {"kind": Kind.COMMAND, "arguments": {"command": "cat a.txt"}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of a gateway with an engine of its own, which lives on in its folder."""
    return Settings(data_dir=tmp_path / "state", port=0, adapters=())


async def before(settings: Settings) -> Grant:
    """Leave what was remembered of a command under other declarations."""
    async with run_gateway(settings) as gateway:
        record, _ = await gateway.core.approvals.submit(request(**CALL), over_http(None))
        await gateway.core.grants.suspend_outdated()  # it does not look again before it ends
        return await outdated(gateway.backend.store, record, queues=())


async def remembered(settings: Settings, gateway: Gateway) -> Check:
    """Return what doctor says of what is remembered."""
    found = await examine(settings, lambda: open_backend(settings, gateway.backend.url))
    return next(check for check in found if check.name == "remembered")


async def answered(gateway: Gateway) -> Status:
    """Return what an agent is told when it asks the same again."""
    return (await gateway.core.approvals.submit(request(**CALL), over_http(None)))[0].status


async def suspended(gateway: Gateway) -> None:
    """Wait until the gateway has looked through what is remembered."""
    async with asyncio.timeout(20):
        while not all(one.outdated for one in await gateway.core.grants.all()):
            await moment()


async def listed(gateway: Gateway, shell: Shell, *words: str) -> str:
    """Return what `gateway grant list` prints to ann."""
    made = await gateway.backend.credentials.add_approver("ann")
    env = {"GATEWAY_URL": gateway.url, "GATEWAY_APPROVER_TOKEN": made.token}
    said = await asyncio.to_thread(shell.apart, "grant", "list", *words, env=env)
    await gateway.backend.credentials.revoke_approver("ann")
    return said


async def test_what_is_outdated_rests_from_the_next_start_on(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is listed with its reason, doctor counts it, and it is said once."""
    grant = await before(settings)
    shell = Shell(tmp_path)
    for start in range(2):
        caplog.clear()
        async with run_gateway(settings) as gateway:
            assert await answered(gateway) is Status.PENDING
            await suspended(gateway)
            said = await listed(gateway, shell, "--suspended")
            if start == 0:
                row = json.loads(await listed(gateway, shell, "--suspended", "--json"))
                assert (await listed(gateway, shell)).count("\n     suspended: ") == 1
            check = await remembered(settings, gateway)
            events = await gateway.backend.store.history(None, 1000)
        assert said.startswith(grant.id)
        assert said.count("\n     suspended: ") == 1
        assert f"suspended: {row['outdated']['why']}; let the agent ask again" in said
        assert "the declaration of its tool" in said
        assert (check.result, check.says) == (
            WARN,
            "1 of 1 grants are suspended",
        )
        assert [one.type for one in events].count("grant_outdated") == 1
        told = [one for one in caplog.records if one.name == "gateway.approvals"]
        assert len(told) == (1 if start == 0 else 0)


async def test_doctor_is_content_once_it_was_ended(settings: Settings) -> None:
    """Whoever revokes what rests is not reminded of it."""
    grant = await before(settings)
    async with run_gateway(settings) as gateway:
        await suspended(gateway)
        assert (await remembered(settings, gateway)).result == WARN
        await gateway.core.grants.end([grant], "revoked", "ann")
        assert (await remembered(settings, gateway)).result == OK


async def test_one_that_cannot_be_read_keeps_no_gateway_from_starting(settings: Settings) -> None:
    """It decides nothing, as long as nothing says what it is."""
    grant = await before(settings)
    async with run_gateway(settings) as gateway:
        redis, keys = gateway.backend.store.redis, gateway.backend.store.keys
        await redis.hset(keys.grant(grant.id), "body", '{"id":"unheard of"}')
    async with run_gateway(settings) as gateway:
        assert await answered(gateway) is Status.PENDING
