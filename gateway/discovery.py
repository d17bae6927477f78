"""How agents of the same user find a local gateway: one private file in the shared folder.

Belongs to both sides: the gateway writes the file, agents read it. No `pathlib`, which costs a
process per tool call 3 ms.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gateway.errors import InvalidRequest

FILE_NAME = "gateway.json"


def state_folder() -> str:
    """Return the folder that gateway and agents of one user share without being told."""
    if configured := os.environ.get("GATEWAY_DATA_DIR"):
        return configured
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise InvalidRequest("this user has no home folder; set GATEWAY_DATA_DIR")
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(base, "approval-gateway")


@contextmanager
def announced(
    folder: str | os.PathLike[str], *, url: str, enroll: str, public_key: str
) -> Iterator[None]:
    """Keep `gateway.json` (0600) in the folder: where we are, and the secret to enrol with."""
    path = os.path.join(folder, FILE_NAME)
    write_private(path, json.dumps({"url": url, "enroll": enroll, "public_key": public_key}))
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def write_private(path: str | os.PathLike[str], text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
