"""Build cards as Discord messages (Components V2) with escaped text; start with `build_card_view`.

Pure: no I/O. Every view is new and stopped at once. The click handler reads the raw interaction, so
discord.py needs no record of sent views.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import discord
from discord import ui

from adapters.discord.custom_ids import DiscordButton
from gateway.cards.blocks import LABEL_CHARS
from gateway.cards.card import (
    TO_ORIGIN,
    Card,
    Control,
    FoundAbove,
    Style,
    Tone,
    choose_above,
    list_warnings,
    say_no_link,
    tell_above,
)
from gateway.cards.shared_texts import BECAUSE as DENY_BECAUSE
from gateway.cards.shared_texts import DENIALS, NO_LINK, count_units, cut_units, say_names
from gateway.models import Action, RiskLevel
from gateway.ports import Visible

# Escaping of text for Discord, and cutting to its limits.
#
# The core has already replaced invisible characters; this escapes markup, mentions, links and
# fences. Lengths are UTF-16 units: Discord never counts more.

_LANGUAGES = {"shell": "bash", "diff": "diff", "json": "json"}
# Discord hides a backslash before any punctuation, so escaping too much does no harm.
_PUNCTUATION = frozenset("\\*_~|`>#-[]()<@:+=.!{}^&")
_MARKUP = re.compile(r"[\\*_~|`>#\-\[\]()<@:+=.!{}^&]")
_FENCE = re.compile(r"`{3,}")
_PERSON = re.compile(r"discord\\:(\d{15,20})(?!\d)")
_ELLIPSIS = "…"


def escape_line(text: str, budget: int) -> str:
    """Escape text and put it on one line, cut to `budget` units."""
    return _escape(text.replace("\n", " ⏎ "), budget)


def escape_with_mentions(text: str, budget: int, people: Collection[str]) -> str:
    """Escape a sentence of the gateway and turn the users in `people` into mentions. All other
    names stay plain text."""
    users = {f"discord\\:{one.removeprefix('discord:')}" for one in people}

    def mention(found: re.Match[str]) -> str:
        return f"<@{found[1]}>" if found[0] in users else found[0]

    return _PERSON.sub(mention, escape_line(text, budget))


def mention_others(users: Sequence[str], said: str) -> str:
    """Return mentions of the users that the text `said` does not contain yet."""
    told = (f"<@{one}>" for one in users if one.isdecimal())
    return " ".join(one for one in told if one not in said)


def inline_code(text: str) -> str:
    """Return a name in code style, on one line, with each backtick spelled out."""
    line = text.replace("\n", " ⏎ ").replace("`", "⟨U+0060⟩")
    return f"`{line or ' '}`"


def quote(text: str, budget: int) -> str:
    """Return escaped text as a block quote, cut to `budget` units."""
    lines = text.split("\n")
    kept: list[str] = []
    for line in lines:
        left = budget - sum(count_units(one) + 1 for one in kept) - 2
        if left < 2:  # noqa: PLR2004 (room for a letter and the ellipsis)
            kept[-1] = f"> {_ELLIPSIS}"
            break
        kept.append(f"> {_escape(line, left)}")
    return "\n".join(kept)


def fence(text: str, kind: str, budget: int) -> tuple[str, bool]:
    """Return text in a code block, within `budget` units, and whether all of it fits.

    A fence in the text would end the block, so ⟨3 x U+0060⟩ replaces it.
    """
    opening = f"```{_LANGUAGES.get(kind, '')}\n"
    closing = "\n```"
    safe = _FENCE.sub(_spell_fence, text)
    room = budget - count_units(opening) - count_units(closing)
    if count_units(safe) <= room:
        return f"{opening}{safe}{closing}", True
    cut = cut_units(safe, max(0, room - 2))
    # Never cut within an escape: half of one looks like plain text.
    if cut.rfind("⟨") > cut.rfind("⟩"):
        cut = cut[: cut.rfind("⟨")]
    return f"{opening}{cut}\n{_ELLIPSIS}{closing}", False


def keep_whole_lines(lines: Sequence[str], budget: int) -> list[str]:
    """Return the first lines, as many as fit `budget` in full."""
    kept: list[str] = []
    for line in lines:
        budget -= count_units(line) + 1
        if budget < 0:
            break
        kept.append(line)
    return kept


def _spell_fence(found: re.Match[str]) -> str:
    return f"⟨{len(found.group())} × U+0060⟩"  # noqa: RUF001 (as the core writes runs)


def _escape(text: str, budget: int) -> str:
    if 2 * len(text) <= budget and text.isascii():
        return _MARKUP.sub(r"\\\g<0>", text)
    kept: list[str] = []
    left = budget
    for at, char in enumerate(text):
        piece = f"\\{char}" if char in _PUNCTUATION else char
        cost = count_units(piece)
        if cost > left - (at + 1 < len(text)):
            kept.append(_ELLIPSIS)
            break
        kept.append(piece)
        left -= cost
    return "".join(kept)


NOBODY = discord.AllowedMentions.none()
"""Lets an edit notify nobody. discord.py ignores the client's default in edits."""
MOST_TEXT = 4000
CARD_LINES = 25
CARD_CHARS = 1500
FILE_NAME = "request.txt"
READ, CLAIM, UNCLAIM, REMEMBER = "read", "claim", "unclaim", "remember"
MORE, BECAUSE, BATCH = "more", "because", "batch"
CONFIRMED, AS_JSON, NUMBER = "sure", "json", "number"
ROW = 5  # buttons in one row
_ON_CARD = (Action.APPROVE, Action.ANSWER, Action.DENY)
_HEAD = 400
_FACT, _FACTS = 160, 600
BECAUSE_UNITS = 300
CHANGED_BY_UNITS = 300
LEAST = 60  # characters; a part with less room is left out
_ABOUT = 300  # units for the findings in a modal
_LEAST_SHARE = 40  # of one of several findings or notices
_MORE_FOUND = 40  # for the line that counts the findings left out
SIGN_UNITS = 5  # a line's sign, blank and line end
_SPACE = 120  # for separators, and differences in Discord's counting

