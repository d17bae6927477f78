"""Every server behind one URL: users and settings do not replicate, so each is told and asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisError, ResponseError

from gateway.wire.redis_address import heed_cancellation

_SECONDS = 5.0
_GONE = ("noaddr", "handshake")
_ONE = "redis"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(Generic[T]):
    """What the servers answered by `host:port`, and why the others did not."""

    answers: dict[str, T]
    silent: dict[str, str]


async def each(client: Any, work: Callable[[Any], Awaitable[T]]) -> Heard[T]:
    """Do `work` with a connection to each server: primaries and replicas, those that are down too.

    Raises what went wrong when it went wrong on all of them.
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
    """Return where the servers of a Sentinel service or a cluster are; nothing for one server."""
    pool = getattr(client, "connection_pool", None)
    if hasattr(client, "get_nodes"):
        return await _of_cluster(client)
    if hasattr(pool, "sentinel_manager"):
        return await _of_sentinel(pool)
    return []


async def _of_sentinel(pool: Any) -> list[tuple[str, int]]:
    # Not `discover_slaves`: it leaves out those that are down.
    primary = await pool.sentinel_manager.discover_master(pool.service_name)
    for sentinel in pool.sentinel_manager.sentinels:
        try:
            replicas = await sentinel.sentinel_slaves(pool.service_name)
        except (RedisError, OSError):
            continue
        found = [primary, *((one["ip"], one["port"]) for one in replicas)]
        return [(str(host), int(port)) for host, port in dict.fromkeys(found)]
    raise NoConnection("no Sentinel answers")


async def _of_cluster(client: Any) -> list[tuple[str, int]]:
    # Not the client's own list: servers leave out replicas that are down.
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
                # A server that was never told its own address leaves it out.
                by_name = f"{row['hostname']}:{port}"
                found.append((row["hostname"] if by_name in known else host or node.host, port))
        return [(host, int(port)) for host, port in found]
    raise NoConnection("no server of the cluster answers")


async def _cluster_nodes(node: Any) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = await node.execute_command("CLUSTER NODES")
    return rows


PACKED_BYTES = 2048
"""How long a field of a record may be that a server is to keep packed."""

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
    """What one server says of itself. `default` is what nobody in particular may do there.

    `replicas` are those that follow it now, whether or not we were told where they are; `cut` says
    that it should follow another, and does not. `used`
    bytes of its `room` hold data; no room means that nothing bounds it.
    """

    settings: dict[str, str]
    users: frozenset[str]
    default: str
    replicas: int
    cut: bool
    used: int
    room: int


def packs_records(server: Facts) -> bool:
    """Whether a server keeps a record packed, however long what is in it: half as much again is
    what it takes otherwise. Servers know the setting by one name or two."""
    names = ("hash-max-listpack-value", "hash-max-ziplist-value")
    return max(int(server.settings.get(name, 0)) for name in names) >= PACKED_BYTES


def writes_alone(servers: Collection[Facts]) -> bool:
    """Whether a server that has replicas, or may get them, takes writes that none of them has."""
    several = len(servers) > 1 or any(one.replicas for one in servers)
    return several and any(one.settings.get("min-replicas-to-write") == "0" for one in servers)


async def facts(client: Any) -> Heard[Facts]:
    """Ask each server for its settings and users."""
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
    """Return what a client may do that names no user; empty when it may do nothing."""
    try:
        user = await node.acl_getuser("default")
    except ResponseError as error:
        return f"unknown, {error}"
    if user is None or not user["enabled"]:
        return ""
    granted = [word for word in (*user["categories"], *user["commands"]) if word.startswith("+")]
    return " ".join(granted) or ("selectors" if user.get("selectors") else "")
