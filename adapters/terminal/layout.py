"""Margins that tell our rows from the agent's: ours begin at the edge or behind two blanks, a row
of the agent's text behind four, also where it was folded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

_OURS, _AGENTS = 2, 4  # blanks
_GAP = 3  # blanks between two facts of one row
_SIGN = 2  # columns of a sign, and of what is folded
_LINE_END = 2  # columns of a line that follow its title at least
_BEGINS = re.compile(r'(?P<blanks> *)(?:"(?:[^"\\]|\\.)*": )?"?')
GOES_ON = "\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}"


class Hanging:
    """A text with words of ours first: whatever is folded begins where the agent's text does."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows."""
        rows = self._text.wrap(console, max(1, options.max_width - _AGENTS))
        for number, row in enumerate(rows):
            yield Padding(row, (0, 0, 0, _AGENTS if number else _OURS))


class Heading:
    """A title, of several rows where it is long, and a line behind it."""

    def __init__(self, title: Text) -> None:
        self._title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows."""
        most = options.max_width - _LINE_END
        fits = self._title.cell_len <= most
        *rows, last = self._title.wrap(console, most if fits else max(1, most - _AGENTS))
        yield from rows[:1]
        yield from map(set_in, rows[1:])
        line = Rule(last, align="left", style="dim")
        yield set_in(line) if rows else line


class FoldedRows:
    """A text of several rows: whatever is folded begins where the value of its row does, or its
    first word, behind a mark. Without one it would pass for a row of its own: in a shell, for
    another command."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows."""
        width = max(1, options.max_width)
        for row in self._text.split(allow_blank=True):
            if cell_len(row.plain.expandtabs()) <= width:
                yield row
                continue
            begin = _find_begin(row.plain, width // 2)
            lead, value = row[:begin], row[begin:]
            behind = max(begin, _SIGN)
            folded = Text().append(f"{GOES_ON} ".rjust(behind), "dim")
            for number, part in enumerate(value.wrap(console, max(1, width - behind)) or [Text()]):
                yield (folded.copy() if number else lead).append_text(part)


def _find_begin(row: str, most: int) -> int:
    """Return where the value in a row of JSON begins, or the first word of any other; 0 where that
    is further than `most`."""
    found = _BEGINS.match(row)
    ends = (found.end(), found.end("blanks")) if found else ()
    return next((end for end in ends if cell_len(row[:end]) == end <= most), 0)


class FactRows:
    """Labelled short texts, as many in a row as fit: none is torn from its label."""

    def __init__(self, facts: Sequence[Text]) -> None:
        self._facts = facts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows."""
        row = Text()
        for fact in self._facts:
            together = row.cell_len + _GAP + fact.cell_len + _AGENTS
            if row and together > options.max_width:
                yield Hanging(row)
                row = Text()
            if row:
                row.append(" " * _GAP)
            row.append_text(fact)
        if row:
            yield Hanging(row)


class SignedRows:
    """The rows of a diff, each a sign and its text: whatever is folded has that sign again, and a
    mark beside it. Without a sign it would pass for a row that stays."""

    def __init__(self, rows: Sequence[tuple[Text, Text]]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows."""
        for sign, text in self._rows:
            folded = Text(f"{sign.plain[:1] or ' '}{GOES_ON}", sign.style)
            for number, row in enumerate(text.wrap(console, max(1, options.max_width - _SIGN))):
                yield (folded if number else sign).copy().append_text(row)


def set_in(text: RenderableType) -> Padding:
    """Return a text of the agent behind its margin."""
    return Padding(text, (0, 0, 0, _AGENTS))
