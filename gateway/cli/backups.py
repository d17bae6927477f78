"""`gateway backup` and `gateway restore`: save a namespace in one file, and load it again."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway import __version__
from gateway.cli.commands import CONFIRMABLE
from gateway.cli.redis_access import connect_backend
from gateway.cli.requests import say
from gateway.domain.audit import verify
from gateway.domain.records import Query
from gateway.errors import InvalidRequest, Unreachable
from gateway.models import Status
from gateway.policy.grant_book import every
from gateway.policy.hooks import host_hooks
from gateway.server.connections import build_core, known_public_key
from gateway.server.settings import Settings
from gateway.stores import backup as saved
from gateway.stores.archive_folder import Archive
from gateway.stores.audit import export
from gateway.stores.connect import connect, disconnect
from gateway.stores.credentials import put
from gateway.stores.embedded_server import running_engine
from gateway.stores.event_feed import RedisFeed
from gateway.stores.grants import RedisGrants
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore

_PAGE = 500
_REPORT = """Restored the backup of {made}.
  {requests} requests, {grants} grants, {people} people, {agents} agents, {events} events
{checked}
The kill switch is on.
  {void} approvals made void, {suspended} grants suspended
Agents' tokens, sign-ins and links are revoked. Start the gateway, then confirm what you need:
{confirm}
At the end: gateway resume"""


async def back_up(options: argparse.Namespace) -> int:
    """Write the namespace and its archive to a file."""
    if options.file == "-":
        raise InvalidRequest("a backup is private: name a file, - is not one")
    settings = Settings()
    async with connect_backend() as found:
        head = {
            "namespace": settings.namespace,
            "version": __version__,
            "made": await found.store.now(),
            "public_key": known_public_key(settings),
        }
        lines = await saved.write_backup(found.store, Path(options.file), head)
    words = f"{options.file} is complete: {lines} lines. Keep it as private as Redis."
    say({"file": options.file, "lines": lines}, words, options)
    return 0


async def restore(options: argparse.Namespace) -> int:
    """Load a backup into an empty namespace, or confirm what a restore has disabled.

    Returns 1 if the restored state has problems.
    """
    if (options.file is None) == (options.confirm is None):
        raise InvalidRequest("name either a backup or, with --confirm, what to confirm")
    if options.confirm is not None:
        return await _confirm(options)
    settings, backup = Settings(), saved.BackupFile(Path(options.file))
    if (name := backup.head["namespace"]) != settings.namespace:
        raise InvalidRequest(
            f'the backup is of the namespace "{name}", not "{settings.namespace}": set '
            f"GATEWAY_NAMESPACE={name}"
        )
    made = datetime.fromtimestamp(backup.head["made"] / 1000, UTC).isoformat(timespec="seconds")
    async with _open_unused(settings) as store:
        await saved.load_backup(store, backup)
        await store.set_stopped(True, by=options.by)
        await store.note("restored", data={"by": options.by, "made": made})
        found, problems = await _check(settings, store)
        await store.redis.delete(store.keys.restoring)
    checked = [f"Problem: {one}" for one in problems] or ["Requests, grants and audit are valid."]
    if (key := backup.head["public_key"]) not in ("", known_public_key(settings)):
        checked.append(f"Another key signed earlier decisions. Its public key: {key}")
    confirm = "\n".join(f"  gateway restore --confirm {kind}" for kind in CONFIRMABLE)
    words = _REPORT.format(made=made, checked="\n".join(checked), confirm=confirm, **found)
    say({**found, "problems": problems, "public_key": key}, words, options)
    return 1 if problems else 0


@asynccontextmanager
async def _open_unused(settings: Settings) -> AsyncIterator[RedisStore]:
    """Connect to a namespace that no gateway uses. Runs the embedded server if needed."""
    async with AsyncExitStack() as stack:
        url = settings.own_redis
        if url is None:
            url = (await stack.enter_async_context(running_engine(settings.data_dir))).url
        redis = connect(url)
        stack.push_async_callback(disconnect, redis)
        folder = settings.archive_folder
        archive = None if folder is None else Archive(folder)
        yield RedisStore(redis, Keys(settings.namespace), archive=archive)


async def _check(settings: Settings, store: RedisStore) -> tuple[dict[str, Any], list[str]]:
    """Read all restored data, and invalidate approvals without a report. Return the counts, and the
    problems found."""
    core = build_core(settings, store, RedisFeed(store.redis, store.keys), host_hooks(None), None)
    now, read, void = await store.now(), 0, 0
    for final in (False, True):
        query: Query | None = Query(final=final, limit=_PAGE)
        while query is not None:
            page = await store.page(query)
            read += len(page.items)
            for one in page.items:
                live = one.status is Status.APPROVED and one.report is None and one.deadline > now
                void += live and await core.approvals.void(one.id, why="a backup was restored")
            query = replace(query, after=page.next) if page.next else None
    listed = await store.count_pending() + await store.redis.zcard(store.keys.done)
    grants = await every(RedisGrants(store))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        async for line in export(store):
            file.write(line + "\n")
        file.seek(0)
        audit = verify(file)
    found = {
        "requests": read,
        "void": void,
        "grants": len(grants),
        "suspended": sum(one.outdated is not None for one in grants),
        "people": len((await store.policy()).people),
        "agents": len(await saved.list_held_agents(store)),
        "events": audit.events,
    }
    unread = [f"{listed - read} requests cannot be read"] if listed != read else []
    return found, unread + audit.problems


async def _confirm(options: argparse.Namespace) -> int:
    """Enable again what a restore has disabled."""
    kind, silent = options.confirm, dict[str, str]()
    async with connect_backend(acting=True) as found:
        store, count = found.store, 0
        if kind == "grants":
            grants = RedisGrants(store)
            for one in await every(grants):
                if one.outdated is not None and one.outdated.why == saved.RESTORED:
                    count += await grants.mark_outdated(one, None)
        if kind == saved.AGENTS:
            for name, passwords in (await saved.list_held_agents(store)).items():
                heard = await put(store.redis, store.keys, name, passwords, cut=False)
                silent |= heard.silent
        count += await saved.confirm_held(store, kind)
        data = {"by": options.by, "kind": kind, "count": count}
        await store.note("restore_confirmed", data=data)
    if silent:
        servers = ", ".join(silent)
        raise Unreachable(f"{servers} did not get the Redis users: gateway agent rotate NAME")
    words = f"the {kind} of the backup are active again" if count else f"no {kind} are held back"
    say({"kind": kind, "confirmed": count}, words, options)
    return 0
