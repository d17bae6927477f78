"""Finds the commands that the documents print, as a reader would type them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.frame.tree import ROOT

TABLE_OF_COMMANDS = "docs/cli.md"
"""The page whose tables print commands without the word `gateway`."""
_PROGRAMS = r"gateway|make|curl|python3?|redis-cli|pip|pytest|docker compose|\S+/python|\.ci/run"
_COMMAND = re.compile(rf"(?:^|\$\(|[&|;(] )(?:[A-Z_]+=\S+ )*(?:{_PROGRAMS})(?= |$|\))")
_NAMES = re.compile(rf"(?!make$)(?:{_PROGRAMS})$")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_SETTING = re.compile(rf'"((?:{_PROGRAMS}) [^"]+)"')
_ROW = re.compile(r"^\| (.*?) \| .* \|$", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_COMMENT = re.compile(r"(?:^|\s)# .*$", re.MULTILINE)


class Command(NamedTuple):
    """One command and the page that prints it."""

    page: str
    text: str


@cache
def pages() -> dict[str, str]:
    """Return the documents for readers by name; decision records are no instructions."""
    names = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in names}
    return {name: text for name, text in texts.items() if not name.startswith("docs/adr/")}


def commands_of(page: str, text: str) -> Iterator[Command]:
    """Yield each command of a page: of its blocks, its sentences and its table of commands."""
    for block in _FENCE.finditer(text):
        for line in _lines(block[2], block[3]):
            if _COMMAND.search(line):
                yield Command(page, line)
    prose = _FENCE.sub("", text)
    for span in spans(prose):
        if _COMMAND.search(span) and not _NAMES.match(span):
            yield Command(page, span)
    if page == TABLE_OF_COMMANDS:
        table = prose[: prose.index("\n## ")]
        for row in _ROW.finditer(table.replace(r"\|", "\0")):
            for span in spans(row[1]):
                if not span.startswith("--"):
                    yield Command(page, f"gateway {span}".replace("\0", "|"))


def spans(prose: str) -> list[str]:
    """Return what stands in backquotes, each on one line."""
    return [" ".join(found.split()) for found in _SPAN.findall(prose)]


def options_of(text: str) -> set[str]:
    """Return the options that a page names by themselves, or in a row of a table."""
    found = (_OPTION.match(span) for span in spans(_FENCE.sub("", text)))
    return {option[0] for option in found if option}


def _lines(kind: str, block: str) -> list[str]:
    """Return the lines of a block that a reader types, or a program starts."""
    whole = _COMMENT.sub("", block.replace("\\\n", " "))
    if kind == "sh":
        typed = whole.splitlines()
    elif kind == "console":
        typed = re.findall(r"^ *\$ (.+)$", whole, re.MULTILINE)
    else:
        typed = _SETTING.findall(block) if kind in ("json", "toml", "yaml") else []
    return [" ".join(line.split()) for line in typed]
