"""Bind files to an approval: they must not change between the request and the run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping

from gateway.errors import InvalidRequest, Unverified

ABSENT = "absent"
_BLOCK = 1 << 20


def hash_files(paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its path and by its real path without links.

    The value for a missing file is `absent`. Raises InvalidRequest if a path is not a regular file,
    or is unreadable.
    """
    files: dict[str, str] = {}
    for path in paths:
        whole = _drop_dots(os.path.join(os.getcwd(), path))
        real = os.path.realpath(whole)
        files[whole] = files[real] = _content(real)
    return files


def _drop_dots(path: str) -> str:
    """Return an absolute path without its `.` parts, so that it equals the real path if it contains
    no link. Unlike `abspath`, keeps `..`, because `..` after a link leads to the parent of the
    link's target."""
    parts = (part for part in path.split(os.sep) if part not in ("", os.curdir))
    return os.sep + os.sep.join(parts)


def check_files(files: Mapping[str, str]) -> None:
    """Check bound files. Raises Unverified if a file, or a link on its path, has changed."""
    for path, content in files.items():
        real = os.path.realpath(path)
        try:
            same = real in files and _content(real) == content
        except InvalidRequest:
            same = False
        if not same:
            raise Unverified(f"the file {path} was changed after the request was submitted")


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking. Opening a pipe that has no writer would otherwise block."""
    return os.open(path, flags | os.O_NONBLOCK)


def _content(path: str) -> str:
    import hashlib  # noqa: PLC0415 (slow to load, and few calls bind files)

    digest = hashlib.sha256()
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidRequest(f"cannot bind {path} to an approval: it is not a regular file")
            while block := file.read(_BLOCK):
                digest.update(block)
    except FileNotFoundError:
        return ABSENT
    except OSError as error:
        raise InvalidRequest(f"cannot bind {path} to an approval: {error}") from error
    return digest.hexdigest()
