"""`python -m tests.docs.cli_page`: write the commands of docs/reference/cli.md from their parsers.

The text above the mark is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from gateway.cli import main
from gateway.cli.commands import make_parser
from tests.frame.tree import ROOT

PAGE = ROOT / "docs" / "reference" / "cli.md"
MARK = "<!-- `python -m tests.docs.cli_page` writes the rest from the help texts. -->\n"
BRIDGES = ("acp", "codex-app-server", "dexto", "gptme-server", "opencode")
OWN = (
    "ask",
    "wait",
    "run",
    "install",
    "hook picoclaw",
    "mcp",
    *(f"bridge {one}" for one in BRIDGES),
)
"""Commands that build their parser when they run."""
BUILDS_NONE = "gateway bridge"
"""The program that only reads which bridge to load."""
OF_MANY = ("--json", "--by")
"""Options that the head explains once."""
FEWEST_ALIKE = 4


class _FoundParser(Exception):
    """Brings the parser out of a command that is about to use it."""


def captured(command: str) -> argparse.ArgumentParser:
    """Return the parser that a command builds for its own words."""
    parse = argparse.ArgumentParser.parse_args

    def bring(parser: argparse.ArgumentParser, *words: Any) -> Any:
        if parser.prog == BUILDS_NONE:
            return parse(parser, *words)
        raise _FoundParser(parser)

    with patch.object(argparse.ArgumentParser, "parse_args", bring):
        try:
            main(command.split())
        except _FoundParser as found:
            parser: argparse.ArgumentParser = found.args[0]
            return parser
    raise AssertionError(command)


def leaves(
    path: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command below a parser that has no further commands, with its words."""
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not below:
        yield path, parser
    for action in below:
        about = {one.dest: one.help for one in action._choices_actions}
        for name, one in action.choices.items():
            one.description = one.description or about.get(name)
            yield from leaves(f"{path} {name}".strip(), one)


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, by its words behind `gateway`."""
    own = {command: captured(command) for command in OWN}
    found: dict[str, argparse.ArgumentParser] = {}
    for path, parser in leaves("", make_parser()):
        kept = {name: one for name, one in own.items() if f"{name} ".startswith(f"{path} ")}
        for name, one in (kept or {path: parser}).items():
            one.description = one.description or parser.description
            found |= leaves(name, one)
    return found


def arguments(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return how each argument of a command is typed, with its help."""
    found = {}
    for action in parser._actions:
        chosen = action.choices is not None and len(list(action.choices)) == 1
        if action.dest == "help" or chosen or set(action.option_strings) & set(OF_MANY):
            continue
        value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if action.choices and not action.metavar:
            value = "|".join(map(str, action.choices))
        if action.nargs in ("+", "*"):
            value += "…"
        elif action.nargs == "?" and action.option_strings:
            value = f"[{value}]"
        named = " ".join(action.option_strings[-1:])
        found[value if not named else named if action.nargs == 0 else f"{named} {value}"] = (
            action.help or ""
        )
    return found


def sections() -> Iterator[str]:
    """Yield what the page says about each command; options of an earlier one are named only."""
    known = {path: arguments(parser) for path, parser in commands().items()}
    for path, parser in commands().items():
        about = " ".join((parser.description or "").partition("\n\n")[0].split()).rstrip(".")
        rows = known[path]
        for other, before in known.items():
            alike = {one: words for one, words in rows.items() if before.get(one) == words}
            if other == path or len(alike) >= FEWEST_ALIKE:
                break
        shared = alike if other != path else {}
        lines = [f"- `{one}`: {words}" for one, words in rows.items() if one not in shared]
        if shared:
            names = ", ".join(f"`{one}`" for one in shared)
            lines.append(f"- {names}: see [{other}](#{other.replace(' ', '-')})")
        yield "\n".join(
            [f"## {path}", "", f"{about[0].upper()}{about[1:]}.", *[""] * bool(lines), *lines, ""]
        )


def page() -> str:
    """Return the page: its head as it is, and each command as its parser is now."""
    head, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert mark, "the page has lost its mark"
    return head + mark + "".join(f"\n{one}" for one in sections())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
