"""A Redis of a test's own that may be killed and started again on what it has written."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.stores.embedded_server import find_server_binary
from tests.waiting import moment


class Server:
    """Append-only, fsync always, users in a file: as a gateway in production wants it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.socket = folder / "s"
        self.url = f"unix://{self.socket}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Run it, on what was written before, until it answers."""
        users = self._folder / "users.acl"
        users.touch()
        self.socket.unlink(missing_ok=True)
        log = (self._folder / "engine.log").open("ab")
        self._process = await asyncio.create_subprocess_exec(
            str(find_server_binary()),
            *("--port", "0", "--unixsocket", str(self.socket), "--dir", str(self._folder)),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            *("--aclfile", str(users)),
            stdout=log,
            restore_signals=False,  # as with a full disk, a file too long is an error, not the end
        )
        log.close()
        async with Redis(unix_socket_path=str(self.socket)) as client:
            while True:
                assert self._process.returncode is None
                try:
                    await client.ping()
                except (RedisError, OSError):
                    await moment()
                    continue
                return

    async def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    def leave_room(self, more: int) -> None:
        """Have its files grow by at most so many bytes, as on a disk that is nearly full."""
        lengths = [path.stat().st_size for path in self._folder.glob("appendonlydir/*")]
        self._limit(max(lengths) + more)

    def free_room(self) -> None:
        """Have its files grow again."""
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, most: int) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (most, hard))

    async def gone(self) -> int:
        """Wait until it has ended by itself; return its exit code."""
        assert self._process is not None
        return await self._process.wait()

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, for a proxy."""
        return await asyncio.open_unix_connection(str(self.socket))


@asynccontextmanager
async def own_server(folder: Path) -> AsyncIterator[Server]:
    """Run a server in a folder whose path is short enough for a socket."""
    server = Server(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
