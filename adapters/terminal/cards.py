"""Render cards as coloured text that separates the gateway's words from the agent's; start with
`render_card`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from textual.app import App
from textual.reactive import Reactive

from gateway.cards.blocks import Block, Change
from gateway.cards.card import Card, Field, Tone, names_inbox
from gateway.cards.shared_texts import ANOTHER_PLAN, NO_LINK, say_names
from gateway.models import RiskLevel
from gateway.ports import Visible

# Margins separate the gateway's rows from the agent's. The gateway's rows begin at the edge or
# after two blanks; rows of the agent's text begin after four, also when folded.

_OURS, _AGENTS = 2, 4  # blanks
_GAP = 3  # blanks between two facts of one row
_SIGN = 2  # columns of a sign, and of the mark of a folded row
_LINE_END = 2  # the fewest columns of the line behind a title
_BEGINS = re.compile(r'(?P<blanks> *)(?:"(?:[^"\\]|\\.)*": )?"?')
GOES_ON = "\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}"


class HangingIndent:
    """A text that starts with words of the gateway. Its folded rows get the margin of agent
    text."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows."""
        rows = self._text.wrap(console, max(1, options.max_width - _AGENTS))
        for number, row in enumerate(rows):
            yield Padding(row, (0, 0, 0, _AGENTS if number else _OURS))


class Heading:
    """A title with a line after it; a long title takes several rows."""

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
    """A text of several rows. A row that is too long continues below its value or first word, after
    a mark.

    Without the mark, the continuation would look like a separate row; in a shell script, like a
    second command.
    """

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
    """Return the start of the value in a row of JSON, or of the first word in another row.

    Return 0 if the start is beyond `most` columns.
    """
    found = _BEGINS.match(row)
    ends = (found.end(), found.end("blanks")) if found else ()
    return next((end for end in ends if cell_len(row[:end]) == end <= most), 0)


class FactRows:
    """Short texts with labels, as many in a row as fit. A text stays in one row with its label."""

    def __init__(self, facts: Sequence[Text]) -> None:
        self._facts = facts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows."""
        row = Text()
        for fact in self._facts:
            together = row.cell_len + _GAP + fact.cell_len + _AGENTS
            if row and together > options.max_width:
                yield HangingIndent(row)
                row = Text()
            if row:
                row.append(" " * _GAP)
            row.append_text(fact)
        if row:
            yield HangingIndent(row)


class SignedRows:
    """The rows of a diff, each with a sign and a text. Folded rows repeat the sign and add a mark,
    because a row without a sign would look unchanged."""

    def __init__(self, rows: Sequence[tuple[Text, Text]]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the rows."""
        for sign, text in self._rows:
            folded = Text(f"{sign.plain[:1] or ' '}{GOES_ON}", sign.style)
            for number, row in enumerate(text.wrap(console, max(1, options.max_width - _SIGN))):
                yield (folded if number else sign).copy().append_text(row)


def set_in(text: RenderableType) -> Padding:
    """Return a text of the agent with its margin."""
    return Padding(text, (0, 0, 0, _AGENTS))


# The call, in colours that are readable on dark and on light terminals.

ESCAPE = "bold black on bright_yellow"  # escapes stand out from the agent's own characters
# Only the eight basic colours, and no dim text.
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
    """Return a text in which escapes are highlighted."""
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
    """Return a diff that the agent wrote, with the first character of each line as its sign."""
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


_RISK = {RiskLevel.LOW: "green", RiskLevel.MEDIUM: "yellow", RiskLevel.HIGH: "bold red"}
_EDGES = {
    Tone.GOOD: "green",
    Tone.REFUSED: "red",
    Tone.TROUBLED: "yellow",
    Tone.QUIET: "bright_black",
}
_WAITING = "blue"
_WARNING = "bold yellow"
_ALARM = "bold red"
_NAME = "cyan"
_MINUTE, _HOUR = 60, 3600
_MOST_FOUND = 3  # findings on a card
_FOUND_BEGIN, _FOUND_END = 90, 46  # characters of a finding; its end says what it is about
_PLACE = ("Agent", "Host", "Folder")

