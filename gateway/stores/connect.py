"""Connects to Redis or Valkey: one server, TLS, a socket, Sentinel or Cluster, by one URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis.asyncio
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisClusterException
from redis.exceptions import TimeoutError as NoAnswer

from gateway.errors import GatewayError
from gateway.stores.ingress import MOST_BYTES, BoundedParser
from gateway.wire.redis_address import (
    DEFAULT_PORT,
    DRIVER,
    close_sentinels,
    heed_cancellation,
    heedful,
    hosts_of,
    login_of,
    sentinel_client,
)
from gateway.wire.redis_multiplexer import Multiplexer

AWAY: tuple[type[BaseException], ...] = (NoConnection, NoAnswer, ConnectionError)
"""What is raised where a server is away, which is no fault of the gateway's."""

_COMMAND_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_RETRIES = 3
_PAUSES = (0.05, 0.1, 0.2)  # as long as those of the pool
_CONNECTIONS = 48
_READERS = 1000


_FORMS = (
    "REDIS_URL cannot be read. Write redis://user:password@host:6379/0, rediss://... for TLS, "
    "unix:///path, redis+sentinel://host:26379/service or redis+cluster://host:6379, and "
    "percent-encode what is not a letter or digit in the password (docs/configuration.md)."
)


class UnusableUrl(GatewayError):
    """The URL of Redis is written wrong."""

    code = "unusable_url"
    exit_code = 2


def connect(url: str, *, blocking: bool = False) -> Any:
    """Return a redis.asyncio client for `url`.

    Its forms are those of `gateway.wire.redis_address`. A `blocking` client has no socket
    timeout: its callers put a watchdog around each read, and an answer that is too large is given
    up (`gateway.stores.ingress`). Raises UnusableUrl, which never tells the URL.
    """
    try:
        return _connect(url, blocking)
    except (ValueError, TypeError):
        raise UnusableUrl(_FORMS) from None


def _connect(url: str, blocking: bool) -> Any:
    options: dict[str, Any] = {
        "decode_responses": True,
        # An agent may write any bytes; they must not break whoever reads them.
        "encoding_errors": "replace",
        "socket_timeout": None if blocking else _COMMAND_SECONDS,
        "socket_connect_timeout": _CONNECT_SECONDS,
        "retry": Retry(ExponentialBackoff(cap=1.0, base=0.05), _RETRIES),
        "driver_info": DRIVER,
    }
    parts = urlsplit(url)
    if parts.scheme == "redis+sentinel":
        return sentinel_client(
            parts, **options, **({"parser_class": BoundedParser} if blocking else {})
        )
    if parts.scheme == "redis+cluster":
        nodes = [ClusterNode(host, port) for host, port in hosts_of(parts, DEFAULT_PORT)]
        cluster = _Cluster(startup_nodes=nodes, **login_of(parts), **options)
        return _prepare(cluster, blocking)
    if blocking:
        options["parser_class"] = BoundedParser
        pool = redis.asyncio.ConnectionPool.from_url(url, max_connections=_READERS, **options)
    else:
        # Callers beyond the limit wait for a connection instead of failing.
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url, max_connections=_CONNECTIONS, timeout=_COMMAND_SECONDS, **options
        )
    heed_cancellation(pool)
    # Opens nothing; refuses options that there are not.
    pool.make_connection()  # type: ignore[no-untyped-call]
    return redis.asyncio.Redis.from_pool(pool)


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[Multiplexer | None]:
    """Yield a line for scripts, or None where there is more than one server to send them to."""
    if urlsplit(url).scheme == "redis+cluster":
        yield None
        return
    client = connect(url, blocking=True)
    line = Multiplexer(client.connection_pool, _PAUSES, most_bytes=MOST_BYTES)
    try:
        yield line
    finally:
        await line.aclose()
        await disconnect(client)


class _Cluster(redis.asyncio.RedisCluster):
    """A cluster that is away fails as one server does: its own errors are no `RedisError`."""

    async def initialize(self, *args: Any, **kwargs: Any) -> _Cluster:
        with _as_lost_connection():
            await super().initialize(*args, **kwargs)
        return self

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        with _as_lost_connection():
            return await super().execute_command(*args, **kwargs)


def _prepare(cluster: _Cluster, blocking: bool) -> _Cluster:
    """Have a cluster's connections be ours, and use our parser if they are `blocking`: its
    constructor takes no name for either."""
    cluster.get_connection_kwargs()["connection_class"] = _Connection
    for node in cluster.startup_nodes:
        node.connection_class = _Connection
    if blocking:
        for one in (
            cluster.get_connection_kwargs(),
            *(n.connection_kwargs for n in cluster.startup_nodes),
        ):
            one["parser_class"] = BoundedParser
    return cluster


class _Connection(heedful(redis.asyncio.Connection)):  # type: ignore[misc]
    """A connection that another task closes while one waits to write to it, as that of a cluster's
    node may be, is lost like any other."""

    async def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
        try:
            await super().send_packed_command(*args, **kwargs)
        except AttributeError as error:
            if error.name != "writelines" or error.obj is not None:
                raise
            raise NoConnection("the connection was closed") from error


@contextmanager
def _as_lost_connection() -> Iterator[None]:
    try:
        yield
    except RedisClusterException as error:
        raise NoConnection(str(error)) from error


async def disconnect(client: Any) -> None:
    """Close a client of `connect`, and the connections to Sentinels behind it."""
    await client.aclose()
    await close_sentinels(getattr(client, "connection_pool", None))
