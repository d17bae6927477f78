"""The data folder of the embedded engine: its locks, secrets, users file, socket and log.

Everything here is small and local, so it may block. `embedded_server` runs a server on it.
"""

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gateway.wire.local_discovery import write_private

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
    def prepare(cls, data_dir: Path) -> "DataFolder":
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
                "stop it, or choose another data folder with GATEWAY_DATA_DIR, or set REDIS_URL "
                "for both so that they share one Redis"
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

    def open_log(self) -> int:
        """Open the server's log for its output; the caller closes the descriptor."""
        fd = _open(self.path / "engine.log", os.O_WRONLY | os.O_APPEND)
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
