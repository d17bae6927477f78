"""Local discovery: agents of the same user find the gateway by a private file.

The gateway writes the file, agents read it. Both also read secrets from files here. No `pathlib`,
whose import would cost each tool call 3 ms.
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
"""The token of the local owner, in the same folder."""
LOCK_FILE = "up.lock"
"""Locked by the process that runs the gateway of the folder, in the same folder."""


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
    """Keep `gateway.json` (0600) in the folder inside the block: the URL, the secret to enrol
    with, which `data` the gateway works on, see `name_data`, which adapters it runs, and the file
    of its policy."""
    path = os.path.join(folder, FILE_NAME)
    said = {"url": url, "enroll": enroll, "public_key": public_key, "data": data}
    text = json.dumps({**said, "adapters": list(adapters), "policy_file": policy_file})
    write_private(path, text)
    try:
        yield
    finally:
        with suppress(OSError), open(path, encoding="utf-8") as file:
            if file.read() == text:  # it may be another gateway's by now
                os.unlink(path)


@contextmanager
def hold_lock(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Have `find_process` return this process inside the block, where it returns none before."""
    import fcntl  # noqa: PLC0415 (agents do not need it)

    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, LOCK_FILE)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w") as lock:
        with suppress(BlockingIOError):
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def find_process(folder: str | os.PathLike[str]) -> int | None:
    """Return the number of the process that runs the gateway of a folder, None where none does; 0
    where it has no number here, as one of another container.

    The kernel says who holds the lock: a number in a file could be another process's by now.
    Raises InvalidRequest when other users could hold it.
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
        # The places in the system's `struct flock`; the others stay 0, for all bytes of the file.
        layout, kind, pid = ("qqihh", 3, 2) if sys.platform == "darwin" else ("hhqqi", 0, 4)
        # A gateway locks to write; whoever only reads is none.
        asked = [fcntl.F_RDLCK if place == kind else 0 for place in range(5)]
        told = fcntl.fcntl(handle, fcntl.F_GETLK, struct.pack(layout, *asked))
    found = struct.unpack(layout, told)
    return None if found[kind] == fcntl.F_UNLCK else max(found[pid], 0)


def name_data(redis_url: str | None, namespace: str) -> str:
    """Return which data a gateway works on, without the login of its Redis."""
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
    """Return the address of the gateway that the settings mean; None when there is none.

    Settings win: the gateway that announced itself in the folder is meant only where there is no
    `url`, and none of them names other data. Then its `public_url` is taken. Raises InvalidRequest
    where that is missing, too.
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
            f"{' and '.join(problems)}, but the gateway found in {folder} works on other data: set "
            "GATEWAY_URL to the address of the gateway that you mean"
        )
    return str(announced["url"])


def is_same_address(one: str, other: str) -> bool:
    """Whether two URLs are the same, with every name of the loopback address taken as one."""
    return _plain_address(one) == _plain_address(other)


def _plain_address(url: str) -> str:
    scheme, _, place = url.rstrip("/").lower().partition("://")
    for name in ("localhost", "[::1]"):
        if place == name or place.startswith(f"{name}:"):
            place = "127.0.0.1" + place.removeprefix(name)
    return f"{scheme}://{place}"


def secret(variable: str) -> str | None:
    """Return a secret from the environment, or from the file named by `<variable>_FILE`.

    Raises InvalidRequest when that file cannot be read or is empty: a configured secret must not
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
        why = getattr(error, "strerror", None) or "it is no text"
        raise InvalidRequest(f"{variable}_FILE names {path}, which cannot be read: {why}") from None
    if not value:
        raise InvalidRequest(f"{variable}_FILE names {path}, which is empty")
    return value


def read_private(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the JSON object in a private file, None when there is no file.

    Raises InvalidRequest when other users could have read or written it: whoever writes it chooses
    the gateway that agents trust.
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
        raise InvalidRequest(f"{path} holds no JSON object: remove it")
    return values


def _find_exposure(found: os.stat_result) -> str:
    """Return why a file is not private to this user; empty when it is."""
    if not stat.S_ISREG(found.st_mode):
        return "is no plain file"
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return "is open to other users"
    return ""


def write_private(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replace a file in one step, readable by this user alone. After a power cut it is the old or
    the new file, never part of it; once this has returned it is the new one, on file systems that
    sync folders."""
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
        if error.errno != errno.EINVAL:  # a file system that syncs no folders: the file is in place
            raise
    finally:
        os.close(inside)
