"""Looks at the folder that the audit moves to: is it there, the right one, writable, with room?"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.domain.records import place_of
from gateway.ports.checks import Finding, report_doubt, report_failure, report_ok
from gateway.server.connections import Backend
from gateway.stores.archive_reading import read_mark
from gateway.stores.archiver import check_folder
from gateway.stores.requests import RedisStore
from gateway.stores.seals import find_strays, seals_of
from gateway.stores.segments import Archive, ArchiveProblem, Mark

_LEAST_FREE = 1024**3  # bytes
_LATE_MS = 2 * 3_600_000
_NAME_ONE = "set GATEWAY_ARCHIVE to a lasting folder that all gateways share"
_WRITABLE = "give the gateway's user the folder, on a file system with hard links"
_FORGOT = "keep the archive as it is: `gateway audit export` holds both; see docs/audit.md"


async def check_archive(backend: Backend) -> Finding:
    """Look at the archive of a namespace."""
    store, mark = backend.store, await read_mark(backend.store)
    if store.archive is None and mark.segments:
        says = f"{len(mark.segments)} segments are in a folder that is not named here"
        return report_failure(says, "set GATEWAY_ARCHIVE as the gateways have it")
    if store.archive is None:
        return report_doubt("the audit stays in Redis, in memory", _NAME_ONE)
    try:
        free = await asyncio.to_thread(_try_out, store.archive, mark)
    except ArchiveProblem as problem:
        return report_failure(str(problem), f"put it back, or {_NAME_ONE}")
    except OSError as error:
        says = f"{store.archive.folder} cannot be written: {error.strerror or error}"
        return report_failure(says, _WRITABLE)
    return await _judge(store, mark, store.archive.folder, free)


async def _judge(store: RedisStore, mark: Mark, folder: Path, free: int) -> Finding:
    """Look at what is in a folder that is as it should be."""
    if strays := await find_strays(store, mark):
        numbers = ", ".join(map(str, strays))
        return report_failure(f"the audit went backwards: Redis forgot segment {numbers}", _FORGOT)
    if free < _LEAST_FREE:
        return report_doubt(f"less than 1 GB is free in {folder}", "make room")
    oldest = await anext(seals_of(store), None)
    if oldest and place_of(oldest[0])[0] < await store.now() - _LATE_MS:
        says = "sealed events have waited in Redis for over two hours"
        return report_doubt(says, "is a gateway running? its log says why nothing is archived")
    return report_ok(f"{len(mark.segments)} segments in {folder}")


def _try_out(archive: Archive, mark: Mark) -> int:
    """Return how many bytes are free. Raises OSError when it cannot be written to, ArchiveProblem
    when it lacks what Redis says is there."""
    check_folder(archive, mark)
    there = next(one for one in (archive.folder, *archive.folder.parents) if one.exists())
    if there == archive.folder:
        with TemporaryDirectory(prefix=".doctor-", dir=there) as folder:
            first = Path(folder) / "first"
            first.touch()
            os.link(first, Path(folder) / "second")
    elif not os.access(there, os.W_OK):
        raise PermissionError(f"{there} is not ours")
    return shutil.disk_usage(there).free
