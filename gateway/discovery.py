"""How agents of the same user find a local gateway: one private file in the shared folder.

Belongs to both sides: the gateway writes the file, agents read it. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE_NAME = "gateway.json"


def state_folder() -> Path:
    """Return the folder that gateway and agents of one user share without being told."""
    if configured := os.environ.get("GATEWAY_DATA_DIR"):
        return Path(configured)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "approval-gateway"


@contextmanager
def announced(data_dir: Path, *, url: str, enroll: str, public_key: str) -> Iterator[None]:
    """Keep `gateway.json` (0600) in the folder: where we are, and the secret to enrol with."""
    path = data_dir / FILE_NAME
    write_private(path, json.dumps({"url": url, "enroll": enroll, "public_key": public_key}))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)
