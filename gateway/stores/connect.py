"""Connect to Redis or Valkey by one URL (`connect`), or query each server that it leads to
(`each`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import redis.asyncio
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from redis.exceptions import TimeoutError as NoAnswer

from gateway.errors import GatewayError
from gateway.stores.ingress import MOST_BYTES, BoundedParser
from gateway.wire.redis_connection import (
    DEFAULT_PORT,
    DRIVER,
    Multiplexer,
    close_sentinels,
    heed_cancellation,
    heedful,
    hosts_of,
    login_of,
    sentinel_client,
)

AWAY: tuple[type[BaseException], ...] = (NoConnection, NoAnswer, ConnectionError)
"""Errors that mean an unreachable server, not a fault of the gateway."""

_COMMAND_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_RETRIES = 3
_PAUSES = (0.05, 0.1, 0.2)  # the same as the pool's
_CONNECTIONS = 48
_READERS = 1000


_FORMS = (
    "REDIS_URL is invalid. Write redis://user:password@host:6379/0, rediss://... for TLS, "
    "unix:///path, redis+sentinel://host:26379/service or redis+cluster://host:6379, and "
    "percent-encode special characters in the password (docs/reference/configuration.md)."
)


class UnusableUrl(GatewayError):
    """The Redis URL is invalid."""

    code = "unusable_url"
    exit_code = 2


def connect(url: str, *, blocking: bool = False) -> Any:
    """Return a redis.asyncio client for `url`.

    `gateway.wire.redis_connection` lists the forms of URLs. A `blocking` client has no socket
    timeout, so callers must limit each read. It also rejects replies that are too large
    (`gateway.stores.ingress`). Raises UnusableUrl, whose message never contains the URL.
    """
    try:
        return _connect(url, blocking)
    except (ValueError, TypeError):
        raise UnusableUrl(_FORMS) from None


def _connect(url: str, blocking: bool) -> Any:
    options: dict[str, Any] = {
        "decode_responses": True,
        # An agent may write any bytes; they must not break readers.
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
    # Opens nothing, but rejects unknown options.
    pool.make_connection()  # type: ignore[no-untyped-call]
    return redis.asyncio.Redis.from_pool(pool)


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[Multiplexer | None]:
    """Yield one shared connection for scripts, or None for a cluster, which has several servers."""
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
    """Raises connection errors when a cluster is unreachable, because redis-py's errors for that
    are not RedisErrors."""

    async def initialize(self, *args: Any, **kwargs: Any) -> _Cluster:
        with _as_lost_connection():
            await super().initialize(*args, **kwargs)
        return self

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        with _as_lost_connection():
            return await super().execute_command(*args, **kwargs)


def _prepare(cluster: _Cluster, blocking: bool) -> _Cluster:
    """Make a cluster client use this module's connection class, and the bounded parser if
    `blocking`. The client's constructor has no option for either."""
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
    """Raises NoConnection if another task closed the connection while this one waited to write.
    This happens with cluster nodes."""

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
    """Close a client that `connect` returned, and its connections to Sentinels."""
    await client.aclose()
    await close_sentinels(getattr(client, "connection_pool", None))


# Every server behind one URL. Users and settings do not replicate, so each server is handled.

_SECONDS = 5.0
_GONE = ("noaddr", "handshake")
_ONE = "redis"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Generic[T]):
    """Results by `host:port`, and the reason for each server that did not respond."""

    answers: dict[str, T]
    silent: dict[str, str]


async def each(client: Any, work: Callable[[Any], Awaitable[T]]) -> Heard[T]:
    """Run `work` on each server: primaries and replicas, including those that are down.

    Raises an error only if `work` failed on all servers.
    """
    addresses = await _addresses(client)
    if not addresses:
        return Heard(answers={_ONE: await work(client)}, silent={})
    login = _login(client)
    done = await asyncio.gather(
        *(_at(host, port, login, work) for host, port in addresses), return_exceptions=True
    )
    answers: dict[str, T] = {}
    failures: dict[str, Exception] = {}
    for (host, port), result in zip(addresses, done, strict=True):
        if isinstance(result, RedisError | OSError):
            failures[f"{host}:{port}"] = result
        elif isinstance(result, BaseException):
            raise result
        else:
            answers[f"{host}:{port}"] = result
    if not answers:
        raise next(iter(failures.values()))
    return Heard(answers=answers, silent={name: str(error) for name, error in failures.items()})


async def _at(
    host: str, port: int, login: dict[str, Any], work: Callable[[Any], Awaitable[T]]
) -> T:
    async with _plain(host, port, login) as node:
        return await work(node)


