"""Cards as coloured text. Markup in the agents' text is never interpreted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from adapters.terminal.code_text import render_code, render_diff, render_signed
from adapters.terminal.code_text import render_text as render_text  # noqa: PLC0414 - exported, too
from adapters.terminal.layout import FactRows, FoldedRows, Hanging, Heading, SignedRows, set_in
from gateway.models import RiskLevel
from gateway.ports import (
    ANOTHER_PLAN,
    NO_LINK,
    Block,
    Card,
    Field,
    Tone,
    Visible,
    names_inbox,
    say_names,
)

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
_FOUND_BEGIN, _FOUND_END = 90, 46  # characters of one; its end says what it is about
_PLACE = ("Agent", "Host", "Folder")

HELP = f"""\
y  approve, or answer a question
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
?  this help
Esc  back, and nothing is decided

In a form: Tab goes to the next field, Space chooses, ^s sends.

High risk needs a confirmation. A shortened request is approved from its full text only."""


def render_card(card: Card, *, now_ms: int) -> RenderableType:
    """Return a card as a panel."""
    return Panel(
        Group(
            *_render_outcome(card),
            Hanging(render_head(card)),
            *_render_found(card),  # a screen ends below
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


def render_head(card: Card) -> Text:
    """Return what happens, in one sentence, with its names coloured and in quotes."""
    head = Text(style="bold")
    for part in card.head:
        if part.named:
            head.append('"').append_text(render_text(part.text, _NAME)).append('"')
        else:
            head.append(part.text.text)
    return head


def render_about(card: Card) -> RenderableType:
    """Return what a prompt is about: the head, the risk and what was found, exactly what runs as
    far as the card has it, for whom and where."""
    return Group(
        Hanging(render_head(card)),
        *_render_risk(card),
        *render_findings(card),
        *_render_notices(card),
        *_render_calls(card),
        Rule(style="dim"),
        _facts(card, _PLACE),
    )


def render_edited(now: Card, changed: SignedRows, before: Card) -> RenderableType:
    """Return what an edit is about: the head of what will run, what was changed, and all of it; and
    what was found in it `before`."""
    found = list(render_findings(before))
    return Group(
        Hanging(render_head(now)),
        *_render_risk(before),
        *((Text("Found before these changes:", "bold"), *found) if found else ()),
        Heading(Text("what you change", style="bold")),
        set_in(changed),
        *_render_blocks(now),
        Rule(style="dim"),
        _facts(now, _PLACE),
    )


def render_remembered(card: Card) -> RenderableType:
    """Return what is approved before it is remembered: the head, for whom and where."""
    return Group(Hanging(render_head(card)), _facts(card, _PLACE))


def render_full(whole: Card, undeclared: Visible | None) -> RenderableType:
    """Return for whom and where all of it would run, all of it below the warnings, and in the end
    each finding that was cut."""
    told = tuple(render_findings(whole))
    cut = [one for one in dict.fromkeys(whole.findings) if _shorten(one) is not None]
    if cut or len(set(whole.findings)) > _MOST_FOUND:
        cut = list(dict.fromkeys(whole.findings))
    found: list[RenderableType] = [Hanging(Text("• ").append_text(render_text(one))) for one in cut]
    return Group(
        _facts(whole, _PLACE),
        *(Hanging(render_text(reason)) for reason in whole.reasons),
        *told,
        *_render_notices(whole),
        *([render_text(undeclared)] if undeclared else []),
        *render_runs(whole.blocks),
        *([Text("\n── ⟨what was found, whole⟩ ──")] if found else []),
        *found,
    )


def render_runs(blocks: Sequence[Block]) -> Iterator[RenderableType]:
    """Return all that would run, as the full view has it: plain, below headings whose brackets are
    escaped in every text; a diff's rows keep their signs."""
    for number, one in enumerate(blocks):
        gap = "\n" if number else ""
        yield Text(f"{gap}── ⟨{one.label}⟩ ──")
        diff = one.format == "diff"
        yield render_signed(one.text) if diff else FoldedRows(render_text(one.text))


