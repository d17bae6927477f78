"""What would run, in colours that can be read on a dark and on a light terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

from gateway.ports import Block, Change, Visible

ESCAPE = "bold black on yellow"  # escapes stand out from the agent's own characters
# The plain eight colours, and not dim: the bright ones vanish on white.
STYLES: dict[tuple[str, ...], Style] = {
    ("Comment",): Style(italic=True),
    ("Keyword",): Style(color="blue", bold=True),
    ("Literal",): Style(color="green"),
    ("Literal", "Number"): Style(color="blue"),
    ("Name", "Builtin"): Style(bold=True),
    ("Name", "Tag"): Style(color="blue"),
    ("Name", "Variable"): Style(color="blue"),
    ("Operator",): Style(bold=True),
}
_THEME = ANSISyntaxTheme(STYLES)
_SIGNS = {"+": "green", "-": "red", "@": "blue"}
_LEXERS = {"shell": "bash", "json": "json"}


def render_text(visible: Visible, style: str = "") -> Text:
    """Return text with its escapes highlighted."""
    text = Text(style=style)
    for part, escape in visible.segments:
        text.append(part, style=ESCAPE if escape else None)
    return text


def render_diff(changes: Iterable[Change]) -> Text:
    """Return a diff with coloured signs."""
    rows = []
    for change in changes:
        row = Text(f"{change.sign} ", style=_SIGNS.get(change.sign, ""))
        rows.append(row.append_text(render_text(change.text)))
    return Text("\n").join(rows)


def render_code(block: Block) -> Text:
    """Return a block's text in the colours of its language."""
    if block.format == "diff":
        rows = [Text(line, style=_SIGNS.get(line[:1], "")) for line in block.text.text.split("\n")]
        return Text("\n").join(rows)
    lexer = _LEXERS.get(block.format)
    if lexer is None:
        return render_text(block.text)
    coloured = Syntax("", lexer, theme=_THEME, word_wrap=True).highlight(block.text.text)
    coloured.rstrip()
    at = 0
    for part, escape in block.text.segments:
        if escape:
            coloured.stylize(ESCAPE, at, at + len(part))
        at += len(part)
    return coloured
