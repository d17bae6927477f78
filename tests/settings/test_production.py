"""What production refuses, and that it starts on what is safe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.doctor import OK, examine
from gateway.errors import GatewayError
from gateway.server.app import run_adapter, run_gateway
from gateway.server.connections import Backend, open_backend
from gateway.server.settings import Settings
from gateway.server.start_up_checks import OPEN_DEFAULT, UnsafeSettings
from gateway.stores.backup import AGENTS, BackupFile, confirm_held, load_backup, write_backup
from gateway.stores.connect import connect
from gateway.stores.embedded_server import find_server_binary
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from tests.frame.test_compose import Server
from tests.ports import free_port
from tests.settings.test_settings import server
from tests.world import SEED

_USERS = "user default off\nuser gateway on >secret ~* &* +@all\n"


def settings(url: str, **changes: Any) -> Settings:
    """Return production's settings on this Redis, all else safe."""
    values: dict[str, Any] = {
        "env": "production",
        "REDIS_URL": url,
        "port": 0,
        "adapters": (),
        "signing_key": SEED,
    }
    return Settings(**{**values, **changes})


def process(kind: str, chosen: Settings) -> AbstractAsyncContextManager[Any]:
    """Return a gateway, or an adapter as a process of its own."""
    return run_gateway(chosen) if kind == "gateway" else run_adapter(chosen, "web")


@pytest.fixture
async def safe(tmp_path: Path) -> AsyncIterator[tuple[Settings, Backend]]:
    """Yield a server that production takes, and its namespace with an approver."""
    port, acl = free_port(), tmp_path / "users.acl"
    acl.write_text(_USERS, encoding="ascii")
    words = ["--port", str(port), "--aclfile", str(acl), "--appendonly", "yes"]
    words += ["--maxmemory-policy", "noeviction"]
    login = {"username": "gateway", "password": "secret"}
    with server(str(find_server_binary()), tmp_path / "data", *words, port=port, **login):
        url = f"redis://gateway:secret@127.0.0.1:{port}"
        async with open_backend(settings(url), url) as backend:
            await backend.credentials.add_approver("ann")
            yield settings(url), backend


@pytest.mark.parametrize("kind", ["gateway", "adapter"])
async def test_everything_that_is_unsafe_is_named(
    server_url: str, namespace: str, kind: str
) -> None:
    """One sentence each, all at once: the test server keeps nothing and nobody may approve.

    The first policy, which is written before, lets no author's declarations count.
    """
    unsafe = settings(server_url, namespace=namespace, host="0.0.0.0", signing_key=None)
    store = RedisStore(connect(server_url), Keys(namespace))
    await store.register_agent("orphan")
    with pytest.raises(UnsafeSettings) as refused:
        async with process(kind, unsafe):
            pass
    for word in ("SIGNING_KEY", "TLS", "append-only", "orphan", "approver add", OPEN_DEFAULT):
        assert word in str(refused.value), word
    assert (await store.policy()).trust_declarations == ()
    await store.redis.aclose()


@pytest.mark.parametrize("kind", ["gateway", "adapter"])
async def test_it_starts_on_what_is_safe(safe: tuple[Settings, Backend], kind: str) -> None:
    """Also after agents came and went: what is left of a revoked one is no reason to refuse."""
    chosen, backend = safe
    for name in ("stays", "goes"):
        await backend.credentials.add_agent(name)
    await backend.credentials.revoke_agent("goes")
    async with process(kind, chosen):
        pass


@pytest.mark.parametrize(
    "rule", [["on", "nopass", "+ping"], ["on", ">password", "+@all"], ["on", "(+get ~*)"]], ids=str
)
async def test_a_default_user_with_rights_is_refused(
    safe: tuple[Settings, Backend], rule: list[str]
) -> None:
    """Whatever it may do, with a password or without: everybody must have a name."""
    chosen, backend = safe
    await backend.store.redis.execute_command("ACL", "SETUSER", "default", *rule)
    with pytest.raises(UnsafeSettings, match="default off"):
        async with run_gateway(chosen):
            pass


async def test_a_default_user_without_rights_is_harmless(safe: tuple[Settings, Backend]) -> None:
    """On, but allowed nothing."""
    chosen, backend = safe
    await backend.store.redis.execute_command("ACL", "SETUSER", "default", "on", "nopass", "-@all")
    async with run_gateway(chosen):
        pass


async def test_it_is_refused_when_the_server_does_not_tell(
    safe: tuple[Settings, Backend],
) -> None:
    """A gateway's user that may not look at users cannot know that they are safe."""
    chosen, backend = safe
    await backend.store.redis.execute_command("ACL", "SETUSER", "gateway", "-acl|getuser")
    with pytest.raises(UnsafeSettings, match="default off"):
        async with run_gateway(chosen):
            pass


async def test_it_needs_a_redis_of_its_own() -> None:
    """The embedded server is refused."""
    with pytest.raises(GatewayError, match="REDIS_URL"):
        async with run_gateway(settings("redis://unused", REDIS_URL=None)):
            pass


async def test_the_compose_file_is_a_setting_that_passes(tmp_path: Path) -> None:
    """With its own server line, its users file, and the gateway's user of few rights."""
    valkey = Server(tmp_path)
    valkey.start()
    try:
        url = (valkey.secrets / "redis_url").read_text()
        local = url.replace("@valkey:6379", f"@127.0.0.1:{valkey.port}")
        chosen = settings(
            local,
            data_dir=tmp_path / "state",
            archive=tmp_path / "archive",
            host="0.0.0.0",
            trusted_proxy=True,
            public_url="http://gateway:8080",
            signing_key=(valkey.secrets / "signing_key").read_text().strip(),
        )
        async with open_backend(chosen, local) as backend:
            await backend.credentials.add_approver("ann", admin=True)
            made = await backend.credentials.add_agent("ci")
            assert made.kept
            async with run_gateway(chosen):
                pass
            checks = await examine(chosen, lambda: open_backend(chosen, local))
            await backend.credentials.revoke_agent("ci")
        found = {
            check.name: check.result for check in checks if check.name not in ("port", "ready")
        }
        assert set(found.values()) == {OK}
    finally:
        valkey.kill()


async def test_a_restored_gateway_starts_before_its_agents_are_confirmed(
    safe: tuple[Settings, Backend], tmp_path: Path
) -> None:
    """The restore deleted the agents' Redis users; confirmed or added again, they need one."""
    chosen, backend = safe
    store, file = backend.store, tmp_path / "gw.backup"
    for agent in ("bot", "ci"):
        await backend.credentials.add_agent(agent)
    head = {"namespace": "gw", "version": "1", "made": await store.now(), "public_key": ""}
    await write_backup(store, file, head)
    await store.redis.flushdb()
    await load_backup(store, BackupFile(file))
    await store.redis.delete(store.keys.restoring)
    async with run_gateway(chosen):
        pass
    made = await backend.credentials.add_agent("ci")
    await store.redis.execute_command("ACL", "DELUSER", made.redis_user)
    with pytest.raises(UnsafeSettings, match="no separate Redis user: ci:"):
        async with run_gateway(chosen):
            pass
    await confirm_held(store, AGENTS)
    with pytest.raises(UnsafeSettings, match="no separate Redis user: bot, ci:"):
        async with run_gateway(chosen):
            pass
