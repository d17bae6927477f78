"""Reads what a page has a reader type, in order, and the answers of its tables."""

from __future__ import annotations

import re
from typing import NamedTuple

_FENCE = re.compile(r"^( *)```(sh|console)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`((?:docker|git|make|sh) [^`]+)`")
_ROW = re.compile(r"^ *\| (.+?) \| (.+?) \|$", re.MULTILINE)


class Command(NamedTuple):
    """A line that a page has a reader type, and what the page prints below it."""

    text: str
    says: str = ""


def read_commands(page: str) -> list[Command]:
    """Return the commands of a page in order: those of blocks, and those inside a sentence."""
    found = [(match.start(), _read_block(*match.groups())) for match in _FENCE.finditer(page)]
    text = _FENCE.sub(lambda block: " " * len(block[0]), page)
    found += [(span.start(), [Command(_join(span[1]))]) for span in _SPAN.finditer(text)]
    return [command for _, commands in sorted(found) for command in commands]


def read_rows(page: str, heading: str) -> dict[str, str]:
    """Return the two columns of the table that begins with this heading, without backticks."""
    (_, _, table) = page.partition(f"| {heading} |")
    rows = _ROW.findall(table.partition("\n\n")[0])
    return {name: value.strip("`") for name, value in rows if set(name) != {"-"}}


def as_pattern(text: str) -> str:
    """Return a printed output as a pattern: an ellipsis and the space between columns vary."""
    words = [re.escape(word).replace("…", ".*") for word in text.split()]
    return r"\s+".join(words)


def _read_block(indent: str, kind: str, block: str) -> list[Command]:
    lines = [line.removeprefix(indent) for line in block.splitlines()]
    if kind == "sh":
        return [Command(line) for line in lines]
    parts = re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]
    return [Command(first, says) for first, _, says in (part.partition("\n") for part in parts)]


def _join(text: str) -> str:
    return re.sub(r"\s+", " ", text)
