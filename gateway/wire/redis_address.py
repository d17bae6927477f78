"""Where Redis is: the forms that its URL may have, and connections to its primary.

`redis://`, `rediss://` and `unix://` as redis-py reads them;
`redis+sentinel://[user:password@]host:port[,host:port]/service[/db]` asks Sentinel for the primary
at every connect; `redis+cluster://[user:password@]host:port[,host:port]` leads to a cluster.
"""

from __future__ import annotations

import asyncio
import random
from functools import cache
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo

DRIVER = DriverInfo()
"""What each connection tells the server of redis-py, which would look its version up for each."""

DEFAULT_PORT = 6379
_SENTINEL_PORT = 26379
_SENTINEL_SECONDS = 5.0


def pool_at(url: str, **options: Any) -> Any:
    """Return a pool whose connections lead to the primary of a URL. It opens nothing.

    Raises ValueError for what is no such URL; the error does not tell it.
    """
    parts = urlsplit(url)
    options = {"driver_info": DRIVER, **options}
    if parts.scheme == "redis+sentinel":
        return sentinel_client(parts, **options).connection_pool
    if parts.scheme == "redis+cluster":
        return ClusterPool(parts, **options)
    pool = redis.asyncio.ConnectionPool.from_url(url, **options)
    heed_cancellation(pool)
    return pool


class ClusterPool:
    """Connections to the one node of a cluster that holds a namespace.

    A namespace is in one slot. Any node is asked first, and says where that is: see `move_to`.
    """

    def __init__(self, parts: SplitResult, **options: Any) -> None:
        self._seeds = hosts_of(parts, DEFAULT_PORT)
        self._options = {**login_of(parts), **options}
        self._place: tuple[str, int] | None = None

    def make_connection(self) -> redis.asyncio.Connection:
        """Return a connection that is not open yet: to the node that was named last, once, and
        from then on to any until another is named."""
        host, port = self._place or random.choice(self._seeds)
        self._place = None
        connection: redis.asyncio.Connection = heedful(redis.asyncio.Connection)(
            host=host, port=port, **self._options
        )
        return connection

    def move_to(self, host: str, port: int) -> None:
        """Have the next connection lead there, as a node said."""
        self._place = host, port


class _Heedful:
    """Mixed into a connection: ends the command of a task that was cancelled while it was written.

    redis-py 8.1 limits a write by `asyncio.wait_for`. On Python 3.11 that returns as if nothing had
    happened where the write is done in the same turn, and the task would go on for ever.
    """

    async def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        await super().send_packed_command(*args, **kwargs)  # type: ignore[misc]
        if task.cancelling() > before:
            # Its reply would be taken for that of the next command.
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise asyncio.CancelledError


@cache
def heedful(connection: type) -> Any:
    """Return a class of connections that heeds cancellation while a command is written."""
    return type(f"Heedful{connection.__name__}", (_Heedful, connection), {})


def heed_cancellation(pool: Any) -> None:
    """Have the connections that a pool makes from now on heed cancellation."""
    pool.connection_class = heedful(pool.connection_class)


def sentinel_client(parts: SplitResult, **options: Any) -> Any:
    """Return a redis.asyncio client of the primary of a Sentinel service. Raises ValueError."""
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("a redis+sentinel URL names the service")
    sentinel = _Sentinel(  # type: ignore[no-untyped-call]
        hosts_of(parts, _SENTINEL_PORT),
        sentinel_kwargs={
            "socket_timeout": _SENTINEL_SECONDS,
            "socket_connect_timeout": _SENTINEL_SECONDS,
            "decode_responses": True,
            # The next one is asked at once; the command that wants to know tries again itself.
            "retry": Retry(NoBackoff(), 0),
        },
    )
    client = sentinel.master_for(service, db=int(database or 0), **login_of(parts), **options)
    for one in (client, *sentinel.sentinels):
        heed_cancellation(one.connection_pool)
    return client


class _Sentinel(Sentinel):
    """Says in a sentence that there is no primary; redis-py prints its connections."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        try:
            found: tuple[str, int] = await super().discover_master(service_name)
        except MasterNotFoundError:
            raise MasterNotFoundError(
                f"no Sentinel answers with a primary of {service_name}"
            ) from None
        return found


async def close_sentinels(pool: Any) -> None:
    """Close the connections to Sentinels behind a pool, if there are any."""
    manager = getattr(pool, "sentinel_manager", None)
    for sentinel in manager.sentinels if manager else ():
        await sentinel.aclose()


def login_of(parts: SplitResult) -> dict[str, Any]:
    """Return the user and password of a URL, as redis-py names them."""
    user, at, _ = parts.netloc.rpartition("@")
    if not at:
        return {}
    name, _, password = user.partition(":")
    login = {"password": unquote(password)}
    return {"username": unquote(name), **login} if name else login


def hosts_of(parts: SplitResult, default_port: int) -> list[tuple[str, int]]:
    """Return the hosts and ports that a URL lists."""
    listed = parts.netloc.rpartition("@")[2].split(",")
    named = (one.rpartition(":") if ":" in one else (one, ":", "") for one in listed)
    return [(host, int(port or default_port)) for host, _, port in named]
