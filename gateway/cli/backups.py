"""`gateway backup` and `gateway restore`: everything in one file, and back."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from gateway import __version__
from gateway.cli.commands import CONFIRMABLE
from gateway.cli.redis_access import connect_backend
from gateway.cli.requests import say
from gateway.domain.audit import Verification, verify
from gateway.domain.records import SCHEMA_VERSION, Query
from gateway.errors import InvalidRequest, Unreachable
from gateway.models import Status
from gateway.policy.grant_book import every
from gateway.policy.hooks import host_hooks
from gateway.server.connections import build_core, known_public_key
from gateway.server.settings import Settings
from gateway.stores.archive_folder import Archive
from gateway.stores.audit import export
from gateway.stores.backup import (
    AGENTS,
    FORMAT,
    RESTORED,
    BackupFile,
    BackupHead,
    confirm_held,
    finish_load,
    list_held_agents,
    load_backup,
    write_backup,
)
from gateway.stores.connect import connect, disconnect
from gateway.stores.credentials import put
from gateway.stores.embedded_server import running_engine
from gateway.stores.event_feed import RedisFeed
from gateway.stores.grants import RedisGrants
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore

_PAGE = 500
_GRANTS = CONFIRMABLE[0]
_VOID = "a backup was restored"


async def back_up(options: argparse.Namespace) -> int:
    """Write the namespace and its archive to a file."""
    settings, path = Settings(), Path(options.file)
    async with connect_backend() as found:
        head = BackupHead(
            format=FORMAT,
            schema=SCHEMA_VERSION,
            namespace=settings.namespace,
            version=__version__,
            made=await found.store.now(),
            public_key=known_public_key(settings),
        )
        lines = await write_backup(found.store, path, head)
    told = {"file": str(path), "lines": lines}
    say(told, f"{path} is complete: {lines} lines. Keep it as private as Redis.", options)
    return 0


@dataclass(slots=True, kw_only=True)
class RestoreReport:
    """What a restored namespace has, and what is wrong with it. `public_key` is the earlier signing
    key, if this gateway has another one."""

    requests: int = 0
    void: int = 0
    grants: int = 0
    suspended: int = 0
    people: int = 0
    agents: int = 0
    events: int = 0
    public_key: str = ""
    problems: list[str] = field(default_factory=list)


async def restore(options: argparse.Namespace) -> int:
    """Load a backup into an empty namespace, or confirm what a restore holds back.

    Returns 1 if the restored state has problems.
    """
    if (options.file is None) == (options.confirm is None):
        raise InvalidRequest("name a backup, or one kind with --confirm: gateway restore FILE")
    if options.confirm is not None:
        return await _confirm(options)
    settings, backup = Settings(), BackupFile(Path(options.file))
    head = backup.head
    if head.namespace != settings.namespace:
        raise InvalidRequest(
            f'the backup is of the namespace "{head.namespace}", and GATEWAY_NAMESPACE is '
            f'"{settings.namespace}": set it to "{head.namespace}"'
        )
    made = datetime.fromtimestamp(head.made / 1000, UTC).isoformat(timespec="seconds")
    async with _open_unused(settings) as store:
        await load_backup(store, backup)
        await store.set_stopped(True, by=options.by)
        await store.note("restored", data={"by": options.by, "made": made})
        found = await _check(settings, store, head.public_key)
        await finish_load(store)
    if known_public_key(settings) == head.public_key:
        found.public_key = ""
    say(asdict(found), "\n".join(_describe(found, made)), options)
    return 1 if found.problems else 0


def _describe(found: RestoreReport, made: str) -> list[str]:
    lines = [
        f"Restored the backup of {made}.",
        f"  requests {found.requests}, grants {found.grants}, people {found.people}, agents "
        f"{found.agents}, events {found.events}",
        *(f"Problem: {one}" for one in found.problems),
    ]
    if not found.problems:
        lines.append("The audit chain, requests, grants and people are valid.")
    if found.public_key:
        lines.append(
            f"Agents need the earlier public key for earlier decisions: {found.public_key}"
        )
    return [
        *lines,
        "The kill switch is on.",
        f"  approvals made void {found.void}, grants suspended {found.suspended}",
        "Agents' tokens, sign-ins and links are revoked. Start the gateway, then confirm each kind:",
        *(f"  gateway restore --confirm {kind}" for kind in CONFIRMABLE),
        "At the end: gateway resume",
    ]


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


async def _check(settings: Settings, store: RedisStore, public_key: str) -> RestoreReport:
    """Read everything that was restored, and void the approvals that nobody reported."""
    found = RestoreReport(public_key=public_key)
    core = build_core(settings, store, RedisFeed(store.redis, store.keys), host_hooks(None), None)
    now = await store.now()
    for final, index in ((False, store.keys.pending), (True, store.keys.done)):
        query, before = Query(final=final, limit=_PAGE), found.requests
        expected = int(await store.redis.zcard(index))
        while True:
            page = await store.page(query)
            found.requests += len(page.items)
            for one in page.items:
                live = one.status is Status.APPROVED and one.report is None and one.deadline > now
                if live and await core.approvals.void(one.id, why=_VOID):
                    found.void += 1
            if page.next is None:
                break
            query = replace(query, after=page.next)
        if found.requests - before != expected:
            found.problems.append(f"{expected - found.requests + before} requests are unreadable")
    grants = await every(RedisGrants(store))
    found.grants, found.people = len(grants), len((await store.policy()).people)
    found.suspended = sum(one.outdated is not None for one in grants)
    found.agents = len(await list_held_agents(store))
    audit = await _verify_audit(store)
    found.events, found.problems = audit.events, found.problems + audit.problems
    return found


async def _verify_audit(store: RedisStore) -> Verification:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        async for line in export(store):
            file.write(line + "\n")
        file.seek(0)
        return verify(file)


async def _confirm(options: argparse.Namespace) -> int:
    """Make what a restore holds back effective again."""
    kind, silent = options.confirm, dict[str, str]()
    async with connect_backend(acting=True) as found:
        store = found.store
        if kind == _GRANTS:
            grants = RedisGrants(store)
            held = [
                one
                for one in await every(grants)
                if one.outdated is not None and one.outdated.why == RESTORED
            ]
            count = sum([await grants.mark_outdated(one, None) for one in held])
        else:
            count = 0
            if kind == AGENTS:
                for name, passwords in (await list_held_agents(store)).items():
                    heard = await put(store.redis, store.keys, name, passwords, cut=False)
                    silent |= heard.silent
            count = await confirm_held(store, kind)
        if count:
            data = {"by": options.by, "kind": kind, "count": count}
            await store.note("restore_confirmed", data=data)
    if silent:
        said = "; ".join(f"{server}: {why}" for server, why in silent.items())
        raise Unreachable(f"these servers lack the Redis users of agents ({said}): rotate them")
    words = f"{kind} of the backup are active again" if count else f"no {kind} are held back"
    say({"kind": kind, "confirmed": count}, words, options)
    return 0
