"""The owner whom the first start makes, and the link that is printed for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gateway.server.app import run_gateway
from gateway.server.settings import Settings
from gateway.server.start_up_checks import OWNER, first_login
from gateway.stores.credentials import APPROVER
from gateway.wire.local_discovery import OWNER_FILE, read_private


async def test_the_owner_is_made_once(tmp_path: Path) -> None:
    """Every start prints a link that logs the owner in, and keeps the owner's token."""
    settings = Settings(data_dir=tmp_path / "data", port=0, adapters=())
    async with run_gateway(settings) as gateway:
        links = [await first_login(gateway.backend, gateway.url, settings) for _ in range(2)]
        kept = read_private(settings.data_dir / OWNER_FILE)
        assert kept is not None
        assert await gateway.backend.credentials.authenticate(kept["token"])
        for link in links:
            assert gateway.url in link[0]
            session = await gateway.backend.logins.redeem(link[0].rpartition("=")[2], address="")
            found = await gateway.backend.logins.who(session)
            assert found is not None
            assert found.id == OWNER


async def test_a_log_gets_no_link(tmp_path: Path) -> None:
    """Who reads the service's log reads which command prints one, and no code."""
    settings = Settings(data_dir=tmp_path / "data", port=0, adapters=())
    async with run_gateway(settings) as gateway:
        assert await first_login(gateway.backend, gateway.url, settings, link=False) == [
            "Answer in the browser with the link of: gateway login owner"
        ]
        assert await gateway.backend.store.redis.keys("*login*") == []


async def test_no_link_for_an_owner_who_was_revoked(tmp_path: Path) -> None:
    """The file that is left of them gives nobody a login."""
    settings = Settings(data_dir=tmp_path / "data", port=0, adapters=())
    async with run_gateway(settings) as gateway:
        await first_login(gateway.backend, gateway.url, settings)
        await gateway.backend.credentials.add_approver("ann")
        await gateway.backend.credentials.revoke_approver(OWNER)
        assert (settings.data_dir / OWNER_FILE).exists()
        assert await first_login(gateway.backend, gateway.url, settings) == [
            "Log in with the link of: gateway login NAME"
        ]


async def test_replicas_that_start_at_once_make_one_owner(
    tmp_path: Path, server_url: str, namespace: str
) -> None:
    """There is one token, somebody is shown a link, and no start falls over."""

    def settings(name: str) -> Settings:
        values: dict[str, Any] = {"REDIS_URL": server_url, "namespace": namespace}
        return Settings(data_dir=tmp_path / name, port=0, adapters=(), **values)

    one, two = settings("one"), settings("two")
    async with run_gateway(one) as first, run_gateway(two) as second:
        starts = [(first.backend, first.url, one), (second.backend, second.url, two)] * 3
        lines = await asyncio.gather(*(first_login(*start) for start in starts))
        owners = await first.backend.credentials.list_all(APPROVER)
    assert any("inbox/login" in line[0] for line in lines)
    assert [row.name for row in owners] == [OWNER]


async def test_who_came_back_is_told_apart_over_the_older_protocol_too(
    tmp_path: Path, server_url: str, namespace: str
) -> None:
    """It tells a hash in another shape: a session from before a departure stays over."""
    url = SecretStr(f"{server_url}?protocol=2")
    settings = Settings(
        data_dir=tmp_path / "data", port=0, adapters=(), namespace=namespace, REDIS_URL=url
    )
    async with run_gateway(settings) as gateway:
        logins, credentials = gateway.backend.logins, gateway.backend.credentials
        await credentials.add_approver("ann")
        before = await logins.redeem(await logins.invite("ann"), address="")
        assert await logins.who(before) is not None
        await credentials.revoke_approver("ann")
        assert await logins.who(before) is None
        await credentials.add_approver("ann")
        after = await logins.redeem(await logins.invite("ann"), address="")
        assert await logins.who(before) is None
        found = await logins.who(after)
        assert found is not None
        assert found.id == "ann"