_COLOURS = {
    Tone.GOOD: 0x2EA043,
    Tone.REFUSED: 0xDA3633,
    Tone.TROUBLED: 0xF0A020,
    Tone.QUIET: 0x8B949E,
}
_FOUND, _FOUND_HIGH = 0xF0A020, 0xDA3633
LEADS: dict[Action, str] = {
    Action.ANSWER: "Answer in the inbox",
    Action.APPROVE: "Approve in the inbox",
}
_RISKS = {RiskLevel.LOW: "🟢 Low", RiskLevel.MEDIUM: "🟡 Medium", RiskLevel.HIGH: "🔴 High"}
STYLES = {
    Style.PRIMARY: discord.ButtonStyle.success,
    Style.PLAIN: discord.ButtonStyle.secondary,
    Style.DANGER: discord.ButtonStyle.danger,
}


@dataclass(frozen=True, slots=True)
class MessageContent:
    """A message: its view and the bytes of an optional file."""

    view: ui.LayoutView
    attached: bytes | None = None

    @property
    def files(self) -> list[discord.File]:
        """The file, new on each access: sending consumes it."""
        if self.attached is None:
            return []
        return [discord.File(io.BytesIO(self.attached), filename=FILE_NAME)]


class CardBudget:
    """Counts the room for text in a message. Parts take room by importance, not by position."""

    def __init__(self) -> None:
        self.left = MOST_TEXT - _SPACE

    def take(self, text: str) -> str:
        """Subtract a text, and return it."""
        self.left -= count_units(text) + 2
        return text

    def room(self, most: int) -> int:
        """Return the remaining room, at most `most`."""
        return max(0, min(most, self.left))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """The parts of a card as text; `complete` says that they contain the complete call."""

    ended: str
    runs: tuple[str, ...]
    about: tuple[str, ...]
    foot: str
    complete: bool


def build_card_view(
    card: Card, copy: str, *, called: str = "", silent: bool = False
) -> MessageContent:
    """Build the message of a card, with the mentions `called` below it. With `silent`, it contains
    no text of the agent.

    If the call does not fit the card, only the full view offers approval.
    """
    if card.final and card.asks:
        return _build_ended(card, copy, called, silent=silent)
    drawn = _draw(card, called, silent=silent)
    ended, runs, about, foot = drawn.ended, drawn.runs, drawn.about, drawn.foot
    complete = drawn.complete
    rows = _build_final_rows(card) if card.final else _build_rows(card, copy, complete=complete)
    shown = ((ended,), runs, about, (foot,)) if card.final else (runs, about, (ended, foot))
    view = _build_layout(card, shown, rows)
    return MessageContent(view.add_item(ui.TextDisplay(f"-# {called}")) if called else view)


