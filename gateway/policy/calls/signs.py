"""Finds what looks destructive in a text that runs, by its words; the table is `signs.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.policy.calls.tables import rows

_SIGNS = tuple(
    (says, tuple(hints.split()), re.compile(pattern, re.IGNORECASE))
    for says, hints, pattern in (row.split(" => ", 2) for row in rows("signs.txt"))
)


def find_destructive(text: str) -> Iterator[str]:
    """Yield what a text does that looks destructive, each in a few words."""
    lower = text.lower()
    for says, hints, sign in _SIGNS:
        if any(hint in lower for hint in hints) and sign.search(text):
            yield says
