"""Finds what looks destructive in a text that runs, by its words; the table is `signs.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.policy.calls.tables import rows

_ROWS = tuple(row.split(" => ", 2) for row in rows("signs.txt"))
_SIGNS = tuple((says, re.compile(pattern, re.IGNORECASE)) for says, _, pattern in _ROWS)
_HINTS = tuple((hint, at) for at, (_, hints, _) in enumerate(_ROWS) for hint in hints.split())


def find_destructive(text: str) -> Iterator[str]:
    """Yield what a text does that looks destructive, each in a few words."""
    lower = text.lower()
    for at in sorted({at for hint, at in _HINTS if hint in lower}):
        says, sign = _SIGNS[at]
        if sign.search(text):
            yield says
