"""The layout of several requests of one group: in one posted message, and each in a private one.

Pure. In a posted message each keeps its place. One that ended is two lines; one that finds no room
any more, since it was changed, is read in its full view. All may be approved at once where all that
wait are whole here, and always be denied at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import discord
from discord import ui

from adapters.discord.card_views import (
    MORE,
    MOST_TEXT,
    READ,
    MessageContent,
    choose_above,
    choose_group_colour,
    list_notices,
    render_above,
    render_blocks,
    render_ended,
    render_findings,
    render_head,
    render_risk,
)
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.markup import count_units, escape_line, escape_with_mentions, quote
from gateway.models import Action
from gateway.ports import Card, GroupCard, is_simple, named_facts

ALL, NONE = "all", "none"
MOST_COMPONENTS = 40
PER_ITEM = 6  # a separator, the text, a row, three buttons
_AROUND = 8  # the box, the title, a separator, a row, two buttons, until when, who is called
_AROUND_UNITS = 900  # for these, and differences in Discord's counting
_SHORT_UNITS = 250  # of one that finds no room, or ended
_FACT = 160
_TOLD = 300
_SAYS = 200
_REST = "-# ✂️ What runs is not shown here: Review… has all of it."


def list_fitting(group: GroupCard) -> tuple[str, ...]:
    """Return the ids of the requests that find room in one message, each whole."""
    most = (MOST_COMPONENTS - _AROUND) // PER_ITEM
    return tuple(card.request_id for card, _, whole in _draw_all(group) if whole)[:most]


def shows_all(group: GroupCard) -> bool:
    """Whether all that wait may be answered at once: each is whole in the message, and simple."""
    return all(whole and is_simple(card) for card, _, whole in _draw_all(group) if not card.final)


def build_group_view(
    group: GroupCard, copy: str, *, called: str = "", silent: bool = False
) -> MessageContent:
    """Return the message of a group's posted card, with the mentions `called` below it. With
    `silent`, it contains no text of the agent, and nothing is approved on it."""
    container: ui.Container[Any] = ui.Container(accent_colour=choose_group_colour(group.items))
    container.add_item(ui.TextDisplay(f"### {escape_line(group.title.text, _TOLD)}"))
    for card, text, whole in _draw_all(group):
        container.add_item(ui.Separator())
        container.add_item(ui.TextDisplay(text if whole and not silent else _shorten(card, silent)))
        base = DiscordButton(
            verb=READ, request_id=card.request_id, revision=card.revision, copy=copy
        )
        if card.final:
            details = _button("Details", base, discord.ButtonStyle.secondary)
            container.add_item(ui.ActionRow(details))
            continue
        container.add_item(build_item_row(card, base, whole=whole and not silent))
    waiting = group.waiting
    if group.deniable and group.revisions:
        first = group.items[0]
        base = DiscordButton(
            verb=ALL, request_id=first.request_id, revision=first.revision, copy=copy
        )
        container.add_item(ui.Separator())
        approves = group.together and shows_all(group) and not silent
        count = len(waiting)
        container.add_item(build_all_row(count, base, group.revisions, approves=approves))
    if waiting:
        at = min(card.deadline for card in waiting) // 1000
        container.add_item(ui.TextDisplay(f"-# ⏳ The first expires <t:{at}:R> (<t:{at}:f>)"))
    view = ui.LayoutView(timeout=None)
    view.add_item(container)
    if called and waiting:
        view.add_item(ui.TextDisplay(f"-# {called}"))
    view.stop()
    return MessageContent(view)


def draw_item(card: Card, *, says: bool = False) -> tuple[str, bool]:
    """Return a request's head, what was found and exactly what runs, and whether it is whole; with
    `says` also the agent's own words."""
    blocks, whole = render_blocks(card, MOST_TEXT)
    facts = " · ".join(
        f"**{fact.label}** {escape_line(fact.text.text, _FACT)}" for fact in named_facts(card)
    )
    above = choose_above(card)
    said = ""
    if says and card.says is not None:
        said = f"**The agent says** ({card.unverified})\n{quote(card.says.text, _SAYS)}"
    parts = (
        render_head(card),
        render_above(card, above, _TOLD),
        blocks,
        facts,
        render_risk(card, above, _TOLD),
        render_findings(card, _TOLD, above),
        "\n".join(f"⚠️ {notice}" for notice in list_notices(card)),
        said,
        f"👥 {escape_with_mentions(card.progress, _TOLD, card.people)}" if card.progress else "",
        f"👀 {escape_with_mentions(card.claimed, _TOLD, card.people)}" if card.claimed else "",
    )
    return "\n".join(filter(None, parts)), whole and card.complete


