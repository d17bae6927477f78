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
from gateway.stores.segments import Archive, ArchiveProblem, Mark, name_numbers

_LEAST_FREE, _FULL = 1024**3, 1024**2  # bytes
_LATE_MS = 2 * 3_600_000
_NAME_ONE = "set GATEWAY_ARCHIVE to a lasting folder that all gateways share"
_WRITABLE = "give the gateway's user the folder, on a file system with hard links"
_LOST = (
    "put them back from a backup, or name the right folder in GATEWAY_ARCHIVE; if they are gone "
    "for good, `gateway archive give-up`"
)
_FORGOT = "keep the archive as it is: `gateway audit export` holds both; see docs/audit.md"


async def check_archive(backend: Backend) -> Finding:
    """Look at the archive of a namespace."""
    store, mark = backend.store, await read_mark(backend.store)
    if store.archive is None and mark.segments:
        says = f"{len(mark.segments)} segments are in a folder that is not named here"
        return report_failure(says, "set GATEWAY_ARCHIVE as the gateways have it")
    if store.archive is None:
        return report_doubt("the audit stays in Redis, in memory", _NAME_ONE)
    lost, given_up = await asyncio.to_thread(_look_through, store.archive, mark)
    if lost:
        says = f"{len(lost)} of {len(mark.segments)} segments are missing or damaged in "
        return report_failure(f"{says}{store.archive.folder}: {name_numbers(lost)}", _LOST)
    try:
        free = await asyncio.to_thread(_try_out, store.archive, mark)
    except ArchiveProblem as problem:
        return report_failure(str(problem), f"put it back, or {_NAME_ONE}")
    except OSError as error:
        says = f"{store.archive.folder} cannot be written: {error.strerror or error}"
        return report_failure(says, _WRITABLE)
    found = await _find_fault(store, mark, store.archive.folder, free)
    without = f", {given_up} of them given up" if given_up else ""
    return found or report_ok(f"{len(mark.segments)} segments in {store.archive.folder}{without}")


async def _find_fault(store: RedisStore, mark: Mark, folder: Path, free: int) -> Finding | None:
    """Return what is wrong with a folder that is the right one, None when nothing is."""
    if strays := await find_strays(store, mark):
        numbers = ", ".join(map(str, strays))
        return report_failure(f"the audit went backwards: Redis forgot segment {numbers}", _FORGOT)
    if free < _FULL:
        return report_failure(f"the disk of {folder} is full", "make room")
    if free < _LEAST_FREE:
        return report_doubt(f"less than 1 GB is free in {folder}", "make room")
    oldest = await anext(seals_of(store), None)
    if oldest and place_of(oldest[0])[0] < await store.now() - _LATE_MS:
        says = "sealed events have waited in Redis for over two hours"
        return report_doubt(says, "is a gateway running? its log says why nothing is archived")
    return None


def _look_through(archive: Archive, mark: Mark) -> tuple[list[int], int]:
    """Return the segments that are not there, or do not say what they hold, and how many of the
    others were given up."""
    lost, given_up = list[int](), 0
    for number in mark.segments:
        try:
            given_up += bool(archive.head_of(number).lost)
        except ArchiveProblem:
            lost.append(number)
    return lost, given_up


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
