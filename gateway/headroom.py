"""Room on disk for what the engine appends next, so that no sync has to find new blocks first.

Whoever waits for a decision waits for its sync, which takes a third longer where the file grows
into a block that the file system has yet to find. Only room is taken: no size and no byte changes.
"""

import asyncio
import ctypes
import logging
import os
import sys
from pathlib import Path

log = logging.getLogger("gateway.headroom")

ROOM = 16 * 1024 * 1024  # bytes taken behind the end of a file when less than half of it is left
EVERY = 1.0  # seconds between two looks

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of Linux
_BLOCK = 512  # bytes in a unit of st_blocks


async def keep_headroom(data_dir: Path) -> None:
    """Keep room behind the end of the engine's append-only file, for ever.

    Returns where there is none to be had: elsewhere than on Linux, on a full disk, and on a file
    system that knows nothing of it. Everything works without.
    """
    while sys.platform == "linux":
        try:
            await asyncio.to_thread(_make_room, data_dir)
        except (OSError, AttributeError) as error:  # a C library without the call
            log.info("no room ahead on disk: %s", error, extra={"event": "no_headroom"})
            return
        await asyncio.sleep(EVERY)


def _make_room(data_dir: Path) -> None:
    for path in data_dir.glob("appendonlydir/*.incr.aof"):  # one, and two while it is rewritten
        try:
            file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # it was rewritten meanwhile
        try:
            found = os.fstat(file)
            if found.st_blocks * _BLOCK - found.st_size < ROOM // 2:
                _allocate(file, found.st_size, ROOM)
        finally:
            os.close(file)


def _allocate(file: int, start: int, length: int) -> None:
    # Python has posix_fallocate only, which would make the file longer.
    allocate = ctypes.CDLL(None, use_errno=True).fallocate
    if allocate(file, _KEEP_SIZE, ctypes.c_long(start), ctypes.c_long(length)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
