"""Signs that a request destroys something or reaches for secrets, whoever asks and why.

They are signs, not proof: what finds none is not harmless. In shadow, where they begin, they only
stand in the audit, so that an operator sees what they would have stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from gateway.grants.paths import delicate
from gateway.grants.tables import rows
from gateway.grants.tools import paths_in, runs_what_it_is_given
from gateway.masking import start_of
from gateway.models import Kind
from gateway.records import Record
from gateway.wire import JsonObject

_MOST_TEXT = 20_000
_MOST_FOUND = 8

_SIGNS = tuple(
    (says, tuple(hints.split()), re.compile(pattern, re.IGNORECASE))
    for says, hints, pattern in (row.split(" => ", 2) for row in rows("signs.txt"))
)
_WORDS = re.compile(r"[^\s\"'`;|&<>()=,\[\]{}]+")


def findings(record: Record) -> tuple[str, ...]:
    """Return what a request shows signs of, each in a few words."""
    found: dict[str, None] = {}
    for text in _commands(record):
        if len(text) > _MOST_TEXT:
            found["is too long to be looked through"] = None
        shown = text[:_MOST_TEXT]
        lower = shown.lower()
        for says, hints, sign in _SIGNS:
            if any(hint in lower for hint in hints) and sign.search(shown):
                found[says] = None
        for word in _WORDS.findall(shown):
            found |= _secret(word)
    for path in chain.from_iterable(map(paths_in, record.parts)):
        for one in path if isinstance(path, list) else [path]:
            found |= _secret(one)
    return tuple(found)[:_MOST_FOUND]


def _secret(path: Any) -> dict[str, None]:
    why = delicate(path) if isinstance(path, str) else None
    return {f"names {start_of(path, 80)}: {why}": None} if why else {}


def _commands(record: Record) -> Iterator[str]:
    """Yield what looks like something to run: all text of a command, else what is named so."""
    for name, value in chain.from_iterable(part.items() for part in record.parts):
        if record.request.kind is Kind.COMMAND or runs_what_it_is_given(name):
            yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield " ".join(part for part in value if isinstance(part, str))
        yield from (text for part in value if not isinstance(part, str) for text in _texts(part))
    elif isinstance(value, dict):
        parts: JsonObject = value
        yield from (text for part in parts.values() for text in _texts(part))