def _plain(host: str, port: int, login: dict[str, Any]) -> Any:
    client = redis.asyncio.Redis(
        host=host,
        port=port,
        decode_responses=True,
        encoding_errors="replace",
        socket_timeout=_SECONDS,
        socket_connect_timeout=_SECONDS,
        retry=Retry(NoBackoff(), 1),
        **login,
    )
    heed_cancellation(client.connection_pool)
    return client


def _login(client: Any) -> dict[str, Any]:
    pool = getattr(client, "connection_pool", None)
    known = pool.connection_kwargs if pool else client.connection_kwargs
    return {name: known[name] for name in ("username", "password") if known.get(name)}


async def _addresses(client: Any) -> list[tuple[str, int]]:
    """Return the servers of a Sentinel service or cluster, or nothing for a single server."""
    pool = getattr(client, "connection_pool", None)
    if hasattr(client, "get_nodes"):
        return await _of_cluster(client)
    if hasattr(pool, "sentinel_manager"):
        return await _of_sentinel(pool)
    return []


async def _of_sentinel(pool: Any) -> list[tuple[str, int]]:
    # Not `discover_slaves`, which leaves out replicas that are down.
    primary = await pool.sentinel_manager.discover_master(pool.service_name)
    for sentinel in pool.sentinel_manager.sentinels:
        try:
            replicas = await sentinel.sentinel_slaves(pool.service_name)
        except (RedisError, OSError):
            continue
        found = [primary, *((one["ip"], one["port"]) for one in replicas)]
        return [(str(host), int(port)) for host, port in dict.fromkeys(found)]
    raise NoConnection("no Sentinel responds")


async def _of_cluster(client: Any) -> list[tuple[str, int]]:
    # Not the client's own list, because servers leave out replicas that are down.
    await client.initialize()
    known = {node.name for node in client.get_nodes()}
    for node in client.get_nodes():
        try:
            rows = await _at(node.host, node.port, _login(client), _cluster_nodes)
        except (RedisError, OSError):
            continue
        found = []
        for address, row in rows.items():
            if not any(flag in row["flags"] for flag in _GONE):
                host, _, port = address.rpartition(":")
                # A server that does not know its own address leaves it out.
                by_name = f"{row['hostname']}:{port}"
                found.append((row["hostname"] if by_name in known else host or node.host, port))
        return [(host, int(port)) for host, port in found]
    raise NoConnection("no server of the cluster responds")


async def _cluster_nodes(node: Any) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = await node.execute_command("CLUSTER NODES")
    return rows


PACKED_BYTES = 2048
"""Servers should store fields of a record up to this length in packed form."""

_SETTINGS = (
    "append*",
    "maxmemory-policy",
    "aclfile",
    "proto-max-bulk-len",
    "min-replicas-to-write",
    "hash-max-*-value",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Settings and state of one server. `default` lists the rights of clients without a user name.

    `replicas` is the number of connected replicas. `cut` means that it should replicate another
    server but does not. `used` of `room` bytes hold data; a room of 0 means no limit.
    """

    settings: dict[str, str]
    users: frozenset[str]
    default: str
    replicas: int
    cut: bool
    used: int
    room: int


def packs_records(server: Facts) -> bool:
    """Return whether a server stores long records in compact form, which saves a third of the
    memory. The setting has two names, depending on the server."""
    names = ("hash-max-listpack-value", "hash-max-ziplist-value")
    return max(int(server.settings.get(name, 0)) for name in names) >= PACKED_BYTES


def writes_alone(servers: Collection[Facts]) -> bool:
    """Return whether a server with replicas accepts writes while no replica is connected."""
    several = len(servers) > 1 or any(one.replicas for one in servers)
    return several and any(one.settings.get("min-replicas-to-write") == "0" for one in servers)


async def facts(client: Any) -> Heard[Facts]:
    """Query each server for its settings and users."""
    return await each(client, _facts)


async def _facts(node: Any) -> Facts:
    settings: dict[str, str] = {}
    for pattern in _SETTINGS:
        settings |= await node.config_get(pattern)
    users = frozenset(await node.acl_users())
    replication = await node.info("replication")
    default = await _default_rights(node)
    memory = await node.info("memory")
    return Facts(
        settings=settings,
        users=users,
        default=default,
        replicas=int(replication.get("connected_slaves", 0)),
        cut=replication.get("master_link_status", "up") != "up",
        used=int(memory["used_memory"]),
        room=int(memory["maxmemory"]),
    )


async def _default_rights(node: Any) -> str:
    """Return the rights of a client without a user name, or an empty result if it has none."""
    try:
        user = await node.acl_getuser("default")
    except ResponseError as error:
        return f"unknown, {error}"
    if user is None or not user["enabled"]:
        return ""
    granted = [word for word in (*user["categories"], *user["commands"]) if word.startswith("+")]
    return " ".join(granted) or ("selectors" if user.get("selectors") else "")
