"""What all tests share: one real server for the run, and a namespace of its own for each test."""

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

import pytest
import redis

from gateway.client import blocking_client
from gateway.domain.redaction import key_masks
from gateway.server import plugins
from gateway.stores.connect import connect
from gateway.stores.embedded_server import find_server_binary
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from tests.api.replica import POLICY, Replica, replica
from tests.frame.tree import ROOT
from tests.world import World, assembled

for _name in [name for name in os.environ if name.startswith(("GATEWAY_", "REDIS_"))]:
    del os.environ[_name]


MASK_KEY = b"of all tests"
key_masks(MASK_KEY)  # also for what is drawn while tests are collected


@pytest.fixture(autouse=True)
def _masks() -> None:
    """Have masks of the same secret look the same in each run, whatever a test did with the key."""
    key_masks(MASK_KEY)


@cache
def _installed(path: tuple[str, ...], group: str) -> EntryPoints:
    return entry_points(group=group)


def _offers(*, group: str, **wanted: Any) -> EntryPoints:
    return _installed(tuple(sys.path), group).select(**wanted)


@pytest.fixture(autouse=True, scope="session")
def _packages() -> Iterator[None]:
    """Read what each package offers once for each search path: every start of a gateway would read
    the metadata of all of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plugins, "entry_points", _offers)
        yield


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have each worker load its share of the tests first: in a new clone pytest compiles them all,
    and what one worker has compiled the others only read."""
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    named = [Path(one.partition("::")[0]) for one in session.config.args]
    files = {file for one in named for file in ([one] if one.is_file() else one.rglob("test_*.py"))}
    for file in sorted(files)[int(worker["workerid"][2:]) :: worker["workercount"]]:
        # What a file raises is met again, and told, when its tests are collected.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.resolve().relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Have the garbage collector pass over what lives as long as the run, eight thousand tests, and
    look for the rest more seldom: it took one second in seven."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """Run the real server for the whole test run; yield the URL of its private socket."""
    with tempfile.TemporaryDirectory(prefix="agw") as folder:
        socket = Path(folder) / "s"
        command = [str(find_server_binary()), "--port", "0", "--unixsocket", str(socket)]
        process = subprocess.Popen(
            [*command, "--save", "", "--dir", folder], stdout=subprocess.DEVNULL
        )
        url = f"unix://{socket}"
        _wait_for(url, process)
        yield url
        process.terminate()
        process.wait(timeout=40)


def _wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    with redis.Redis.from_url(url) as client:
        while True:
            assert process.poll() is None, "the server of the tests ended"
            try:
                client.ping()
            except redis.ConnectionError:
                continue
            return


@pytest.fixture
def own_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the test default clients of its own: those of an earlier test know another gateway."""
    clients = blocking_client._ProcessClient()
    monkeypatch.setattr(blocking_client, "_shared", clients)
    yield
    for one in clients._made.values():
        one.close()


@pytest.fixture
def namespace() -> str:
    """Return a namespace that no other test has."""
    return f"t{os.urandom(6).hex()}"


@pytest.fixture
async def store(server_url: str, namespace: str) -> AsyncIterator[RedisStore]:
    """Yield a store on the real server."""
    client = connect(server_url)
    made = RedisStore(client, Keys(namespace))
    await made.check_schema()
    yield made
    await client.aclose()


@pytest.fixture
async def world(server_url: str, namespace: str) -> AsyncIterator[World]:
    """Yield a gateway without HTTP: store, feed, approvals, and the intake of agent `bot`."""
    async with assembled(server_url, namespace) as made:
        yield made


@pytest.fixture
async def gate(server_url: str, namespace: str) -> AsyncIterator[Replica]:
    """Yield a replica with a policy under which Ann approves."""
    async with replica(server_url, namespace) as made:
        await made.store.apply(POLICY, by="test")
        yield made
