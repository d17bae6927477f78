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

ROOM = 16 * 1024 * 1024  # bytes taken behind the end of the file when less than half of it is left
SPARE = 64 * ROOM  # bytes that must be free on the disk: it is needed for more than this
EVERY = 1.0  # seconds between two looks
LATER = 600.0  # seconds until the next look after one that failed

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of Linux
_BLOCK = 512  # bytes in a unit of st_blocks


async def keep_headroom(data_dir: Path) -> None:
    """Keep room behind the end of the engine's append-only file, for ever.

    Everything works without: elsewhere than on Linux, where the disk is nearly full, and on a file
    system that knows nothing of it.
    """
    while sys.platform == "linux":
        pause = EVERY
        try:
            await asyncio.to_thread(make_room, data_dir)
        except FileNotFoundError:
            pass  # it was rewritten while we looked
        except (OSError, AttributeError) as error:  # a C library without the call
            log.info("no room ahead on disk: %s", error, extra={"event": "no_headroom"})
            pause = LATER
        await asyncio.sleep(pause)


def make_room(data_dir: Path) -> None:
    """Take room behind the append-only file where too little is left, and the disk has plenty.

    Raises OSError where the system refuses.
    """
    # Earlier ones may have been left by a rewrite that failed: nothing is appended to them.
    files = [(path.lstat().st_mtime_ns, path) for path in data_dir.glob("appendonlydir/*.incr.aof")]
    if not files:
        return
    file = os.open(max(files)[1], os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found, disk = os.fstat(file), os.fstatvfs(file)
        left = found.st_blocks * _BLOCK - found.st_size
        if left < ROOM // 2 and disk.f_bavail * disk.f_frsize > SPARE:
            _allocate(file, found.st_size, ROOM)
    finally:
        os.close(file)


def _allocate(file: int, start: int, length: int) -> None:
    # Python has posix_fallocate only, which would make the file longer.
    allocate = ctypes.CDLL(None, use_errno=True).fallocate
    if allocate(file, _KEEP_SIZE, ctypes.c_long(start), ctypes.c_long(length)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