HELP = f"""\
y  approve, or answer a question
n  deny, with an optional reason
p  {ANOTHER_PLAN.lower()}
f  read the full text
e  edit the arguments in $EDITOR
r  approve and remember
g  list grants and revoke them
a  approve several
c  copy the call
k  tell others that you are looking
←  previous request, → next request
↑  ↓  scroll
q  quit; requests stay pending
?  this help
Esc  go back without deciding

In a form: Tab goes to the next field, Space chooses, ^s sends.

High risk needs a confirmation. Press f to approve a shortened request."""


def render_card(card: Card, *, now_ms: int) -> RenderableType:
    """Return a card as a panel."""
    return Panel(
        Group(
            *_render_outcome(card),
            HangingIndent(render_summary(card)),
            *_render_found(card),  # before the call, which may be longer than the screen
            *_render_calls(card),
            *_render_facts(card),
            *_render_unverified(card),
        ),
        title=_say_state(card),
        title_align="left",
        subtitle=_say_time(card, now_ms),
        subtitle_align="left",
        border_style=_EDGES[card.state.tone] if card.final else _WAITING,
        padding=(0, 1),
    )


def render_summary(card: Card) -> Text:
    """Return the summary, with names coloured and in quotes."""
    summary = Text(style="bold")
    for part in card.summary:
        if part.named:
            summary.append('"').append_text(render_text(part.text, _NAME)).append('"')
        else:
            summary.append(part.text.text)
    return summary


def render_about(card: Card) -> RenderableType:
    """Return the text above a prompt: summary, risk, findings, the call, and where it runs."""
    return Group(
        HangingIndent(render_summary(card)),
        *_render_risk(card),
        *render_findings(card),
        *_render_notices(card),
        *_render_calls(card),
        Rule(style="dim"),
        _facts(card, _PLACE),
    )


def render_edited(now: Card, changed: SignedRows, before: Card) -> RenderableType:
    """Return the text above the prompt of an edit: the new summary and call, and the changes.

    The text also shows the risk and findings of the call `before` the edit.
    """
    found = list(render_findings(before))
    return Group(
        HangingIndent(render_summary(now)),
        *_render_risk(before),
        *((Text("Findings from before these changes:", "bold"), *found) if found else ()),
        Heading(Text("your changes", style="bold")),
        set_in(changed),
        *_render_blocks(now),
        Rule(style="dim"),
        _facts(now, _PLACE),
    )


def render_remembered(card: Card) -> RenderableType:
    """Return the text above the grant prompt: the summary, the agent and the place."""
    return Group(HangingIndent(render_summary(card)), _facts(card, _PLACE))


def render_full(whole: Card, undeclared: Visible | None) -> RenderableType:
    """Return the full text: facts, warnings, the complete call, and all findings that were cut."""
    told = tuple(render_findings(whole))
    cut = [one for one in dict.fromkeys(whole.findings) if _shorten(one) is not None]
    if cut or len(set(whole.findings)) > _MOST_FOUND:
        cut = list(dict.fromkeys(whole.findings))
    found: list[RenderableType] = [
        HangingIndent(Text("• ").append_text(render_text(one))) for one in cut
    ]
    return Group(
        _facts(whole, _PLACE),
        *(HangingIndent(render_text(reason)) for reason in whole.reasons),
        *told,
        *_render_notices(whole),
        *([render_text(undeclared)] if undeclared else []),
        *render_runs(whole.blocks),
        *([Text("\n── ⟨all findings in full⟩ ──")] if found else []),
        *found,
    )


def render_runs(blocks: Sequence[Block]) -> Iterator[RenderableType]:
    """Yield the complete call as plain text; a diff's rows keep their signs.

    An agent cannot fake the headings, because the brackets that mark a heading are escaped in all
    text.
    """
    for number, one in enumerate(blocks):
        gap = "\n" if number else ""
        yield Text(f"{gap}── ⟨{one.label}⟩ ──")
        diff = one.format == "diff"
        yield render_signed(one.text) if diff else FoldedRows(render_text(one.text))


def render_risk(card: Card) -> Text:
    """Return one line with the risk and the number of findings; empty if neither needs
    attention."""
    if not card.reasons and card.risk is not RiskLevel.HIGH and not card.findings:
        return Text()
    found = f" · findings: {len(card.findings)}" if card.findings else ""
    return Text(f"{card.risk.value} risk{found}", style=_RISK[card.risk])


