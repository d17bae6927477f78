"""Checks a running gateway's surroundings, and says what to do. docs/troubleshooting.md lists
them."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.app import Backend
from gateway.clock import SystemClock
from gateway.records import SCHEMA_VERSION, Mode
from gateway.settings import Settings
from gateway.stores.credentials import AGENT, APPROVER
from gateway.stores.users import user_name

OK, WARN, FAIL = "ok", "warn", "fail"
_LARGEST_CLOCK_GAP_MS = 1000
_CONNECT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding: `result` is ok, warn or fail."""

    name: str
    result: str
    says: str
    remedy: str = ""


async def examine(settings: Settings, backend: Backend) -> list[Check]:
    """Run every check, in the order a person would ask."""
    checks: list[Callable[[Settings, Backend], Awaitable[Check]]] = [
        _port,
        _persistence,
        _eviction,
        _users,
        _clock,
        _schema,
        _approvers,
        _mode,
        _stopped,
        _unread,
        _dead,
    ]
    return [await check(settings, backend) for check in checks]


async def _port(settings: Settings, backend: Backend) -> Check:
    parts = urlsplit(settings.public_url or f"http://{settings.host}:{settings.port}")
    try:
        with socket.create_connection(
            (parts.hostname or "", parts.port or 80), timeout=_CONNECT_SECONDS
        ):
            pass
    except OSError as error:
        return Check(
            name="port",
            result=FAIL,
            says=f"nothing listens at {parts.netloc}: {error.strerror or error}",
            remedy="start `gateway up`, or set GATEWAY_HOST, GATEWAY_PORT or GATEWAY_PUBLIC_URL",
        )
    return Check(name="port", result=OK, says=f"something listens at {parts.netloc}")


async def _persistence(settings: Settings, backend: Backend) -> Check:
    server = await backend.store.server_settings()
    if server.get("appendonly") != "yes":
        return Check(
            name="persistence",
            result=FAIL,
            says="Redis keeps no append-only file; a restart forgets every request",
            remedy="set `appendonly yes` and `appendfsync always`",
        )
    fsync = server.get("appendfsync", "")
    if fsync != "always":
        return Check(
            name="persistence",
            result=WARN,
            says=f"append-only file with fsync {fsync}: a power cut can lose the last second",
            remedy="set `appendfsync always`",
        )
    return Check(name="persistence", result=OK, says="append-only file, fsync always")


async def _eviction(settings: Settings, backend: Backend) -> Check:
    policy = (await backend.store.server_settings()).get("maxmemory-policy")
    if policy != "noeviction":
        return Check(
            name="eviction",
            result=FAIL,
            says=f"Redis may throw requests away when memory is short ({policy})",
            remedy="set `maxmemory-policy noeviction`",
        )
    return Check(name="eviction", result=OK, says="noeviction")


async def _users(settings: Settings, backend: Backend) -> Check:
    users = await backend.store.redis_users()
    names = [row.name for row in await backend.credentials.listed(AGENT)]
    missing = [name for name in names if user_name(backend.store.keys, name) not in users]
    if missing:
        return Check(
            name="acl",
            result=FAIL,
            says=f"these agents have no Redis user: {', '.join(missing)}",
            remedy="gateway agent rotate NAME; give the server an `aclfile` so that users last",
        )
    if not (await backend.store.server_settings()).get("aclfile"):
        return Check(
            name="acl",
            result=WARN,
            says="the server has no ACL file: agents' users are gone when it restarts",
            remedy="set `aclfile`, see deploy/",
        )
    return Check(name="acl", result=OK, says=f"{len(names)} agents, each with a user of its own")


async def _clock(settings: Settings, backend: Backend) -> Check:
    seconds, micros = await backend.store.redis.time()
    gap = SystemClock().now_ms() - (seconds * 1000 + micros // 1000)
    result = OK if abs(gap) <= _LARGEST_CLOCK_GAP_MS else WARN
    remedy = "" if result == OK else "run a time service on both hosts; deadlines follow Redis"
    says = f"this host's clock is {gap} ms ahead of Redis"
    return Check(name="clock", result=result, says=says, remedy=remedy)


async def _schema(settings: Settings, backend: Backend) -> Check:
    # Connecting has refused a newer one already.
    return Check(name="schema", result=OK, says=f"version {SCHEMA_VERSION}")


async def _approvers(settings: Settings, backend: Backend) -> Check:
    policy = await backend.store.policy()
    empty = [route.name for route in policy.routes if not route.approvers]
    if empty or not policy.routes:
        return Check(
            name="approvers",
            result=FAIL,
            says=f"nobody may approve on: {', '.join(empty) or 'default'}",
            remedy="gateway approver add NAME",
        )
    tokens = {row.name for row in await backend.credentials.listed(APPROVER)}
    return Check(
        name="approvers", result=OK, says=f"{len(policy.people)} people, {len(tokens)} with tokens"
    )


async def _mode(settings: Settings, backend: Backend) -> Check:
    policy = await backend.store.policy()
    modes = {route.name: route.mode for route in policy.routes if route.mode is not Mode.ASK}
    if modes:
        said = ", ".join(f"{name}: {mode}" for name, mode in modes.items())
        return Check(
            name="mode",
            result=WARN,
            says=f"these routes ask nobody: {said}",
            remedy="set the route's mode to ask",
        )
    return Check(name="mode", result=OK, says="every route asks people")


async def _stopped(settings: Settings, backend: Backend) -> Check:
    if await backend.store.stopped():
        return Check(
            name="kill switch",
            result=FAIL,
            says="on: everything is denied",
            remedy="gateway resume",
        )
    return Check(name="kill switch", result=OK, says="off")


async def _unread(settings: Settings, backend: Backend) -> Check:
    store = backend.store
    unread = 0
    for agent in await store.agents():
        unread += await store.redis.xlen(store.keys.ingress(agent))
    if unread:
        return Check(
            name="intake",
            result=WARN,
            says=f"{unread} messages of agents wait to be read",
            remedy="is a gateway running on this Redis? see its log for events entry_failed",
        )
    return Check(name="intake", result=OK, says="nothing waits to be read")


async def _dead(settings: Settings, backend: Backend) -> Check:
    count = await backend.store.redis.xlen(backend.store.keys.dead)
    if count:
        return Check(
            name="dead letters",
            result=WARN,
            says=f"{count} messages could not be handled",
            remedy="look at the audit's dead_letter events",
        )
    return Check(name="dead letters", result=OK, says="none")
