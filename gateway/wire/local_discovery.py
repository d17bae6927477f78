"""Let agents of the same operating-system user find the gateway through a private file.

The gateway writes the file with `announce`; agents read it with `choose_url`. Both use this module
to read secrets from files. It does not use `pathlib`, whose import would make each tool call 3 ms
slower.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from gateway.wire.schema import InvalidRequest

FILE_NAME = "gateway.json"
OWNER_FILE = "approver.json"
"""File with the token of the local owner, in the same folder."""
LOCK_FILE = "up.lock"
"""File that the running gateway of the folder locks, in the same folder."""


def state_folder() -> str:
    """Return the folder that a gateway and the agents of the same user share."""
    if configured := os.environ.get("GATEWAY_DATA_DIR"):
        return configured
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise InvalidRequest("this user has no home folder; set GATEWAY_DATA_DIR")
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(base, "approval-gateway")


@contextmanager
def announce(
    folder: str | os.PathLike[str],
    *,
    url: str,
    enroll: str,
    public_key: str,
    data: str = "",
    adapters: Sequence[str] = (),
    policy_file: str = "",
) -> Iterator[None]:
    """Keep `gateway.json` (mode 0600) in the folder during the block. It contains the URL, the
    enrolment secret, the data location (`name_data`), the adapters and the policy file."""
    path = os.path.join(folder, FILE_NAME)
    said = {"url": url, "enroll": enroll, "public_key": public_key, "data": data}
    text = json.dumps({**said, "adapters": list(adapters), "policy_file": policy_file})
    write_private(path, text)
    try:
        yield
    finally:
        with suppress(OSError), open(path, encoding="utf-8") as file:
            if file.read() == text:  # another gateway may have replaced it
                os.unlink(path)


@contextmanager
def hold_lock(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the folder's lock during the block, so that `find_process` returns this process."""
    import fcntl  # noqa: PLC0415 (agents do not need it)

    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, LOCK_FILE)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w") as lock:
        with suppress(BlockingIOError):
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def find_process(folder: str | os.PathLike[str]) -> int | None:
    """Return the process ID of the gateway that runs in a folder, or None. Return 0 if its ID is
    not visible here, for example because it runs in another container.

    The kernel reports the holder of the lock; a process ID in a file could be outdated. Raises
    InvalidRequest if other users could hold the lock.
    """
    import fcntl  # noqa: PLC0415 (agents do not need it)
    import struct  # noqa: PLC0415 (as above)

    path = os.path.join(folder, LOCK_FILE)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(handle):
        if problem := _find_exposure(os.fstat(handle)):
            raise InvalidRequest(f"{path} {problem}, so it is not trusted: remove it")
        # Position of each field in the system's `struct flock`. The others stay 0: all bytes of the
        # file.
        layout, kind, pid = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi", 0, 4)
        # Only a gateway locks for writing, so a reader does not count.
        asked = [fcntl.F_RDLCK if place == kind else 0 for place in range(5)]
        told = fcntl.fcntl(handle, fcntl.F_GETLK, struct.pack(layout, *asked))
    found = struct.unpack(layout, told)
    return None if found[kind] == fcntl.F_UNLCK else max(found[pid], 0)


def name_data(redis_url: str | None, namespace: str) -> str:
    """Return a description of the gateway's data location, without the Redis login."""
    from urllib.parse import parse_qs, urlsplit  # noqa: PLC0415 (agents do not need it)

    if redis_url is None:
        return f"the embedded server, namespace {namespace}"
    parts = urlsplit(redis_url)
    numbers = parse_qs(parts.query).get("db")
    number = f"?db={numbers[0]}" if numbers else ""
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{number}"
    return f"{place}, namespace {namespace}"


def choose_url(
    folder: str | os.PathLike[str],
    url: str | None,
    public_url: str | None = None,
    *,
    redis_url: str | None,
    namespace: str | None,
    production: bool,
) -> str | None:
    """Return the address of the gateway that the settings name, or None.

    Settings take precedence. The gateway announced in the folder is used only if there is no `url`
    and no setting names other data. If a setting names other data, `public_url` is used. Raises
    InvalidRequest if `public_url` is missing then.
    """
    if url:
        return url.rstrip("/")
    announced = None if production else read_private(os.path.join(folder, FILE_NAME))
    if announced is None or not announced.get("url"):
        return public_url and public_url.rstrip("/")
    redis, _, space = str(announced.get("data", "")).rpartition(", namespace ")
    wanted, _, _ = name_data(redis_url, "").rpartition(", namespace ")
    problems = []
    if redis_url is not None and redis != wanted:
        problems.append(f"REDIS_URL names {wanted}")
    if namespace is not None and (space or "gw") != namespace:
        problems.append(f"GATEWAY_NAMESPACE names {namespace}")
    if problems and public_url:
        return public_url.rstrip("/")
    if problems:
        raise InvalidRequest(
            f"{' and '.join(problems)}, but the gateway found in {folder} uses other data: set "
            "GATEWAY_URL to the address of the gateway to use"
        )
    return str(announced["url"])


def is_same_address(one: str, other: str) -> bool:
    """Return whether two URLs are equal. All names of the loopback address count as the same."""
    return _plain_address(one) == _plain_address(other)


def _plain_address(url: str) -> str:
    scheme, _, place = url.rstrip("/").lower().partition("://")
    for name in ("localhost", "[::1]"):
        if place == name or place.startswith(f"{name}:"):
            place = "127.0.0.1" + place.removeprefix(name)
    return f"{scheme}://{place}"


def secret(variable: str) -> str | None:
    """Return a secret from the environment, or from the file named by `<variable>_FILE`.

    Raises InvalidRequest if that file is unreadable or empty, because a configured secret must not
    be ignored.
    """
    if value := os.environ.get(variable):
        return value
    path = os.environ.get(f"{variable}_FILE")
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            value = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "the file is not text"
        raise InvalidRequest(f"{variable}_FILE names {path}, which cannot be read: {why}") from None
    if not value:
        raise InvalidRequest(f"{variable}_FILE names {path}, which is empty")
    return value


def read_private(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the JSON object in a private file, or None if there is no file.

    Raises InvalidRequest if other users could access the file, because anybody who can write the
    file chooses the gateway that agents trust.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, encoding="utf-8") as file:
        if problem := _find_exposure(os.fstat(handle)):
            raise InvalidRequest(f"{path} {problem}, so it is not trusted: remove it")
        try:
            values = json.load(file)
        except ValueError:
            values = None
    if not isinstance(values, dict):
        raise InvalidRequest(f"{path} does not contain a JSON object: remove it")
    return values


def _find_exposure(found: os.stat_result) -> str:
    """Return why a file is not private to this user, or "" if it is private."""
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return "is open to other users"
    return ""


def write_private(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replace a file atomically, readable only by this user. After a power cut either the old or
    the new file exists. On file systems that sync folders, the new file is durable on return."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(handle)
    os.replace(temporary, path)
    inside = os.open(folder or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(inside)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the file system cannot sync folders; the file is in place
            raise
    finally:
        os.close(inside)