def render_time_left(deadline: int, now_ms: int) -> str:
    """Return the time left until the deadline."""
    left = max(0, deadline - now_ms) // 1000
    if left >= _HOUR:
        return f"{left // _HOUR} h {left % _HOUR // _MINUTE:02d} min left"
    return f"{left // _MINUTE}:{left % _MINUTE:02d} left"


def render_findings(card: Card) -> Iterator[RenderableType]:
    """Yield the first guardrail findings, shortened and without duplicates, and the number of the
    rest."""
    sign, style = ("🔴 ", _ALARM) if card.alarms else ("⚠ ", _WARNING)
    found = Counter(card.findings)
    for one, times in list(found.items())[:_MOST_FOUND]:
        text = Text(sign, style=style).append_text(_shorten(one, style) or render_text(one, style))
        yield HangingIndent(text.append(f" ({times} times)" if times > 1 else ""))
    if (more := len(found) - _MOST_FOUND) > 0:
        yield HangingIndent(Text(f"{sign}… {more} more in the full text", style=style))


def say_secret(card: Card) -> str:
    """Return a sentence that says who receives a secret that the person types."""
    agent = next((one.text.text for one in card.facts if one.label == "Agent"), "")
    who = f"agent {agent}" if agent else "the agent"
    return (
        "A secret: it is not shown while you type. The gateway passes it only to "
        f"{who}. No card, log or audit entry contains it."
    )


def _say_state(card: Card) -> Text | None:
    """Return the request's state, unless the first row already states the outcome."""
    ended = card.ending is not None
    return None if ended else Text(f" {card.icon} {card.word} ", style="bold default")


def _say_time(card: Card, now_ms: int) -> Text | None:
    """Return the time left, or None if the request has ended or needs no decision now."""
    if card.final or card.idle:
        return None
    return Text(f" {render_time_left(card.deadline, now_ms)} ", style="default")


def _render_outcome(card: Card) -> Iterator[RenderableType]:
    if (ending := card.ending) is not None:
        named = tuple((say_names(text, card.people), escape) for text, escape in ending.segments)
        said = Text(f"{card.icon} ", "bold default")  # without the colour of the edge
        yield HangingIndent(said.append_text(render_text(replace(ending, segments=named))))
    if card.result is not None:
        yield HangingIndent(render_text(card.result))
    if card.note is not None:
        yield HangingIndent(Text("Note for the record: ").append_text(render_text(card.note)))


def _render_found(card: Card) -> Iterator[RenderableType]:
    """Yield the risk, the findings, and the reasons why the request cannot be approved here."""
    yield from _render_risk(card)
    yield from render_findings(card)
    if not card.complete:
        rest = "" if card.final else "; you can approve this request only there"
        yield HangingIndent(Text(f"✂ {card.size}: press f to read the full text{rest}", "bold"))
    yield from _render_notices(card)


def _render_risk(card: Card) -> Iterator[RenderableType]:
    if card.reasons or card.risk is RiskLevel.HIGH:
        yield Text(f"{card.risk.value} risk", style=_RISK[card.risk])
    yield from (HangingIndent(render_text(reason)) for reason in card.reasons)


def _render_notices(card: Card) -> Iterator[RenderableType]:
    for notice in card.notices:
        yield HangingIndent(Text(f"⚠ {notice}", style=_WARNING))
    if names_inbox(card):
        way = f"In the inbox: {card.inbox}" if card.inbox else NO_LINK
        yield HangingIndent(Text(f"⚠ {way}", style=_WARNING))


def _facts(card: Card, labels: Sequence[str] = ()) -> FactRows:
    found = [(fact.label, render_text(fact.text)) for fact in card.facts]
    found += [("Request", Text(card.short_id)), ("Digest", Text(card.digest[:12]))]
    return FactRows(
        [
            Text().append(f"{label} ", style="bold").append_text(text)
            for label, text in found
            if not labels or label in labels
        ]
    )