def _build_ended(card: Card, copy: str, called: str, *, silent: bool = False) -> MessageContent:
    """Build an ended card: its outcome and the summary. Details shows the rest."""
    read = DiscordButton(verb=READ, request_id=card.request_id, revision=card.revision, copy=copy)
    details: ui.Button[Any] = ui.Button(label="Details", custom_id=read.custom_id)
    parts = (tuple(render_ended(card, silent=silent)),)
    view = _build_layout(card, parts, arrange_in_rows([details, *_build_origin(card)]))
    return MessageContent(view.add_item(ui.TextDisplay(f"-# {called}")) if called else view)


def render_ended(card: Card, *, silent: bool = False, changes: bool = True) -> Iterator[str]:
    """Yield lines with the outcome, the summary, the editor (if `changes`), and the note."""
    budget = CardBudget()
    yield budget.take(_render_outcome(card, budget))
    if silent:
        return
    yield budget.take(render_summary(card).removeprefix("### "))
    if changes and card.changed_aside is not None:
        changed = escape_with_mentions(card.changed_aside.text, CHANGED_BY_UNITS, card.people)
        yield budget.take(f"-# {changed}")
    if card.note is not None:
        yield f"-# For the record: {escape_line(card.note.text, budget.room(300))}"


def _draw(card: Card, called: str = "", *, silent: bool = False) -> _Drawn:
    """Render the parts of a card, each cut to the room that is left."""
    budget = CardBudget()
    budget.take(called)
    summary = budget.take(render_summary(card, silent=silent))
    foot = budget.take(_render_footer(card, stated=silent))
    notices = budget.take("\n".join(f"⚠️ {notice}" for notice in list_warnings(card)))
    chosen = choose_above(card)
    above = budget.take(render_above(card, chosen, budget.room(500)))
    risk = budget.take(render_risk(card, chosen, budget.room(350)))
    found = budget.take(render_findings(card, budget.room(500), chosen))
    ended = budget.take(_render_outcome(card, budget))
    who, named = ("", False) if silent else render_facts(card, budget.room(_FACTS))
    budget.take(who)
    because = "" if silent else budget.take(render_because(card, budget.room(BECAUSE_UNITS)))
    blocks, whole = ("", False) if silent else render_blocks(card, budget.room(3000))
    budget.take(blocks)
    fields = "" if silent else budget.take(_render_fields(card, budget))
    says = "" if silent else budget.take(render_statement(card, budget))
    changed = "" if silent else budget.take(render_changes(card, budget))
    preview = "" if silent else budget.take(_render_preview(card, budget))
    complete = card.complete and named and whole
    size = budget.take(_render_size_notice(card, complete=complete, silent=silent))
    return _Drawn(
        ended=ended,
        runs=(
            summary if card.asks else "",
            above if card.asks else "",
            blocks,
            size,
            changed,
            fields,
        ),
        about=(risk, found, notices, because, who, says, preview),
        foot=foot,
        complete=complete,
    )


def build_outcome_view(card: Card) -> MessageContent:
    """Build a short message with a request's state or outcome, without the call."""
    if card.final and card.asks:
        return MessageContent(_build_layout(card, (tuple(render_ended(card)),), []))
    above = (_render_outcome(card, CardBudget()), render_summary(card))
    return MessageContent(_build_layout(card, (above, (_render_footer(card),)), []))


def build_text_view(text: str, inbox: str | None = None) -> MessageContent:
    """Build a message with one of the gateway's texts. An `inbox` address becomes a button; ""
    adds how to get a link."""
    said = f"{text}\n{NO_LINK}" if inbox == "" else text
    view = build_view(ui.TextDisplay(said[:MOST_TEXT]))
    if inbox:
        view.add_item(ui.ActionRow(ui.Button(label="Open in the inbox", url=inbox)))
    return MessageContent(view)


