"""Reads the tables beside this file: one entry a line, `#` before remarks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files


def rows(name: str) -> Iterator[str]:
    """Yield the lines of a table that are entries."""
    text = (files("gateway.policy.calls") / name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line.strip() and not line.startswith("#"))


def load_words(name: str) -> frozenset[str]:
    """Return all words of a table."""
    return frozenset(word for row in rows(name) for word in row.split())
