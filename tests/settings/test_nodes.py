"""Agents' users on every server of a Sentinel service and of a cluster, also while one is down."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from gateway.doctor import OK, WARN, examine
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import NotFound, Unreachable
from gateway.server.connections import open_backend
from gateway.server.settings import Settings
from gateway.stores.connect import connect, disconnect, facts
from gateway.stores.credentials import NewCredential, RedisCredentials
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from tests.ports import free_port
from tests.settings.test_settings import server

pytestmark = [
    pytest.mark.xdist_group("nodes"),
    pytest.mark.thorough,
]  # one server or build for all of them

# A stopping primary does not wait for its replica, and a new replica is known within a second.
_QUICK = ["--shutdown-timeout", "0", "--repl-ping-replica-period", "1"]


@pytest.fixture(scope="module")
def binary() -> str:
    """Return the distribution's server; the gateway's own is tested everywhere else."""
    found = shutil.which("redis-server")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("there is no redis-server on this machine")
        pytest.skip("needs the distribution's server: apt-get install redis-server")
    return found


@dataclass
class Group:
    """A primary and its replica, each with an ACL file, started and stopped one by one."""

    binary: str
    folder: Path
    words: tuple[str, ...] = ()
    own: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    ports: list[int] = field(default_factory=lambda: [free_port(), free_port()])
    running: dict[int, ExitStack] = field(default_factory=dict)

    def start(self, which: int) -> None:
        """Start one of the two, as it was when it stopped."""
        folder = self.folder / str(which)
        folder.mkdir(exist_ok=True)
        acl = folder / "users.acl"
        acl.touch()
        port = self.ports[which]
        every = ["--port", str(port), "--aclfile", str(acl), *_QUICK, *self.words, *self.own[which]]
        self.running[which] = ExitStack()
        self.running[which].enter_context(server(self.binary, folder, *every, port=port))

    def stop(self, which: int) -> None:
        """Stop one of the two."""
        self.running.pop(which).close()

    def says(self, which: int, *command: str) -> Any:
        """Return what one of the two answers."""
        with redis.Redis(port=self.ports[which], decode_responses=True) as client:
            return client.execute_command(*command)

    def users(self, which: int) -> set[str]:
        """Return the users of one of the two, without `default`."""
        return set(self.says(which, "ACL", "USERS")) - {"default"}

    def close(self) -> None:
        """Stop what runs."""
        for which in list(self.running):
            self.stop(which)


@contextmanager
def sentinel_of(group: Group, folder: Path) -> Iterator[str]:
    """Watch a primary and its replica with a Sentinel; yield the URL of the service."""
    group.own = ((), ("--replicaof", "127.0.0.1", str(group.ports[0])))
    for which in (0, 1):
        group.start(which)
    watcher = free_port()
    config = folder / "sentinel.conf"
    watched = f"sentinel monitor main 127.0.0.1 {group.ports[0]} 1\n"
    config.write_text(watched + "sentinel down-after-milliseconds main 500\n", encoding="ascii")
    words = [str(config), "--sentinel", "--port", str(watcher)]
    with server(group.binary, folder / "sentinel", *words, port=watcher):
        with redis.Redis(port=watcher) as client:
            while not client.sentinel_slaves("main"):
                continue
        yield f"redis+sentinel://127.0.0.1:{watcher}/main"


@contextmanager
def cluster_of(group: Group) -> Iterator[str]:
    """Make a cluster of a primary and its replica; yield its URL."""
    group.own = (("--cluster-port", str(free_port())), ("--cluster-port", str(free_port())))
    for which in (0, 1):
        group.start(which)
    group.says(0, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
    group.says(1, "CLUSTER", "MEET", "127.0.0.1", str(group.ports[0]), group.own[0][1])
    primary = group.says(0, "CLUSTER", "MYID")
    while primary not in str(group.says(1, "CLUSTER NODES")):
        continue
    replicates(group, primary)
    while str(group.ports[1]) not in str(group.says(0, "CLUSTER", "SLOTS")):
        continue
    while group.says(0, "CLUSTER INFO")["cluster_state"] != "ok":
        continue
    yield f"redis+cluster://127.0.0.1:{group.ports[0]},127.0.0.1:{group.ports[1]}"


def replicates(group: Group, primary: str) -> None:
    """Make the second server follow the first, once it has heard enough of it."""
    while True:
        try:
            group.says(1, "CLUSTER", "REPLICATE", primary)
        except redis.ResponseError:
            continue
        return


@pytest.fixture(scope="module", params=["sentinel", "cluster"])
def group(
    request: pytest.FixtureRequest, binary: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Group, str]]:
    """Yield two servers and the URL that leads to both."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sentinel":
        made = Group(binary, folder)
        entered = sentinel_of(made, folder)
    else:
        made = Group(binary, folder, ("--cluster-enabled", "yes", "--cluster-node-timeout", "500"))
        entered = cluster_of(made)
    try:
        with entered as url:
            yield made, url
    finally:
        made.close()


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[RedisStore]:
    """Connect as the operator's commands do."""
    client = connect(url)
    try:
        yield RedisStore(client, Keys("two"))
    finally:
        await disconnect(client)


