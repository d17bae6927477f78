"""`gateway archive …`: what a person can do for the folder that old events move to."""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, datetime

from gateway.cli.redis_access import connect_backend
from gateway.domain.redaction import start_of
from gateway.stores.archive_reading import archive_of, read_mark
from gateway.stores.archiver import check_folder
from gateway.stores.segments import name_numbers

_SHOWN = 5
_MOST_NAME = 60


async def give_up(options: argparse.Namespace) -> int:
    """Print which segments are lost; with --yes, go on without them. Returns 1 without it."""
    async with connect_backend(acting=options.yes) as found:
        store = found.store
        archive, mark = archive_of(store), await read_mark(store)
        lost = await asyncio.to_thread(archive.find_lost, mark.segments)
        if not lost:
            await asyncio.to_thread(check_folder, archive, mark)
            print(f"nothing is lost: all {len(mark.segments)} segments are in {archive.folder}")
            return 0
        named = name_numbers(lost)
        print(f"{len(lost)} of {len(mark.segments)} segments are lost: {named}")
        for why in list(lost.values())[:_SHOWN]:
            print(f"  {why}")
        if not options.yes:
            print("Put them back if you can, from a backup, or name the right folder in")
            print("GATEWAY_ARCHIVE. If they are gone for good: gateway archive give-up --yes")
            return 1
        day = datetime.fromtimestamp(await store.now() / 1000, UTC).date()
        why = f"{start_of(options.by, _MOST_NAME)} gave it up on {day}"
        # First: whoever dies on the way gives up the rest of them again.
        await store.note("archive_given_up", data={"by": options.by, "segments": named})
        await asyncio.to_thread(archive.give_up, lost, mark, why)
    print("They are given up: `gateway audit verify` names them for as long as audits are kept.")
    print("A running gateway archives again within two minutes.")
    return 0
