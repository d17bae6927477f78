"""Cards as coloured text. Markup in the agents' text is never interpreted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from gateway.models import RiskLevel, Status
from gateway.ports import ANOTHER_PLAN, Block, Card, Change, Visible, say_names

ESCAPE = "bold black on yellow"  # escapes stand out from the agent's own characters
_RISK = {RiskLevel.LOW: "green", RiskLevel.MEDIUM: "yellow", RiskLevel.HIGH: "bold red"}
_EDGE = {
    Status.PENDING: "blue",
    Status.APPROVED: "green",
    Status.DENIED: "red",
    Status.EXPIRED: "bright_black",
    Status.CANCELLED: "bright_black",
}
_SIGNS = {"+": "green", "-": "red", "@": "cyan"}
_LEXERS = {"shell": "bash", "json": "json"}
_WARNING = "bold yellow"
_ALARM = "bold red"
_NAME = "underline"
_MINUTE, _HOUR = 60, 3600

HELP = f"""\
y  approve
n  deny, with a reason if you like
p  {ANOTHER_PLAN.lower()}
f  read all of it
e  edit the arguments in $EDITOR
r  approve and remember
g  list what is remembered, and revoke it
a  approve several
c  copy what would run
k  say that you are looking at it
←  the one before, → the next
↑  ↓  scroll
q  leave; requests stay where they are

High risk needs a confirmation. A shortened request is approved from its full text only."""


def render_card(card: Card, *, now_ms: int) -> RenderableType:
    """Return a card as a panel."""
    title = Text(f" {card.icon} {card.word} ", style="bold")
    return Panel(
        Group(
            *_render_outcome(card),
            _indent(render_head(card)),
            *_render_found(card),  # a screen ends below
            *_render_calls(card),
            *_render_facts(card),
            *_render_unverified(card),
        ),
        title=title,
        title_align="left",
        subtitle=Text(f" {_render_footer(card, now_ms)} "),
        subtitle_align="left",
        border_style=_EDGE[card.status],
        padding=(0, 1),
    )


def render_text(visible: Visible, style: str = "") -> Text:
    """Return text with its escapes highlighted."""
    text = Text(style=style)
    for part, escape in visible.segments:
        text.append(part, style=ESCAPE if escape else None)
    return text


def render_head(card: Card) -> Text:
    """Return what happens, in one sentence, with its names underlined in quotes."""
    head = Text(style="bold")
    for part in card.head:
        if part.named:
            head.append('"').append_text(render_text(part.text, _NAME)).append('"')
        else:
            head.append(part.text.text)
    return head


def render_about(card: Card) -> RenderableType:
    """Return what a prompt is about: the head, and exactly what runs as far as the card has it."""
    cut = () if card.complete else (Text(f"✂ {card.size}", "bold"),)
    return Group(_indent(render_head(card)), *_render_calls(card), *cut)


def render_diff(changes: Iterable[Change]) -> Text:
    """Return a diff with coloured signs."""
    rows = []
    for change in changes:
        row = Text(f"{change.sign} ", style=_SIGNS.get(change.sign, ""))
        rows.append(row.append_text(render_text(change.text)))
    return Text("\n").join(rows)


def render_time_left(deadline: int, now_ms: int) -> str:
    """Return the time left until the deadline."""
    left = max(0, deadline - now_ms) // 1000
    if left >= _HOUR:
        return f"{left // _HOUR} h {left % _HOUR // _MINUTE:02d} min left"
    return f"{left // _MINUTE}:{left % _MINUTE:02d} left"


def _render_footer(card: Card, now_ms: int) -> str:
    left = "" if card.final else f" · {render_time_left(card.deadline, now_ms)}"
    return f"{card.short_id} · {card.digest[:12]}{left}"


def _render_outcome(card: Card) -> Iterator[RenderableType]:
    if (ending := card.ending or card.outcome) is not None:
        named = tuple((say_names(text, card.people), escape) for text, escape in ending.segments)
        yield _indent(render_text(replace(ending, segments=named), "bold"))
    if card.result is not None:
        yield _indent(render_text(card.result))


def _render_found(card: Card) -> Iterator[RenderableType]:
    """Yield what was found, in its colour, and what keeps it from being approved here."""
    if card.reasons or card.risk is RiskLevel.HIGH:
        yield Text(f"{card.risk.value} risk", style=_RISK[card.risk])
    yield from (_indent(render_text(reason)) for reason in card.reasons)
    yield from map(_indent, render_findings(card))
    if not card.complete:
        rest = "" if card.final else "; only there it can be approved"
        yield Text(f"✂ {card.size}: press f to read all of it{rest}", "bold")
    for notice in card.notices:
        yield Text(f"⚠ {notice}", style=_WARNING)


def _render_facts(card: Card) -> Iterator[RenderableType]:
    if card.asks_because is not None:
        yield _indent(render_text(card.asks_because, "dim"))
    facts = Text()
    for fact in card.facts:
        facts.append(f"{fact.label} ", style="dim").append_text(render_text(fact.text)).append(
            "   "
        )
    yield _indent(facts)
    if card.progress:
        yield Text(f"👥 {card.progress}", style="bold")
    if card.claimed:
        yield Text(f"👀 {card.claimed}", style="cyan")


def render_findings(card: Card) -> Iterator[Text]:
    """Return the guardrail findings, one line each."""
    sign, style = ("🔴 ", _ALARM) if card.alarms else ("⚠ ", _WARNING)
    for one in card.findings:
        yield Text(sign, style=style).append_text(render_text(one, style))


def _render_calls(card: Card) -> Iterator[RenderableType]:
    for field in card.fields:
        yield _indent(Text("• ").append_text(render_text(field.text)))
    for block in card.blocks:
        yield Rule(Text(block.label, style="bold"), align="left", style="dim")
        yield _indent(_render_code(block))
    if card.changed_by is not None:
        yield Rule(style="dim")
        told = card.changed_aside  # else the first line says who
        yield Text("What was changed", "bold") if told is None else render_text(told, "bold")
        yield _indent(render_diff(card.changed))


def _render_unverified(card: Card) -> Iterator[RenderableType]:
    if card.says is not None:
        yield Rule(
            Text("the agent's own words, unverified", style="dim"), align="left", style="dim"
        )
        yield _indent(render_text(card.says, "italic"))
    if card.preview is not None:
        yield Rule(Text("the agent's preview, unverified", style="dim"), align="left", style="dim")
        yield _indent(_render_code(card.preview))


def _indent(text: Text) -> Padding:
    """Return text of the agent behind a margin: no line of it begins where ours do."""
    return Padding(text, (0, 0, 0, 2))


def _render_code(block: Block) -> Text:
    if block.format == "diff":
        rows = [Text(line, style=_SIGNS.get(line[:1], "")) for line in block.text.text.split("\n")]
        return Text("\n").join(rows)
    lexer = _LEXERS.get(block.format)
    if lexer is None:
        return render_text(block.text)
    coloured = Syntax("", lexer, theme="ansi_dark", word_wrap=True).highlight(block.text.text)
    coloured.rstrip()
    # Comments must be as readable as the rest.
    coloured.spans = [span for span in coloured.spans if not _is_dim(span.style)]
    at = 0
    for part, escape in block.text.segments:
        if escape:
            coloured.stylize(ESCAPE, at, at + len(part))
        at += len(part)
    return coloured


def _is_dim(style: str | Style) -> bool:
    return bool(isinstance(style, Style) and style.dim)