def _build_layout(
    card: Card,
    parts: Sequence[Sequence[str]],
    rows: Sequence[ui.ActionRow[Any]],
) -> ui.LayoutView:
    container: ui.Container[Any] = ui.Container(accent_colour=choose_colour(card))
    groups = [[part for part in group if part] for group in parts]
    for number, group in enumerate(one for one in groups if one):
        if number:
            container.add_item(ui.Separator())
        for part in group:
            container.add_item(ui.TextDisplay(part))
    for row in rows:
        container.add_item(row)
    return build_view(container)


def build_view(item: ui.Item[Any]) -> ui.LayoutView:
    """Build a stopped view with one item."""
    view = ui.LayoutView(timeout=None)
    view.add_item(item)
    view.stop()
    return view


def choose_batch_colour(cards: Sequence[Card]) -> int | None:
    """Return the edge colour of a batch: that of its most severe card, or None."""
    colours = [choose_colour(card) for card in cards]
    return next((one for one in (_FOUND_HIGH, _FOUND) if one in colours), None)


def choose_colour(card: Card) -> int | None:
    """Return the edge colour for a card's outcome, high risk or findings, or None."""
    if card.final:
        return _COLOURS[card.state.tone]
    if card.risk is RiskLevel.HIGH:
        return _FOUND_HIGH
    return _FOUND if card.reasons or card.findings else None


# --- parts ------------------------------------------------------------------------------------


def render_summary(card: Card, *, silent: bool = False) -> str:
    """Return the summary as a heading with names in code style; if `silent`, only the state."""
    if silent or not card.summary:
        return f"### {card.icon} {card.word}"
    said = (
        inline_code(part.text.text) if part.named else escape_line(part.text.text, _HEAD)
        for part in card.summary
    )
    return f"### {''.join(said)}"


def render_facts(card: Card, room: int) -> tuple[str, bool]:
    """Return the agent, the place and other facts, and whether all of them fit."""
    parts: list[str] = []
    for fact in card.facts:
        part = f"**{fact.label}** {escape_line(fact.text.text, _FACT)}"
        if count_units(part) + 3 > room:
            return " · ".join(parts), False
        room -= count_units(part) + 3
        parts.append(part)
    return " · ".join(parts), True


def render_because(card: Card, room: int) -> str:
    """Return why no grant covers the request, if the card says so."""
    if card.asks_because is None or room < LEAST:
        return ""
    return f"-# {escape_line(card.asks_because.text, room - 3)}"


def render_above(card: Card, above: FoundAbove, room: int) -> str:
    """Return the chosen high-risk notice, reasons and findings, one line each."""
    told = (f"{sign} {escape_line(said, room)}" for sign, said in tell_above(card, above))
    return "\n".join(told)


def render_risk(card: Card, above: FoundAbove, room: int) -> str:
    """Return the risk and its reasons, without those that `above` already shows."""
    reasons = "; ".join(reason.text for reason in above.reasons_below(card))
    return f"{_RISKS[card.risk]} risk: {escape_line(reasons, room)}" if reasons else ""


_NOTHING_ABOVE = FoundAbove("", (), ())