def render_risk(card: Card) -> Text:
    """Return one line of how dangerous it is, "" where nothing says so."""
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
    """Return the guardrail findings, each once and in short, and how many more there are."""
    sign, style = ("🔴 ", _ALARM) if card.alarms else ("⚠ ", _WARNING)
    found = Counter(card.findings)
    for one, times in list(found.items())[:_MOST_FOUND]:
        text = Text(sign, style=style).append_text(_shorten(one, style) or render_text(one, style))
        yield Hanging(text.append(f" ({times} times)" if times > 1 else ""))
    if (more := len(found) - _MOST_FOUND) > 0:
        yield Hanging(Text(f"{sign}… {more} more found, whole in the full text", style=style))


def say_secret(card: Card) -> str:
    """Say who gets a secret that is typed here."""
    agent = next((one.text.text for one in card.facts if one.label == "Agent"), "")
    who = f"agent {agent}" if agent else "the agent"
    return (
        "A secret: it is not shown while you type. It goes through the gateway to "
        f"{who} alone, and stands in no card, log or audit."
    )


def _say_state(card: Card) -> Text | None:
    """Return how it stands, unless the first row says it."""
    ended = card.ending is not None
    return None if ended else Text(f" {card.icon} {card.word} ", style="bold default")


def _say_time(card: Card, now_ms: int) -> Text | None:
    """Return the time left; nobody can use that of what nobody waits for, or may approve."""
    if card.final or card.idle:
        return None
    return Text(f" {render_time_left(card.deadline, now_ms)} ", style="default")


def _render_outcome(card: Card) -> Iterator[RenderableType]:
    if (ending := card.ending) is not None:
        named = tuple((say_names(text, card.people), escape) for text, escape in ending.segments)
        said = Text(f"{card.icon} ", "bold default")  # in no colour of the edge
        yield Hanging(said.append_text(render_text(replace(ending, segments=named))))
    if card.result is not None:
        yield Hanging(render_text(card.result))
    if card.note is not None:
        yield Hanging(Text("Note for the record: ").append_text(render_text(card.note)))


def _render_found(card: Card) -> Iterator[RenderableType]:
    """Yield what was found, in its colour, and what keeps it from being approved here."""
    yield from _render_risk(card)
    yield from render_findings(card)
    if not card.complete:
        rest = "" if card.final else "; it can be approved only there"
        yield Hanging(Text(f"✂ {card.size}: press f to read all of it{rest}", "bold"))
    yield from _render_notices(card)


def _render_risk(card: Card) -> Iterator[RenderableType]:
    if card.reasons or card.risk is RiskLevel.HIGH:
        yield Text(f"{card.risk.value} risk", style=_RISK[card.risk])
    yield from (Hanging(render_text(reason)) for reason in card.reasons)


def _render_notices(card: Card) -> Iterator[RenderableType]:
    for notice in card.notices:
        yield Hanging(Text(f"⚠ {notice}", style=_WARNING))
    if names_inbox(card):
        way = f"In the inbox: {card.inbox}" if card.inbox else NO_LINK
        yield Hanging(Text(f"⚠ {way}", style=_WARNING))


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
        yield Hanging(render_text(card.asks_because))
    yield _facts(card)
    if card.progress:
        yield Hanging(Text(f"👥 {card.progress}", style="bold"))
    if card.claimed:
        yield Hanging(Text(f"👀 {card.claimed}", style="bold"))


def _shorten(found: Visible, style: str = "") -> Text | None:
    """Return the beginning and the end of a finding, None where it is short: between them stands
    what the agent named."""
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
        told = card.changed_aside  # else the first line says who
        yield Hanging(
            Text("What was changed", "bold") if told is None else render_text(told, "bold")
        )
        yield set_in(render_diff(card.changed))


def _render_field(card: Card, field: Field, *, said: bool) -> Iterator[RenderableType]:
    """Yield what is asked, unless the head said it, and where a secret is answered."""
    if not said:
        yield set_in(Text('• "').append_text(render_text(field.text, _NAME)).append('"'))
    if field.secret and not card.final:
        yield Hanging(Text(f"🔒 {say_secret(card)}", style="bold"))


def _render_blocks(card: Card) -> Iterator[RenderableType]:
    for block in card.blocks:
        yield Heading(Text(block.label, style="bold"))
        yield set_in(render_code(block))
        if left := _say_left(block):
            yield Text(f"… {left}" + ("" if card.final else ": press f"), style="bold")


def _say_left(block: Block) -> str:
    """Say how much of a block was cut off, "" where it is whole."""
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
