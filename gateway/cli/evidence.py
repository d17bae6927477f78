"""`gateway audit evidence`: write an evidence report about a request or a period."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from gateway import __version__
from gateway.cli.audit import verify_file
from gateway.cli.redis_access import connect_backend
from gateway.domain.evidence import (
    EvidenceScope,
    ReportHeading,
    ReportPage,
    parse_scope,
    sign_report,
)
from gateway.domain.records import AuditEvent, StoredRequest, place_of
from gateway.errors import InvalidRequest, NotFound
from gateway.server.connections import known_public_key, signer_of
from gateway.server.settings import Settings
from gateway.stores.archive_folder import NOTHING
from gateway.stores.audit import Sealer, export
from gateway.stores.event_feed import RedisFeed
from gateway.stores.requests import RedisStore
from gateway.wire.codec import JsonObject, build, plain
from gateway.wire.local_discovery import write_private


async def write_evidence(options: argparse.Namespace) -> int:
    """Write an evidence report, readable only by this user, and check it. Return 1 if the audit log
    has gaps; the report then names them."""
    settings, scope, path = Settings(), parse_scope(options.about), Path(options.file)
    async with connect_backend(acting=True) as found:
        if not known_public_key(settings):
            raise InvalidRequest(
                "the signing key is unknown here: set GATEWAY_SIGNING_KEY, or run this command "
                "on the gateway's host"
            )
        signer = signer_of(settings)  # also sets the key of the masks
        record = await found.store.load(scope.request_id) if scope.request_id else None
        if scope.request_id and record is None:
            raise NotFound(f'there is no request "{scope.request_id}"; name its whole id')
        if scope.since > await found.store.now():
            raise InvalidRequest(f'the period "{options.about}" has not begun')
        heading = ReportHeading(
            scope=scope,
            made=await _note_report(found.store, {"by": options.by, "about": scope.words}),
            namespace=settings.namespace,
            public_key=signer.public_key,
            version=__version__,
            calls=tuple(_list_calls(record)),
        )
        part, page = path.with_name(f"{path.name}.part"), ReportPage(heading)
        write_private(part, "")
        try:
            with part.open("r+b") as file:
                _write(file, page.top())
                since = record.created if record else scope.since
                await _write_rows(found.store, page, scope, since, file)
                _write(file, page.bottom())
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                _write(file, [sign_report(digest, signer)])
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    options.key = signer.public_key
    return verify_file(options)


async def _note_report(store: RedisStore, told: JsonObject) -> int:
    """Record in the audit log who makes a report, and seal that event. Return its time in ms.

    So the audit log always has an event after the period, and none before it can be left out."""
    noted = place_of(await store.note("evidence_made", data=told))
    sealer = Sealer(store, RedisFeed(store.redis, store.keys))
    while place_of(await store.redis.hget(store.keys.meta, "sealed") or NOTHING) < noted:
        await sealer.seal_all()
    return noted[0]


def _list_calls(record: StoredRequest | None) -> Iterator[JsonObject]:
    """Yield the call of a request, and the edited call, as the action digest covers them."""
    if record is None or record.erased:
        return
    request = record.request
    for arguments in (request.arguments, *(() if record.edited is None else (record.edited,))):
        members = ("agent", "kind", "tool", "payload", "context", "questions")
        call = {name: plain(getattr(request, name)) for name in members}
        yield record.hide_in({**call, "arguments": arguments})


async def _write_rows(
    store: RedisStore, page: ReportPage, scope: EvidenceScope, since: int, file: BinaryIO
) -> None:
    """Write whole seals: from the last one before the scope, which proves that nothing of the scope
    is older, to the last one with events of the scope, or the first one after the period."""
    events: list[AuditEvent] = []
    before: list[str] = []
    begun, end = False, file.tell()
    async for line in export(store, since):
        kind, body = next(iter(json.loads(line).items()))
        if kind == "event":
            events.append(build(AuditEvent, body))
        if kind not in ("seal", "missing"):
            continue
        last = place_of(events[-1].id)[0] if events else since
        rows = [scope.line(event) for event in events]
        own = any(row.startswith('{"event"') for row in rows)
        wanted = own or kind == "missing" or 0 < scope.since <= last
        if begun or wanted:
            _write(file, map(page.row, (*before, *rows, line)))
            begun, before, end = True, [], file.tell() if wanted else end
        elif scope.until:
            before = [*rows, line]
        if events and 0 < scope.until <= last:
            break
        events = []
    file.truncate(end)
    file.seek(end)


def _write(file: BinaryIO, lines: Iterable[str]) -> None:
    file.writelines(f"{line}\n".encode() for line in lines)
