"""Finds the commands that the documents print, as a reader would type them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from typing import NamedTuple

from gateway.cli import main
from gateway.cli.completion import commands_and_words
from tests.frame.tree import ROOT

SHORT = "docs/reference/cli.md"
"""The page that prints our commands without the word `gateway`."""
RECORDS = (
    *(f"tests/{name}.md" for name in ("compatibility", "hostile-inputs", "verification")),
    "benchmarks/history.md",
)
"""What was tried and measured, beside the tests that did it."""
_PROGRAMS = (
    r"gateway|make|curl|python3?|redis-cli|pip|pipx|uvx|pytest|docker compose|kill(?= -)"
    r"|\S+/python|\.ci/run"
)
_COMMAND = re.compile(rf"(?:^|\$\(|[&|;(] )(?:[A-Z_]+=\S+ )*(?:{_PROGRAMS})(?= |$|\))")
_WHOLE_ALONE = {"make", ".ci/run"}
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_SETTING = re.compile(rf'"((?:{_PROGRAMS}) [^"]+)"')
_SECTION = re.compile(r"^## ([a-z].*)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_COMMENT = re.compile(r"(?:^|\s)# .*$", re.MULTILINE)
_HELPED = (
    "hook",
    "hook picoclaw",
    "install",
    "bridge dexto",
    "bridge gptme-server",
    "bridge acp",
    "bridge codex-app-server",
    "bridge opencode",
    "saiki convert",
    "discord setup",
    "mcp proxy",
    "mcp server",
    "slack manifest",
)
"""Commands whose options are known to their own help only."""
_OF_ADAPTERS = ("discord", "saiki", "slack")


class Section(NamedTuple):
    """What the page of commands says of one: what is typed, and its options."""

    command: str
    options: set[str]


@cache
def pages() -> dict[str, str]:
    """Return the documents for readers by name; decision records are no instructions."""
    first = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    names = [*first, *sorted(ROOT.glob("docs/**/*.md")), *(ROOT / name for name in RECORDS)]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in names}
    return {name: text for name, text in texts.items() if not name.startswith("docs/adr/")}


@cache
def printed() -> dict[str, list[str]]:
    """Return each command that a document prints, with the documents."""
    found = defaultdict(list)
    for page, text in pages().items():
        for command in dict.fromkeys(commands_of(text, short=page == SHORT)):
            found[command].append(page)
    return dict(found)


def commands_of(text: str, *, short: bool = False) -> Iterator[str]:
    """Yield each command of a page: of its blocks, its sentences and its sections of commands.

    A program that is named without any words is no command. A page may print ours in short.
    """
    for block in _FENCE.finditer(text):
        yield from filter(_COMMAND.search, _lines(block[2], block[3]))
    for span in spans(text):
        words = span.split()
        if short and words[0] in our_commands() and len(words) > 1:
            yield f"gateway {span}"
        elif _COMMAND.search(span) and (len(words) > 1 or span in _WHOLE_ALONE):
            yield span
    for one in sections(text) if short else []:
        yield one.command


def spans(text: str) -> list[str]:
    """Return what stands in backquotes, each on one line; of a table without its escapes."""
    found = (" ".join(one.split()) for one in _SPAN.findall(_FENCE.sub("", text)))
    return [one.replace("\\|", "|") for one in found]


def sections(text: str) -> list[Section]:
    """Return the sections of commands; their headings begin with a small letter, as commands do."""
    return [
        Section(f"gateway {found[1]}", set(_OPTION.findall(" ".join(spans(found[2])))))
        for found in _SECTION.finditer(text)
    ]


@cache
def our_commands() -> dict[str, set[str]]:
    """Return the first word of each command of ours, with all options below it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, words in commands_and_words():
        found[" ".join(path.split()[1:2])] |= {word for word in words if word.startswith("--")}
    for line in _HELPED:
        with redirect_stdout(StringIO()) as said, suppress(SystemExit):
            main([*line.split(), "--help"])
        found[line.split()[0]] |= set(_OPTION.findall(said.getvalue()))
    found |= {name: found[name] for name in _OF_ADAPTERS}
    return dict(found)


def options_of(text: str) -> set[str]:
    """Return the options that a page names without a command."""
    return {one for span in spans(text) if span.startswith("--") for one in _OPTION.findall(span)}


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