def _render_facts(card: Card) -> Iterator[RenderableType]:
    yield Rule(style="dim")
    if card.asks_because is not None:
        yield HangingIndent(render_text(card.asks_because))
    yield _facts(card)
    if card.progress:
        yield HangingIndent(Text(f"👥 {card.progress}", style="bold"))
    if card.claimed:
        yield HangingIndent(Text(f"👀 {card.claimed}", style="bold"))


def _shorten(found: Visible, style: str = "") -> Text | None:
    """Return the beginning and the end of a long finding; None if it is short. The middle contains
    names that the agent chose."""
    if len(found.text) <= _FOUND_BEGIN + _FOUND_END:
        return None
    return render_text(found.shortened(_FOUND_BEGIN, _FOUND_END), style)


def _render_calls(card: Card) -> Iterator[RenderableType]:
    unsaid = card.unsaid
    for field in card.fields:
        yield from _render_field(card, field, said=field not in unsaid)
    yield from _render_blocks(card)
    if card.changed_by is not None:
        yield Rule(style="dim")
        told = card.changed_aside  # if None, the first line names the person
        yield HangingIndent(Text("Changes", "bold") if told is None else render_text(told, "bold"))
        yield set_in(render_diff(card.changed))


def _render_field(card: Card, field: Field, *, said: bool) -> Iterator[RenderableType]:
    """Yield a field's question, unless the summary `said` it, and a note for a secret."""
    if not said:
        yield set_in(Text('• "').append_text(render_text(field.text, _NAME)).append('"'))
    if field.secret and not card.final:
        yield HangingIndent(Text(f"🔒 {say_secret(card)}", style="bold"))


def _render_blocks(card: Card) -> Iterator[RenderableType]:
    for block in card.blocks:
        yield Heading(Text(block.label, style="bold"))
        yield set_in(render_code(block))
        if left := _say_left(block):
            yield Text(f"… {left}" + ("" if card.final else ": press f"), style="bold")


def _say_left(block: Block) -> str:
    """Return a note on how much of a block was cut off, or "" if the block is complete."""
    chars = block.chars - len(block.text.text)
    lines = block.lines - (len(block.text.lines()) if block.text.text else 0)
    if chars <= 0:
        return ""
    return _count(lines, "more line") if lines > 0 else _count(chars, "more character")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _render_unverified(card: Card) -> Iterator[RenderableType]:
    if card.says is not None:
        yield Heading(Text(f"the agent's own words, {card.unverified}"))
        yield set_in(render_text(card.says, "italic"))
    if card.preview is not None:
        yield Heading(Text(f"the agent's preview, {card.unverified}"))
        yield set_in(render_code(card.preview))
        if left := _say_left(card.preview):
            yield Text(f"… {left}", style="bold")


# The colours of the dark and the light theme; each is readable on every background in use.
#
# The library draws its background itself, so a light terminal shows the dark theme correctly, too.
# Its setting `TEXTUAL_THEME` selects another theme.

# Black, red, green, yellow, blue, magenta, cyan, white; then the bright ones.
DARK = TerminalTheme(
    (18, 18, 18),
    (217, 217, 217),
    [
        (26, 26, 26), (255, 107, 107), (152, 224, 36), (253, 151, 31),
        (122, 162, 255), (214, 145, 255), (88, 209, 235), (196, 197, 181),
    ],
    [
        (138, 138, 138), (255, 107, 107), (152, 224, 36), (253, 190, 31),
        (122, 162, 255), (214, 145, 255), (88, 209, 235), (246, 246, 239),
    ],
)  # fmt: skip
LIGHT = TerminalTheme(
    (224, 224, 224),
    (20, 20, 20),
    [
        (0, 0, 0), (160, 16, 16), (0, 92, 0), (107, 74, 0),
        (11, 63, 168), (122, 31, 148), (0, 88, 100), (64, 64, 64),
    ],
    [
        (88, 88, 88), (160, 16, 16), (0, 92, 0), (255, 208, 64),
        (11, 63, 168), (122, 31, 148), (0, 88, 100), (247, 247, 247),
    ],
)  # fmt: skip


class ReadableApp(App[None]):
    """An application whose dark and light themes have these colours."""

    ansi_theme_dark = Reactive(DARK, init=False)
    ansi_theme_light = Reactive(LIGHT, init=False)
