"""Check each Redis server, replicas included, and the archive of the audit log."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.domain.records import place_of
from gateway.ports.adapters import Finding, report_doubt, report_failure, report_ok
from gateway.server.connections import Backend
from gateway.server.settings import Settings
from gateway.server.start_up_checks import OPEN_DEFAULT
from gateway.server.stored_data_checks import MEMORY_REMEDY, MOST_USED
from gateway.stores.archive_folder import Archive, ArchiveCursor, ArchiveProblem, name_numbers
from gateway.stores.archiver import check_folder
from gateway.stores.audit import find_strays, seals_of
from gateway.stores.connect import PACKED_BYTES, Facts, facts, packs_records, writes_alone
from gateway.stores.credentials import AGENT, user_name
from gateway.stores.requests import RedisStore

_BACK = (
    "start these servers again, then run `gateway agent rotate NAME` for agents that were added "
    "while they were down; for a server "
    "that is gone for good, SENTINEL RESET or CLUSTER FORGET"
)
_LARGEST_FIELD = 16 * 1_048_576  # bytes
# Memory of a small decided request, by `make bench`: with its events, and without them.
_ENDED_BYTES, _ARCHIVED_BYTES = 1606, 1011
_UNTOLD = (
    "after a fail-over they lack agents' users, or have revoked ones: use Sentinel or Cluster in "
    "REDIS_URL, or keep their ACL files equal"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllFacts:
    """The facts about all Redis servers, and the users that each server should have."""

    servers: Mapping[str, Facts]
    silent: Mapping[str, str]
    users: Mapping[str, str]
    production: bool
    days: float
    archived: bool

    def where(self, holds: Callable[[Facts], bool]) -> str:
        """Return the names of the servers that match a condition, or "" if none does."""
        return ", ".join(name for name, one in self.servers.items() if holds(one))


async def read_all_facts(settings: Settings, backend: Backend) -> AllFacts:
    """Read the facts about every Redis server."""
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
        says = f"there are {followers} replicas, and REDIS_URL does not reach all of them"
        return report_doubt(says, _UNTOLD)
    return report_ok(f"{len(found.servers)} of {len(found.servers)} answer")


def _replication(found: AllFacts) -> Finding:
    if where := found.where(lambda one: one.cut):
        return report_doubt(
            f"this replica is not connected to its primary ({where}), so it could not take over",
            _BACK,
        )
    if not writes_alone(found.servers.values()):
        return report_ok("each write reaches a replica, or there are no replicas")
    says = "the primary accepts decisions that no replica has; a fail-over would lose them"
    remedy = "set `min-replicas-to-write 1`, see docs/guides/high-availability.md"
    return report_failure(says, remedy) if found.production else report_doubt(says, remedy)


def _persistence(found: AllFacts) -> Finding:
    if where := found.where(lambda one: one.settings.get("appendonly") != "yes"):
        says = f"the append-only file is off ({where}), so a restart deletes every request"
        return report_failure(says, "set `appendonly yes`")
    return report_ok("append-only file")


def _fsync(found: AllFacts) -> Finding:
    remedy = "set `appendfsync always`"
    if where := found.where(lambda one: one.settings.get("appendfsync") == "no"):
        return report_failure(
            f"appendfsync is no ({where}): a power cut can lose the last half minute", remedy
        )
    if where := found.where(lambda one: one.settings.get("appendfsync") != "always"):
        return report_doubt(
            f"appendfsync is everysec ({where}): a power cut can lose the last second", remedy
        )
    return report_ok("fsync always")


def _eviction(found: AllFacts) -> Finding:
    if where := found.where(lambda one: one.settings.get("maxmemory-policy") != "noeviction"):
        says = f"the server may delete requests when memory is short ({where})"
        return report_failure(says, "set `maxmemory-policy noeviction`")
    return report_ok("noeviction")


def _memory(found: AllFacts) -> Finding:
    if where := found.where(lambda one: one.room == 0):
        says = f"the server's memory has no limit ({where}); it may use all of the machine's"
        return report_doubt(says, "set `maxmemory`, for example 1gb")
    if where := found.where(lambda one: one.used >= one.room):
        return report_failure(
            f"the memory is full ({where}), so requests are rejected", MEMORY_REMEDY
        )
    if where := found.where(lambda one: one.used > MOST_USED * one.room):
        return report_doubt(f"more than {MOST_USED:.0%} used ({where})", MEMORY_REMEDY)
    if where := found.where(lambda one: not packs_records(one)):
        says = f"small requests use nearly 50 % more memory than necessary ({where})"
        return report_doubt(says, f"set `hash-max-listpack-value {PACKED_BYTES}`")
    daily = min(one.room for one in found.servers.values()) / found.days
    each = _ARCHIVED_BYTES if found.archived else _ENDED_BYTES
    fits = f"room for {_round(MOST_USED * daily / each)} small requests a day"
    return report_ok(f"less than {MOST_USED:.0%} used; {fits} for {found.days:g} days")


def _round(figure: float) -> str:
    """Return a number rounded to two significant digits."""
    return f"{float(f'{figure:.2g}'):,.0f}"


def _message_size(found: AllFacts) -> Finding:
    def loose(one: Facts) -> bool:
        return int(one.settings.get("proto-max-bulk-len", 0)) > _LARGEST_FIELD

    if where := found.where(loose):
        says = f"one message of an agent may use hundreds of megabytes in Redis ({where})"
        return report_doubt(says, "set `proto-max-bulk-len 4mb` and `maxmemory-clients 256mb`")
    return report_ok("limited")


def _default_user(found: AllFacts) -> Finding:
    if where := found.where(lambda one: bool(one.default)):
        says = f"clients that do not log in have rights ({where})"
        return (
            report_failure(says, OPEN_DEFAULT)
            if found.production
            else report_doubt(says, OPEN_DEFAULT)
        )
    return report_ok("the user default is off, or has no rights")


def _acl(found: AllFacts) -> Finding:
    missing = [
        f"{agent} ({where})"
        for agent, user in found.users.items()
        if (where := found.where(lambda one, user=user: user not in one.users))  # type: ignore[misc]
    ]
    if missing:
        says = f"these agents have no Redis user: {', '.join(missing)}"
        remedy = "run gateway agent rotate NAME; set an `aclfile` so that users survive a restart"
        return report_failure(says, remedy)
    if where := found.where(lambda one: not one.settings.get("aclfile")):
        says = f"there is no ACL file ({where}), so a restart deletes the agents' users"
        return report_doubt(says, "set `aclfile`, see deploy/")
    return report_ok(f"{len(found.users)} agents, each with a separate user")


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


# Checks the archive's folder: does it exist, is it the right one, writable, with room?

_LEAST_FREE, _ARCHIVE_FULL = 1024**3, 1024**2  # bytes
_LATE_MS = 2 * 3_600_000
_NAME_ONE = "set GATEWAY_ARCHIVE to a permanent folder that all gateways share"
_WRITABLE = "make it writable for the gateway's user, on a file system with hard links"
_LOST = (
    "restore them from a backup, or set GATEWAY_ARCHIVE to the right folder; if they are gone for "
    "good, `gateway archive give-up`"
)
_FORGOT = (
    "leave the archive as it is: `gateway audit export` contains both; see docs/reference/events.md"
)


async def check_archive(backend: Backend) -> Finding:
    """Check the archive of a namespace."""
    store, mark = backend.store, await backend.store.audit.mark()
    if store.archive is None and mark.segments:
        says = f"{len(mark.segments)} segments are in a folder that is not configured here"
        return report_failure(says, "set GATEWAY_ARCHIVE to the same folder as for the gateways")
    if store.archive is None:
        return report_doubt(
            "no archive is configured: the audit log stays in Redis, in memory", _NAME_ONE
        )
    lost, given_up = await asyncio.to_thread(_look_through, store.archive, mark)
    if lost:
        says = f"{len(lost)} of {len(mark.segments)} segments are missing or damaged in "
        return report_failure(f"{says}{store.archive.folder}: {name_numbers(lost)}", _LOST)
    try:
        free = await asyncio.to_thread(_try_out, store.archive, mark)
    except ArchiveProblem as problem:
        return report_failure(str(problem), f"restore it, or {_NAME_ONE}")
    except OSError as error:
        says = f"cannot write to {store.archive.folder}: {error.strerror or error}"
        return report_failure(says, _WRITABLE)
    found = await _find_fault(store, mark, store.archive.folder, free)
    without = f", {given_up} of them given up" if given_up else ""
    return found or report_ok(f"{len(mark.segments)} segments in {store.archive.folder}{without}")


async def _find_fault(
    store: RedisStore, mark: ArchiveCursor, folder: Path, free: int
) -> Finding | None:
    """Return a problem of the archive folder or its disk, or None."""
    if strays := await find_strays(store, mark):
        numbers = ", ".join(map(str, strays))
        return report_failure(f"the audit went backwards: Redis forgot segment {numbers}", _FORGOT)
    if free < _ARCHIVE_FULL:
        return report_failure(f"the disk of {folder} is full", "make room")
    if free < _LEAST_FREE:
        return report_doubt(f"less than 1 GB is free in {folder}", "make room")
    oldest = await anext(seals_of(store), None)
    if oldest and place_of(oldest[0])[0] < await store.now() - _LATE_MS:
        says = "sealed events have waited in Redis for over two hours"
        return report_doubt(
            says, "check that a gateway runs; its log contains the reason why it archives nothing"
        )
    return None


def _look_through(archive: Archive, mark: ArchiveCursor) -> tuple[list[int], int]:
    """Return the missing or damaged segments, and the number of segments that an operator gave
    up."""
    lost, given_up = list[int](), 0
    for number in mark.segments:
        try:
            given_up += bool(archive.head_of(number).lost)
        except ArchiveProblem:
            lost.append(number)
    return lost, given_up


def _try_out(archive: Archive, mark: ArchiveCursor) -> int:
    """Return the free bytes of the archive folder. Raises OSError if the folder is not writable,
    and ArchiveProblem if it lacks a segment that Redis lists."""
    check_folder(archive, mark)
    there = next(one for one in (archive.folder, *archive.folder.parents) if one.exists())
    if there == archive.folder:
        with TemporaryDirectory(prefix=".doctor-", dir=there) as folder:
            first = Path(folder) / "first"
            first.touch()
            os.link(first, Path(folder) / "second")
    elif not os.access(there, os.W_OK):
        raise PermissionError(f"{there} is not writable")
    return shutil.disk_usage(there).free
