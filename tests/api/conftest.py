"""What all tests of the API share: a replica on the real server."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.api.replica import POLICY, Replica, replica


@pytest_asyncio.fixture
async def gate(server_url: str, namespace: str) -> AsyncIterator[Replica]:
    """A replica with a policy under which Ann approves."""
    async with replica(server_url, namespace) as one:
        await one.store.apply(POLICY, by="test")
        yield one
