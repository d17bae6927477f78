"""One real server for all tests of the API; each test has a namespace of its own on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.models import new_id
from gateway.stores.embedded_server import running_engine
from tests.api.replica import POLICY, Replica, replica


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of a running server."""
    folder: Path = tmp_path_factory.mktemp("engine")
    async with running_engine(folder) as engine:
        yield engine.url


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return f"t{new_id()}"


@pytest_asyncio.fixture
async def gate(server_url: str, namespace: str) -> AsyncIterator[Replica]:
    """A replica with a policy under which Ann approves."""
    async with replica(server_url, namespace) as one:
        await one.store.apply(POLICY, by="test")
        yield one