def render_findings(
    card: Card,
    room: int,
    above: FoundAbove = _NOTHING_ABOVE,
    rest: str = "Details has them",
) -> str:
    """Return the guardrail findings that `above` does not show, one line each; count equal ones.

    The longest are cut first, because an agent chooses the length of the names in them. A last line
    counts those without room; `rest` says where to read them.
    """
    counted = Counter(one.text for one in above.findings_below(card))
    texts = [f"{count} times: {text}" if count > 1 else text for text, count in counted.items()]
    most = max(1, (room - _MORE_FOUND) // _LEAST_SHARE)
    shown = texts if len(texts) * _LEAST_SHARE <= room else texts[:most]
    missing = len(texts) - len(shown)
    lines: list[str] = []
    shares = share_room(shown, room - (_MORE_FOUND if missing else 0), SIGN_UNITS)
    for one, share in zip(shown, shares, strict=True):
        lines.append(f"{card.sign} {_cut_finding(one, share)}")
    if missing:
        lines += [f"{card.sign} {missing} more: {rest}."]
    return "\n".join(lines)


def _cut_finding(text: str, share: int) -> str:
    """Cut a finding to its share: if possible only the quoted name, not the text after it."""
    said, end, after = text.rpartition('"')
    tail = escape_line(f"{end}{after}", share)
    if len(after) > LEAST or count_units(tail) > share // 2 or not after:
        return escape_line(text, share)
    return f"{escape_line(said, share - count_units(tail))}{tail}"


def share_room(texts: Sequence[str], room: int, around: int) -> list[int]:
    """Divide the room, in units, among texts with `around` extra units each.

    Short texts get what they need when escaped; the others get equal shares of the rest.
    """
    left, shares = room - around * len(texts), [0] * len(texts)
    needs = [count_units(escape_line(text, MOST_TEXT)) for text in texts]
    order = sorted(range(len(texts)), key=needs.__getitem__)
    for done, at in enumerate(order):
        shares[at] = max(0, min(needs[at], left // (len(order) - done)))
        left -= shares[at]
    return shares


def render_statement(card: Card, budget: CardBudget) -> str:
    """Return the agent's statement, marked as unverified."""
    room = budget.room(500) - 40
    if card.says is None or room < LEAST:
        return ""
    return f"**The agent says** ({card.unverified})\n{quote(card.says.text, room)}"


def render_blocks(card: Card, room: int) -> tuple[str, bool]:
    """Return the call in code blocks, cut to `room`, and whether all of it fits."""
    parts: list[str] = []
    whole = True
    for block in card.blocks:
        label = f"{_render_label(block.label)}\n"
        left = room - count_units(label) - 1
        if left < 40:  # noqa: PLR2004 (no room for a fence and a word)
            return "\n".join(parts), False
        text, fits = fence(block.text.text, block.format, left)
        whole = whole and fits
        parts.append(label + text)
        room -= count_units(label) + count_units(text) + 1
    return "\n".join(parts), whole


def _render_label(label: str) -> str:
    """Return a label with the gateway's words in bold and the agent's name escaped, never cut."""
    said, space, name = label.partition(' "')
    return f"**{said}**{space}{escape_line(name, 2 * LABEL_CHARS)}"


def _render_size_notice(card: Card, *, complete: bool, silent: bool) -> str:
    if silent:
        return (
            "⚠️ Discord's moderation blocked the text of the call. Read the whole call before "
            "you approve."
        )
    if complete:
        return ""
    shown = card.size if not card.complete else "Only a part fits here"
    rest = "" if card.final else ": read the whole text before you approve"
    return f"✂️ {shown}{rest}."


def render_changes(card: Card, budget: CardBudget) -> str:
    """Return who changed the call, and the changes if they have room."""
    if card.changed_by is None:
        return ""
    # The person's name is shown even if the changes have no room.
    said = f"**{escape_with_mentions(card.changed_by.text, CHANGED_BY_UNITS, card.people)}**"
    room = budget.room(600) - count_units(said)
    if room < LEAST:
        return said
    text = "\n".join(f"{change.sign} {change.text.text}" for change in card.changed)
    return f"{said}\n{fence(text, 'diff', room)[0]}"


def _render_preview(card: Card, budget: CardBudget) -> str:
    room = budget.room(400) - 50
    if card.preview is None or room < LEAST:
        return ""
    text, _ = fence(card.preview.text.text, card.preview.format, room)
    return f"**The agent's preview** ({card.unverified})\n{text}"


def _render_fields(card: Card, budget: CardBudget) -> str:
    """Return the questions of a form with their choices. Skip questions that the summary shows."""
    room = budget.room(900)
    lines: list[str] = []
    unsaid = card.unsaid
    for number, field in enumerate(card.fields, 1):
        needed = "" if field.required else "(optional)"
        asks = f"**{number}.** {escape_line(field.text.text, 300)}" if field in unsaid else ""
        choices = escape_line(", ".join(one.label.text for one in field.choices), 300)
        first = " ".join(filter(None, (asks, needed)))
        line = "\n".join(filter(None, (first, f"-# {choices}" if choices else "")))
        if not line:
            continue
        if count_units(line) + 1 > room:
            lines.append("…")
            break
        room -= count_units(line) + 1
        lines.append(line)
    return "\n".join(lines)


def _render_outcome(card: Card, budget: CardBudget) -> str:
    """Return the outcome, its time and the result; for a pending request, approvals and claims."""
    lines: list[str] = []
    if card.final:
        ending = card.ending or card.outcome
        said = f"{card.icon} **{_say_ending(card, ending, budget)}**" if ending else ""
        told = [said or f"**{card.icon} {card.word}**"]
        if card.decided_at:
            told[0] += f", <t:{card.decided_at // 1000}:t>"
        if card.result is not None:
            told.append(escape_line(card.result.text, budget.room(300)))
        if others := mention_others(card.deciders, said):
            told.append(others)
        lines.append(" · ".join(told))
    if card.paused is not None:
        lines.append(f"⏸️ Until <t:{card.paused // 1000}:f> (<t:{card.paused // 1000}:R>)")
    if card.progress and not card.final:
        lines.append(f"👥 {escape_with_mentions(card.progress, budget.room(300), card.people)}")
    if card.claimed and not card.final:
        lines.append(f"👀 {escape_with_mentions(card.claimed, budget.room(200), card.people)}")
    return "\n".join(lines)


def _say_ending(card: Card, ending: Visible, budget: CardBudget) -> str:
    said = ending.text if card.ending else f"{card.word} · {ending.text}"
    said = say_names(said, card.people)
    return escape_with_mentions(said, budget.room(500), card.people)


def _render_footer(card: Card, *, stated: bool = False) -> str:
    """Return the state, the expiry, the id and the digest. Omit the state if it is `stated` above
    or a notice says it."""
    at = card.deadline // 1000
    state = "Expires" if stated or card.idle else f"{card.icon} {card.word} · expires"
    ends = "" if card.final else f"{state} <t:{at}:R> (<t:{at}:f>) · "
    if not card.digest:
        return ""
    return f"-# {ends}id {card.short_id} · sha256 {card.digest[:16]}…"


# --- controls ---------------------------------------------------------------------------------


def _build_rows(card: Card, copy: str, *, complete: bool) -> list[ui.ActionRow[Any]]:
    """Build the rows of a pending card: first Read the full text if incomplete, then the
    decisions, the inbox and More…"""
    base = DiscordButton(verb=READ, request_id=card.request_id, revision=card.revision, copy=copy)
    led = leads_of(card)
    offered = {one.action: one for one in card.controls if is_offered(one, complete)}
    buttons = [
        _build_button(offered[one], base) for one in _ON_CARD if one in offered and one not in led
    ]
    if not complete:
        whole: ui.Button[Any] = ui.Button(
            label="Read the full text", style=discord.ButtonStyle.primary, custom_id=base.custom_id
        )
        buttons.insert(0, whole)
    if card.inbox:
        label = label_inbox(led)
        buttons.insert(-1, ui.Button(label=label, url=card.inbox))
    buttons.append(ui.Button(label="More…", custom_id=base.with_verb(MORE).custom_id))
    return arrange_in_rows([*buttons, *_build_origin(card)])


def _build_origin(card: Card) -> list[ui.Button[Any]]:
    """Build the link to the origin, which as a button gets no preview; or nothing."""
    return [ui.Button(label=TO_ORIGIN, url=card.origin)] if card.origin else []


def build_more_view(
    card: Card, button: DiscordButton, *, mine: bool = False, batch: int = 1
) -> MessageContent:
    """Build the private message behind "More…" with all other actions.

    `card` is the posted one, as this person sees it. `mine` is true if this person is looking;
    `batch` is the number of requests in its batch.
    """
    complete = _draw(card).complete
    rest = [one for one in card.controls if one.action not in _ON_CARD]
    looks = button.with_verb(UNCLAIM if mine else CLAIM)
    label = "Not looking" if mine else "I'm looking"
    buttons: list[ui.Button[Any]] = [
        ui.Button(label="Details", custom_id=button.with_verb(READ).custom_id),
        *_build_rest(card, rest, button, complete=complete),
        *(build_remember_buttons(card, button) if complete else ()),
        ui.Button(label=label, custom_id=looks.custom_id),
    ]
    if batch > 1:
        every = button.with_verb(BATCH)
        buttons.insert(1, ui.Button(label=f"All {batch}…", custom_id=every.custom_id))
    if card.inbox:
        buttons.append(ui.Button(label="Open in the inbox", url=card.inbox))
    because: list[ui.Button[Any]] = [
        ui.Button(
            label=why,
            custom_id=button.with_verb(BECAUSE, more=str(number)).custom_id,
        )
        for number, why in enumerate(DENIALS)
    ]
    container: ui.Container[Any] = ui.Container(accent_colour=choose_colour(card))
    container.add_item(ui.TextDisplay(render_summary(card)))
    if no_link := say_no_link(card):
        container.add_item(ui.TextDisplay(f"⚠️ {no_link}"))
    for row in arrange_in_rows(buttons):
        container.add_item(row)
    container.add_item(ui.TextDisplay(f"-# {DENY_BECAUSE} …"))
    for row in arrange_in_rows(because):
        container.add_item(row)
    return MessageContent(build_view(container))


def _build_rest(
    card: Card, rest: list[Control], base: DiscordButton, *, complete: bool
) -> list[ui.Button[Any]]:
    """Build the buttons of the other actions; an edit gets a second button for raw JSON."""
    buttons: list[ui.Button[Any]] = []
    for control in rest:
        if not is_offered(control, complete):
            continue
        buttons.append(_build_button(control, base))
        if control.action is Action.EDIT and card.editable is not None and not control.confirm:
            wanted = base.with_verb(Action.EDIT.value, more=AS_JSON)
            buttons.append(ui.Button(label="Edit as JSON", custom_id=wanted.custom_id))
    return buttons


def render_about(card: Card) -> str:
    """Return the text at the top of a modal: the summary, risk and findings, and the call."""
    above = choose_above(card)
    found = (render_above(card, above, _ABOUT), render_risk(card, above, _ABOUT),
             render_findings(card, _ABOUT, above))  # fmt: skip
    left = MOST_TEXT - _SPACE - sum(map(count_units, found))
    blocks, whole = render_blocks(card, left)
    cut = "" if card.complete and whole else f"-# ✂️ {card.size}. Details has all of it."
    return "\n".join(filter(None, (render_summary(card), *found, blocks, cut)))


def _build_final_rows(card: Card) -> list[ui.ActionRow[Any]]:
    """Build the row of a card that is final: a link to the inbox, if it has an address."""
    return arrange_in_rows(
        [ui.Button(label="Open the inbox", url=card.inbox)] if card.inbox else []
    )


def build_remember_buttons(card: Card, base: DiscordButton) -> list[ui.Button[Any]]:
    """Build the Remember… button, if a grant is possible."""
    if not card.remembers:
        return []
    return [ui.Button(label="Remember…", custom_id=base.with_verb(REMEMBER).custom_id)]


def leads_of(card: Card) -> frozenset[Action]:
    """Return the actions that are possible only in the inbox. A secret would get into Discord's
    logs, and Discord cannot ask for a passkey."""
    return frozenset(
        one.action
        for one in card.controls
        if (one.action is Action.ANSWER and any(field.secret for field in card.fields))
        or one.by_passkey_alone
    )


def label_inbox(led: Collection[Action]) -> str:
    """Return the label of the inbox link; it names the action that is possible only there."""
    return next((said for action, said in LEADS.items() if action in led), "Open in the inbox")


def is_offered(control: Control, complete: bool) -> bool:
    """Whether a message that shows the call `complete`, or only a part, may offer this control."""
    return complete or control.action in (Action.DENY, Action.ABORT, Action.ANSWER)


def _build_button(control: Control, base: DiscordButton) -> ui.Button[Any]:
    """Build the button of a control. If it needs confirmation, it opens the full view instead."""
    if control.confirm:
        label = "Review…" if control.action is Action.APPROVE else f"{control.label}…"
        wanted = base.with_verb(READ, more=control.action.value)
    else:
        wanted, label = base.with_verb(control.action.value), control.label
    return ui.Button(label=label, style=STYLES[control.style], custom_id=wanted.custom_id)


def arrange_in_rows(buttons: list[ui.Button[Any]]) -> list[ui.ActionRow[Any]]:
    """Arrange buttons in rows of at most five."""
    return [ui.ActionRow(*buttons[at : at + ROW]) for at in range(0, len(buttons), ROW)]
