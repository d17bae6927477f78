"""What would run, in colours that can be read on a dark and on a light terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

from adapters.terminal.layout import FoldedRows, SignedRows
from gateway.ports import Block, Change, Visible

ESCAPE = "bold black on bright_yellow"  # escapes stand out from the agent's own characters
# The plain eight colours, and not dim.
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


def render_diff(changes: Iterable[Change]) -> SignedRows:
    """Return a diff with coloured signs."""
    return SignedRows(
        [
            (Text(f"{one.sign} ", style=_SIGNS.get(one.sign, "")), render_text(one.text))
            for one in changes
        ]
    )


def render_signed(text: Visible) -> SignedRows:
    """Return a diff that the agent wrote: each of its lines with what it begins with."""
    rows = []
    for line in text.lines():
        row = render_text(Visible(line))
        style = _SIGNS.get(row.plain[:1])
        signed = style is not None or row.plain.startswith(" ")
        row.stylize_before(style or "")
        rows.append((row[:1], row[1:]) if signed else (Text(), row))
    return SignedRows(rows)


def render_code(block: Block) -> RenderableType:
    """Return a block's text in the colours of its language."""
    if block.format == "diff":
        return render_signed(block.text)
    lexer = _LEXERS.get(block.format)
    if lexer is None:
        return FoldedRows(render_text(block.text))
    coloured = Syntax("", lexer, theme=_THEME, word_wrap=True).highlight(block.text.text)
    coloured.rstrip()
    at = 0
    for part, escape in block.text.segments:
        if escape:
            coloured.stylize(ESCAPE, at, at + len(part))
        at += len(part)
    return FoldedRows(coloured)
