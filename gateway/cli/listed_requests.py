"""Save the list that `gateway pending` prints, so that later commands accept its row numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from gateway.client.http_connection import HttpPool
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import InvalidRequest
from gateway.wire.local_discovery import read_private, state_folder, write_private

_MOST_DIGITS = 3
_MOST_MS = 15 * 60_000
_AGAIN = "run `gateway pending`, and use a number from its list"


def keep_list(http: HttpPool, rows: Sequence[str]) -> bool:
    """Save the ID@REVISION of each row that will be printed; return whether saving succeeded.

    Each terminal has a separate file, so that a number never refers to a row in another window.
    """
    now = SystemClock().now_ms()
    try:
        path = _name_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in path.parent.glob("listed-*.json"):
            if old.stat().st_mtime * 1000 < now - _MOST_MS:
                old.unlink(missing_ok=True)
        write_private(path, json.dumps({"of": http.fingerprint(), "at": now, "rows": rows}))
    except OSError:
        return False
    return True


def find_listed(http: HttpPool, wanted: str) -> str:
    """Return the ID@REVISION of the row with this number. A value that is not a short number is
    returned unchanged.

    Raises InvalidRequest if it is not certain which request the person saw.
    """
    if not (wanted.isascii() and wanted.isdecimal() and len(wanted) <= _MOST_DIGITS):
        return wanted
    kept = read_private(_name_file()) or {}
    age = SystemClock().now_ms() - kept.get("at", 0)
    if kept.get("of") != http.fingerprint() or not 0 <= age <= _MOST_MS:
        raise InvalidRequest(
            f"`gateway pending` printed no list in this terminal recently: {_AGAIN}"
        )
    rows: list[str] = kept["rows"]
    if not 1 <= int(wanted) <= len(rows):
        raise InvalidRequest(f"the list has {len(rows)} rows, and no number {wanted}: {_AGAIN}")
    return rows[int(wanted) - 1]


def _name_file() -> Path:
    return Path(state_folder()) / f"listed-{os.getsid(0)}.json"
