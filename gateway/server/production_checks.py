"""Refuses unsafe settings in production, naming all problems at once."""

from __future__ import annotations

import ipaddress
import logging

from gateway.errors import GatewayError
from gateway.server.settings import Settings
from gateway.stores.redis_users import user_name
from gateway.stores.requests import RedisStore
from gateway.stores.servers import facts, writes_alone

log = logging.getLogger("gateway.production")

OPEN_DEFAULT = (
    "The Redis user default is on, so whoever reaches the server needs no name: give the gateway a "
    "user as in deploy/users.acl.example, put it into REDIS_URL, then ACL SETUSER default off and "
    "ACL SAVE."
)


class UnsafeSettings(GatewayError):
    """The settings are not fit for production."""

    code = "unsafe_settings"
    exit_code = 2


async def refuse_unsafe(settings: Settings, store: RedisStore) -> None:
    """Raise UnsafeSettings when the settings are not fit for production."""
    if not settings.production:
        return
    found = [*_own(settings), *await _of_server(store), *await _of_policy(store)]
    if found:
        raise UnsafeSettings("production refuses to start: " + " ".join(found))


def _own(settings: Settings) -> list[str]:
    found = []
    if settings.signing_key is None:
        found.append("GATEWAY_SIGNING_KEY is unset, so agents cannot verify decisions.")
    if not settings.secure and not _is_loopback(settings.host):
        found.append(
            f"HTTP would listen on {settings.host} without TLS: set GATEWAY_TLS_CERT and "
            "GATEWAY_TLS_KEY, or GATEWAY_TRUSTED_PROXY when a proxy speaks TLS for us."
        )
    return found


async def _of_server(store: RedisStore) -> list[str]:
    """Return the problems of every server that answers: any replica may become the primary."""
    heard = await facts(store.redis)
    for server, why in heard.silent.items():
        log.warning("%s was not checked: %s", server, why, extra={"event": "server_unchecked"})
    every = heard.answers.values()
    found = []
    if any(one.settings.get("appendonly") != "yes" for one in every):
        found.append("Redis keeps no append-only file: set appendonly yes.")
    if any(one.settings.get("maxmemory-policy") != "noeviction" for one in every):
        found.append("Redis may evict requests: set maxmemory-policy noeviction.")
    if writes_alone(every):
        found.append("A fail-over of Redis may lose decisions: set min-replicas-to-write 1.")
    if any(one.default for one in every):
        found.append(OPEN_DEFAULT)
    without = [
        agent
        for agent in await store.agents()
        if all(user_name(store.keys, agent) not in one.users for one in every)
    ]
    if without:
        found.append(
            f"These agents have no Redis user of their own: {', '.join(without)}: "
            "gateway agent rotate NAME."
        )
    return found


async def _of_policy(store: RedisStore) -> list[str]:
    policy = await store.policy()
    empty = [name for route in policy.routes for name in route.unanswered] or (
        [] if policy.routes else ["default"]
    )
    if empty:
        return [f"Nobody may approve on the routes {', '.join(empty)}: gateway approver add NAME."]
    return []


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
