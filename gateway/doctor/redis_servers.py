"""Checks of each Redis server, replicas included: any of them may become the primary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.ports.checks import Finding, report_doubt, report_failure, report_ok
from gateway.server.connections import Backend
from gateway.server.production_checks import OPEN_DEFAULT
from gateway.server.settings import Settings
from gateway.stores.credentials import AGENT
from gateway.stores.redis_users import user_name
from gateway.stores.servers import PACKED_BYTES, Facts, facts, packs_records, writes_alone

_BACK = (
    "bring them back, then `gateway agent rotate NAME` for agents made meanwhile; of one that is "
    "gone for good, SENTINEL RESET or CLUSTER FORGET"
)
_LARGEST_FIELD = 16 * 1_048_576  # bytes
_MOST_USED = 0.8
# What a small request takes that has ended, by `make bench`: with its events, and without them.
_ENDED_BYTES, _ARCHIVED_BYTES = 1590, 995
_FULL = "give it more, shorten GATEWAY_RETENTION_DAYS, or revoke the agent that fills it"
_UNTOLD = (
    "after a fail-over they know no agents, and may know revoked ones: name them by Sentinel or "
    "Cluster in REDIS_URL, or keep their ACL files equal"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllFacts:
    """The facts of all servers, and the users that they should have."""

    servers: Mapping[str, Facts]
    silent: Mapping[str, str]
    users: Mapping[str, str]
    production: bool
    days: float
    archived: bool

    def where(self, holds: Callable[[Facts], bool]) -> str:
        """Return the names of the servers that match, empty when none does."""
        return ", ".join(name for name, one in self.servers.items() if holds(one))


async def read_all_facts(settings: Settings, backend: Backend) -> AllFacts:
    """Read the facts of every server."""
    heard = await facts(backend.store.redis)
    agents = [row.name for row in await backend.credentials.list_all(AGENT)]
    return AllFacts(
        servers=heard.answers,
        silent=heard.silent,
        users={name: user_name(backend.store.keys, name) for name in agents},
        production=settings.production,
        days=settings.retention_days,
        archived=settings.archive_folder is not None,
    )


def _servers(found: AllFacts) -> Finding:
    if found.silent:
        problems = "; ".join(f"{name}: {why}" for name, why in found.silent.items())
        return report_doubt(f"do not answer: {problems}", _BACK)
    followers = sum(one.replicas for one in found.servers.values())
    if followers > len(found.servers) - 1:
        says = f"{followers} replicas follow, and REDIS_URL does not lead to each"
        return report_doubt(says, _UNTOLD)
    return report_ok(f"{len(found.servers)} of {len(found.servers)} answer")


def _replication(found: AllFacts) -> Finding:
    if where := found.where(lambda one: one.cut):
        return report_doubt(f"no link to the primary ({where}); it could not take over", _BACK)
    if not writes_alone(found.servers.values()):
        return report_ok("each write has a replica, or there is none")
    says = "a primary takes decisions that no replica has; a fail-over loses them"
    remedy = "set `min-replicas-to-write 1`, see docs/growing.md"
    return report_failure(says, remedy) if found.production else report_doubt(says, remedy)


def _persistence(found: AllFacts) -> Finding:
    if where := found.where(lambda one: one.settings.get("appendonly") != "yes"):
        says = f"no append-only file ({where}); a restart forgets every request"
        return report_failure(says, "set `appendonly yes`")
    return report_ok("append-only file")


def _fsync(found: AllFacts) -> Finding:
    remedy = "set `appendfsync always`"
    if where := found.where(lambda one: one.settings.get("appendfsync") == "no"):
        return report_failure(f"fsync no ({where}): a power cut can lose half a minute", remedy)
    if where := found.where(lambda one: one.settings.get("appendfsync") != "always"):
        return report_doubt(
            f"fsync everysec ({where}): a power cut can lose the last second", remedy
        )
    return report_ok("fsync always")


def _eviction(found: AllFacts) -> Finding:
    if where := found.where(lambda one: one.settings.get("maxmemory-policy") != "noeviction"):
        says = f"requests may be thrown away when memory is short ({where})"
        return report_failure(says, "set `maxmemory-policy noeviction`")
    return report_ok("noeviction")


def _memory(found: AllFacts) -> Finding:
    if where := found.where(lambda one: one.room == 0):
        says = f"nothing bounds the server's memory ({where}); it may take all that the host has"
        return report_doubt(says, "set `maxmemory`, for example 1gb")
    if where := found.where(lambda one: one.used >= one.room):
        return report_failure(f"full ({where}): requests are refused", _FULL)
    if where := found.where(lambda one: one.used > _MOST_USED * one.room):
        return report_doubt(f"more than {_MOST_USED:.0%} used ({where})", _FULL)
    if where := found.where(lambda one: not packs_records(one)):
        says = f"a small request takes nearly half as much again as it could ({where})"
        return report_doubt(says, f"set `hash-max-listpack-value {PACKED_BYTES}`")
    daily = min(one.room for one in found.servers.values()) / found.days
    each = _ARCHIVED_BYTES if found.archived else _ENDED_BYTES
    fits = f"room for {_round(_MOST_USED * daily / each)} small requests a day"
    return report_ok(f"less than {_MOST_USED:.0%} used; {fits} for {found.days:g} days")


def _round(figure: float) -> str:
    """Return a figure as people say it: two digits, then noughts."""
    return f"{float(f'{figure:.2g}'):,.0f}"


def _message_size(found: AllFacts) -> Finding:
    def loose(one: Facts) -> bool:
        return int(one.settings.get("proto-max-bulk-len", 0)) > _LARGEST_FIELD

    if where := found.where(loose):
        says = f"one message of an agent may take hundreds of megabytes of Redis ({where})"
        return report_doubt(says, "set `proto-max-bulk-len 4mb` and `maxmemory-clients 256mb`")
    return report_ok("bounded")


def _default_user(found: AllFacts) -> Finding:
    if where := found.where(lambda one: bool(one.default)):
        says = f"clients that name no user have rights ({where})"
        return (
            report_failure(says, OPEN_DEFAULT)
            if found.production
            else report_doubt(says, OPEN_DEFAULT)
        )
    return report_ok("off, or without rights")


def _acl(found: AllFacts) -> Finding:
    missing = [
        f"{agent} ({where})"
        for agent, user in found.users.items()
        if (where := found.where(lambda one, user=user: user not in one.users))  # type: ignore[misc]
    ]
    if missing:
        says = f"these agents have no Redis user: {', '.join(missing)}"
        remedy = "gateway agent rotate NAME; give the server an `aclfile` so that users last"
        return report_failure(says, remedy)
    if where := found.where(lambda one: not one.settings.get("aclfile")):
        says = f"no ACL file ({where}): agents' users are gone after a restart"
        return report_doubt(says, "set `aclfile`, see deploy/")
    return report_ok(f"{len(found.users)} agents, each with a user of its own")


SERVER_CHECKS: tuple[tuple[str, Callable[[AllFacts], Finding]], ...] = (
    ("servers", _servers),
    ("replication", _replication),
    ("persistence", _persistence),
    ("fsync", _fsync),
    ("eviction", _eviction),
    ("memory", _memory),
    ("message size", _message_size),
    ("default user", _default_user),
    ("acl", _acl),
)