def as_agent(group: Group, which: int, new: NewCredential) -> bool:
    """Tell whether a server lets the agent in."""
    client = redis.Redis(
        port=group.ports[which],
        username=new.redis_user,
        password=new.redis_password,
        retry=Retry(NoBackoff(), 0),  # redis-py takes a refused login for a lost connection
    )
    with client:
        try:
            return bool(client.ping())
        except redis.AuthenticationError:
            return False


async def test_a_user_is_made_changed_and_removed_on_every_server(
    group: tuple[Group, str],
) -> None:
    """Whichever server is primary tomorrow knows the agents of today, and no others."""
    servers, url = group
    async with store_at(url) as store, asyncio.timeout(40):
        credentials = RedisCredentials(store, SystemClock())
        first = await credentials.add_agent("ci")
        assert first.silent == {}
        assert [as_agent(servers, which, first) for which in (0, 1)] == [True, True]
        second = await credentials.rotate_agent("ci")
        assert [as_agent(servers, which, first) for which in (0, 1)] == [False, False]
        assert [as_agent(servers, which, second) for which in (0, 1)] == [True, True]
        await credentials.revoke_agent("ci")
        assert not any(second.redis_user in servers.users(which) for which in (0, 1))
        with pytest.raises(NotFound):
            await credentials.revoke_agent("ci")


async def test_a_server_that_is_down_is_reported(group: tuple[Group, str]) -> None:
    """Revoking does what it can, says where the user may live on, and can be repeated there."""
    servers, url = group
    async with store_at(url) as store, asyncio.timeout(40):
        credentials = RedisCredentials(store, SystemClock())
        made = await credentials.add_agent("gone")
        servers.stop(1)
        late = await credentials.add_agent("late")
        assert [name.rpartition(":")[2] for name in late.silent] == [str(servers.ports[1])]
        with pytest.raises(Unreachable, match=str(servers.ports[1])):
            await credentials.revoke_agent("gone")
        assert servers.users(0) == {late.redis_user}
        assert await credentials.authenticate(made.token) is None
        servers.start(1)
        assert servers.users(1) == {made.redis_user}
        while (await facts(store.redis)).silent:
            continue
        for name in ("gone", "late"):
            await credentials.revoke_agent(name)
        assert [servers.users(which) for which in (0, 1)] == [set(), set()]


async def test_replicas_that_nobody_named_are_found(group: tuple[Group, str]) -> None:
    """Behind one address of many servers users would be other ones after a fail-over."""
    servers, url = group
    while not servers.says(0, "INFO", "replication")["connected_slaves"]:
        continue
    expected = {url: OK}
    if "sentinel" in url:  # a cluster refuses to be addressed as one server
        expected[f"redis://127.0.0.1:{servers.ports[0]}"] = WARN
    for address, result in expected.items():
        settings = Settings.model_validate({"REDIS_URL": address})
        checks = await examine(settings, partial(open_backend, settings, address))
        assert {check.name: check.result for check in checks}["servers"] == result
