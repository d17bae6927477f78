"""Tells apart identical calls of a host that has no ids for them, across processes.

The first such call of a session is number 0, the next one 1. A process that was killed before it
answered leaves its number: the call that is tried again takes it, and finds its request. Each
number is a file, locked while its process lives. Nothing here decides: without the folder each call
is a new one.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from gateway.errors import InvalidRequest
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.identifiers import REQUEST_ID
from gateway.wire.local_discovery import state_folder

_MOST = 1000
_ANSWERED = "answered"
_KEPT_SECONDS = 7 * 24 * 3600.0
_MOST_BYTES = 64


class Occurrence:
    """One call among identical ones, until its process ends."""

    def __init__(self, number: int, handle: int) -> None:
        self.number = number
        self._handle = handle

    def note(self, request_id: str) -> None:
        """Remember under which id it is asked."""
        self._write(request_id)

    def finish(self) -> None:
        """It was answered: the same call after it is another one."""
        self._write(_ANSWERED)

    def leave(self) -> None:
        """It was not answered: the same call after it is this one again."""
        os.close(self._handle)

    def _write(self, words: str) -> None:
        with suppress(OSError):
            os.pwrite(self._handle, words.encode(), 0)
            os.ftruncate(self._handle, len(words))


def take(host: str, session: str, content: str) -> Occurrence | None:
    """Take the first number of this content that is neither answered nor held by a process that
    lives. None where that cannot be kept."""
    try:
        folder = _folder(host, session)
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700)
            _forget_old(folder)
        for number in range(_MOST):
            path = os.path.join(folder, f"{content}.{number}")
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            if _lock(handle) and _read(handle) != _ANSWERED:
                return Occurrence(number, handle)
            os.close(handle)
    except (OSError, InvalidRequest):
        return None
    return None


def waiting(host: str, session: str, content: str | None) -> list[str]:
    """Return the ids under which calls are asked that were not answered, the first ones first: of
    this content, or of the whole session. What is returned counts as answered from now on where its
    process is gone."""
    found = []
    with suppress(OSError, InvalidRequest):
        folder = _folder(host, session)
        for name in sorted(os.listdir(folder), key=_number):
            if content is None or name.startswith(f"{content}."):
                handle = os.open(os.path.join(folder, name), os.O_RDWR | os.O_NOFOLLOW)
                try:
                    words = _read(handle)
                    if REQUEST_ID.fullmatch(words):
                        found.append(words)
                        if _lock(handle):
                            Occurrence(0, handle).finish()
                finally:
                    os.close(handle)
    return found


def _folder(host: str, session: str) -> str:
    name = sha256_hex(f"{host} {session}".encode())[:32]
    return os.path.join(state_folder(), "hooks", name)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(handle: int) -> str:
    return os.pread(handle, _MOST_BYTES, 0).decode("ascii", "replace")


def _number(name: str) -> int:
    end = name.rpartition(".")[2]
    return int(end) if end.isdecimal() else 0


def _forget_old(new: str) -> None:
    """Remove the sessions in which nothing was asked for a week before `new`, which just began."""
    import shutil  # noqa: PLC0415 (takes 5 ms, and is needed once per session)

    above = os.path.dirname(new)
    began = os.stat(new).st_mtime
    for name in os.listdir(above):
        one = os.path.join(above, name)
        if began - os.stat(one).st_mtime > _KEPT_SECONDS:
            shutil.rmtree(one, ignore_errors=True)
