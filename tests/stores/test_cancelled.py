"""A task that is cancelled while it sends a command to Redis ends, at whatever point that is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

import adapters
import gateway
from gateway.stores.connect import connect, disconnect
from gateway.wire.redis_connection import heedful, pool_at

TURNS = 60  # of the event loop: more than the longest command takes


@pytest.mark.parametrize("fresh", [True, False], ids=["connects", "is-connected"])
async def test_a_cancelled_command_ends_at_every_turn(
    server_url: str, namespace: str, fresh: bool
) -> None:
    """redis-py limits a write by a function that swallows the cancelling on Python 3.11."""
    goes_on, ended = list[int](), 0
    for turns in range(TURNS):
        client = connect(server_url)
        if not fresh:
            await client.get(namespace)
        task = asyncio.create_task(client.get(namespace))
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel():  # it had not ended before
            try:
                await task
                goes_on.append(turns)
            except asyncio.CancelledError:
                ended += 1
        assert await client.incr(namespace) == turns + 1, "an answer of another command"
        await disconnect(client)
    assert goes_on == []
    assert ended > 2


@pytest.mark.parametrize(
    "url",
    ["redis://h", "rediss://h", "unix:///s", "redis+sentinel://h/main", "redis+cluster://h"],
)
@pytest.mark.parametrize("blocking", [True, False])
async def test_every_connection_heeds_it(url: str, blocking: bool) -> None:
    """Over TLS, a socket, Sentinel or Cluster, with or without a limit."""
    client = connect(url, blocking=blocking)
    pool = getattr(client, "connection_pool", None)
    kind = pool.connection_class if pool else client.get_connection_kwargs()["connection_class"]
    assert "_Heedful" in [one.__name__ for one in kind.__mro__]
    await disconnect(client)


@pytest.mark.parametrize("url", ["redis://h", "unix:///s", "redis+cluster://h"])
def test_an_agents_connection_heeds_it(url: str) -> None:
    """Its URL may set a limit for each write."""
    assert "_Heedful" in [one.__name__ for one in type(pool_at(url).make_connection()).__mro__]


class _Swallowing:
    """A connection whose write returns as if it had not been cancelled, on any Python."""

    def __init__(self) -> None:
        self.closed = False

    async def send_packed_command(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async def disconnect(self, *, nowait: bool) -> None:
        self.closed = nowait


async def test_a_swallowed_end_is_an_end() -> None:
    """And the connection is not used again: the reply that is on its way is nobody's."""
    connection = heedful(_Swallowing)()
    task = asyncio.create_task(connection.send_packed_command())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()
    assert connection.closed


def test_nothing_of_ours_waits_so() -> None:
    """`asyncio.timeout` limits any wait, and swallows nothing."""
    roots = (Path(one.__file__ or "").parent for one in (gateway, adapters))
    files = [path for root in roots for path in root.rglob("*.py")]
    assert len(files) > 250
    assert [f for f in files if "asyncio.wait_for(" in f.read_text(encoding="utf-8")] == []