def build_item_row(card: Card, base: DiscordButton, *, whole: bool) -> ui.ActionRow[Any]:
    """Return the answers to one request: its approval where it is `whole`, and takes one tap. On a
    posted card the rest is behind More…, in a private message behind Details."""
    posted = bool(base.copy)
    row: ui.ActionRow[Any] = ui.ActionRow()
    simple = whole and is_simple(card)
    if simple:
        approve = base.with_verb(Action.APPROVE.value, more=base.more)
        row.add_item(_button("Approve", approve, discord.ButtonStyle.success))
    elif posted:
        read = base.with_verb(READ)
        row.add_item(_button("Review…", read, discord.ButtonStyle.primary))
    deny = base.with_verb(Action.DENY.value, more=base.more)
    row.add_item(_button("Deny", deny, discord.ButtonStyle.danger))
    label = "More…" if posted else "Details" if simple else "Review…"
    rest = base.with_verb(MORE if posted else READ)
    row.add_item(_button(label, rest, discord.ButtonStyle.secondary))
    return row


def build_all_row(
    count: int, base: DiscordButton, more: str, *, approves: bool, hidden: bool = False
) -> ui.ActionRow[Any]:
    """Return the buttons that answer all of a group at once; not all may be approved so. With
    `hidden` there are others that are not shown."""
    row: ui.ActionRow[Any] = ui.ActionRow()
    every, none = base.with_verb(ALL, more=more), base.with_verb(NONE, more=more)
    if approves:
        row.add_item(_button(f"Approve all {count}", every, discord.ButtonStyle.success))
    label = f"Deny {'these' if hidden else 'all'} {count}"
    row.add_item(_button(label, none, discord.ButtonStyle.danger))
    return row


def _draw_all(group: GroupCard) -> Iterator[tuple[Card, str, bool]]:
    """Yield the cards of a group, each with its text and whether it finds room whole, the first
    ones first. All find room in short."""
    drawn = [
        (card, *((_draw_ended(card), True) if card.final else draw_item(card, says=True)))
        for card in group.items
    ]
    sizes = [count_units(text) + 2 for _, text, _ in drawn]
    left = MOST_TEXT - _AROUND_UNITS - sum(min(one, _SHORT_UNITS) for one in sizes)
    for (card, text, whole), size in zip(drawn, sizes, strict=True):
        more = size - min(size, _SHORT_UNITS)
        fits = whole and more <= left
        if fits:
            left -= more
        yield card, text, fits


def _draw_ended(card: Card) -> str:
    """Return how a request ended, and below that its head: two facts, each in a line."""
    return "\n".join(islice(render_ended(card), 2))


def _shorten(card: Card, silent: bool) -> str:
    """Return a text for a request that finds no room: the head if that does, else its state."""
    head = render_head(card, silent=silent)
    if count_units(head) > _SHORT_UNITS - len(_REST):
        head = render_head(card, silent=True)
    return head if card.final else f"{head}\n{_REST}"


def _button(label: str, wanted: DiscordButton, style: discord.ButtonStyle) -> ui.Button[Any]:
    return ui.Button(label=label, style=style, custom_id=wanted.custom_id)
