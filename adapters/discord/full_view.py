"""Build the private messages with the full view of a request, page by page, and with a batch;
start with `build_full_view` and `build_batch`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import discord
from discord import ui

from adapters.discord.cards import (
    BECAUSE_UNITS,
    CHANGED_BY_UNITS,
    CONFIRMED,
    FILE_NAME,
    LEAST,
    MOST_TEXT,
    NUMBER,
    READ,
    SIGN_UNITS,
    STYLES,
    CardBudget,
    MessageContent,
    arrange_in_rows,
    build_remember_buttons,
    build_view,
    choose_batch_colour,
    choose_colour,
    escape_line,
    escape_with_mentions,
    fence,
    is_offered,
    label_inbox,
    leads_of,
    render_above,
    render_because,
    render_blocks,
    render_changes,
    render_ended,
    render_facts,
    render_findings,
    render_risk,
    render_statement,
    render_summary,
    share_room,
)
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.interactions import DiscordTap, InteractionReply
from gateway.cards.batch_cards import BatchCard, is_simple, named_facts
from gateway.cards.blocks import draw, weight_of
from gateway.cards.card import Card, FullView, choose_above, list_warnings, say_no_link
from gateway.cards.card import full_view as pages_of
from gateway.cards.masks import HIDDEN
from gateway.cards.shared_texts import NO_LINK, count_units
from gateway.chat.answering import Answering
from gateway.chat.lists_and_batches import NOT_TOGETHER
from gateway.models import Action, RiskLevel
from gateway.ports import StoredRequest

# The layout of the full view: one page of the call, everything from the card, and the controls.
# Pure: no I/O.
#
# A page is never cut. The texts around it are cut instead, the least important ones first.

PAGE_UNITS = 1600
_ALL_FACTS = 1500  # the longest possible text of all facts
_PROGRESS = 200
_FOUND, _TOLD = (250, 900), (450, 900)  # at least, at most
_PARTLY = "⚠️ Discord cannot show a page in full. Read and decide this request in the inbox."
_TURN = "Approve is on the last page."


def shows_whole(view: FullView) -> bool:
    """Whether Discord can show every page of a full view in full."""
    return all(page_fits(page.text) for page in view.pages)


def page_fits(text: str) -> bool:
    """Whether one page of the full view has room for this text."""
    return fence(text, "text", PAGE_UNITS)[1]


def build_full_view(
    card: Card, view: FullView, button: DiscordButton, *, page: int = 0, limit: int = 10_485_760
) -> MessageContent:
    """Build the private message with one page of the full text, a file with all of it, and the
    controls.

    `card` is built without a size limit; `button` is the pressed one. `limit` is the largest file
    in bytes that Discord accepts here. Approval is offered only on the last page, and only if
    Discord can show every page in full.
    """
    raw = view.text.encode("utf-8", "backslashreplace")
    fits = len(raw) <= limit
    page = max(0, min(page, len(view.pages) - 1))
    last = page == len(view.pages) - 1
    whole = shows_whole(view)
    text, _ = fence(view.pages[page].text, "text", PAGE_UNITS)
    more = not last and any(one.action is Action.APPROVE for one in card.controls)
    ended = tuple(render_ended(card)) if card.final else ()
    said = f"-# Only you see this. Page {page + 1} of {len(view.pages)}."
    digest = hashlib.sha256(raw).hexdigest()
    file = f"-# {FILE_NAME}: all pages, SHA-256 `{digest}`\n-# Action digest: `{card.digest}`"
    way = "" if card.inbox or say_no_link(card) else f" {NO_LINK}"
    if not fits:
        file = f"⚠️ This request is too large for Discord. Read and decide it in the inbox.{way}"
    if card.hides:
        file = f"⚠️ {HIDDEN}\n{file}"
    first = ended if card.final else (render_summary(card), _render_brief_risk(card))
    last_words = (f"{said} {_TURN}" if more else said, "" if whole else f"{_PARTLY}{way}")
    told = _tell_around(card, view, first, (*last_words, text, file))
    head = [part for part in (*told, *last_words) if part]
    if changed := _render_last_changes(card, (*head, text, file)):
        head = [one for one in head if one not in ended] + changed
        head[:0] = render_ended(card, changes=False)
    rows = [] if card.final or not fits else _build_full_rows(card, button, whole and last)
    if len(view.pages) > 1:
        rows.append(_build_page_row(button, page, len(view.pages)))
    below: list[Any] = [ui.TextDisplay(file)]
    if fits:
        below.append(ui.File(f"attachment://{FILE_NAME}"))
    container: ui.Container[Any] = ui.Container(accent_colour=choose_colour(card))
    for one in (*map(ui.TextDisplay, head), ui.TextDisplay(text), *below, *rows):
        container.add_item(one)
    return MessageContent(build_view(container), raw if fits else None)


def _tell_around(
    card: Card, view: FullView, first: Sequence[str], beside: Sequence[str]
) -> tuple[str, ...]:
    """Return the parts above a page of the full view, cut to the room that `beside` leaves.
    Warnings get room before descriptions."""
    budget = CardBudget()
    facts = render_facts(card, _ALL_FACTS)[0]
    for part in (*first, facts, *beside):
        budget.take(part)
    waits = not card.final
    ends = f"-# ⏳ Expires <t:{card.deadline // 1000}:R> (<t:{card.deadline // 1000}:f>)"
    ends = budget.take(ends) if waits else ""
    room = _limit_room(budget, _FOUND)
    found = budget.take(render_findings(card, room, rest="the inbox has them"))
    notices = _render_notices(card, _limit_room(budget, _TOLD)) if waits else ""
    budget.take(notices)
    people = [("👥", card.progress)] + ([("👀", card.claimed)] if waits else [])
    who = "\n".join(
        f"{sign} {escape_with_mentions(text, _PROGRESS, card.people)}"
        for sign, text in people
        if text
    )
    budget.take(who)
    changed = budget.take(render_changes(card, budget)) if waits else ""
    because = budget.take(render_because(card, budget.room(BECAUSE_UNITS)))
    says = budget.take(render_statement(card, budget)) if waits else ""
    undeclared = budget.take(_render_undeclared(view, budget.room(BECAUSE_UNITS)))
    return (*first, notices, found, facts, because, undeclared, changed, says, who, ends)


def _limit_room(budget: CardBudget, limits: tuple[int, int]) -> int:
    """Return a third of the remaining room, within these limits: later parts need room too."""
    least, most = limits
    return max(least, min(most, budget.left // 3))


def _render_notices(card: Card, room: int) -> str:
    """Return the warnings that the full view shows nowhere else, each with a share of the room."""
    texts = [one for one in list_warnings(card) if one != HIDDEN]
    shares = share_room(texts, room, SIGN_UNITS)
    return "\n".join(
        f"⚠️ {escape_with_mentions(one, share, card.people)}"
        for one, share in zip(texts, shares, strict=True)
    )


def _render_last_changes(card: Card, beside: Sequence[str]) -> list[str]:
    """Return the changes made before a request ended, if `beside` leaves room for them."""
    if not card.final or card.changed_by is None:
        return []
    budget = CardBudget()
    for part in beside:
        budget.take(part)
    return [render_changes(card, budget)] if budget.left > LEAST + CHANGED_BY_UNITS else []


def _render_undeclared(view: FullView, room: int) -> str:
    """Return which arguments a grant fixes because no role is declared for them."""
    if view.undeclared is None or room < LEAST:
        return ""
    return f"-# {escape_line(view.undeclared.text, room)}"


def _render_brief_risk(card: Card) -> str:
    """Return a short line if the risk is high, for a page with little room."""
    reasons = escape_line("; ".join(one.text for one in card.reasons), 100) if card.reasons else ""
    high = f"🔴 High risk{': ' if reasons else ''}{reasons}"
    return high if card.risk is RiskLevel.HIGH else ""


def _build_full_rows(card: Card, button: DiscordButton, seen: bool) -> list[ui.ActionRow[Any]]:
    buttons: list[ui.Button[Any]] = []
    base = replace(button, revision=card.revision)
    led = leads_of(card)
    for control in card.controls:
        if not is_offered(control, seen) or control.action in led:
            continue
        if control.number and control.action is Action.APPROVE:
            wanted = base.with_verb(NUMBER)
            label = f"{control.yes}…"
            buttons.append(
                ui.Button(label=label, style=STYLES[control.style], custom_id=wanted.custom_id)
            )
            continue
        more = CONFIRMED if control.confirm else ""
        label = f"{control.yes}: I have read it" if control.confirm else control.label
        wanted = base.with_verb(control.action.value, more=more)
        buttons.append(
            ui.Button(label=label, style=STYLES[control.style], custom_id=wanted.custom_id)
        )
    buttons += build_remember_buttons(card, base) if seen else []
    if card.inbox:
        label = label_inbox(led)
        buttons.append(ui.Button(label=label, url=card.inbox))
    return arrange_in_rows(buttons)


def _build_page_row(button: DiscordButton, page: int, pages: int) -> ui.ActionRow[Any]:
    row: ui.ActionRow[Any] = ui.ActionRow()
    for label, to in (("◀ Back", page - 1), ("Next ▶", page + 1)):
        wanted = button.with_verb(READ, more=str(to + 1))
        row.add_item(
            ui.Button(label=label, custom_id=wanted.custom_id, disabled=not 0 <= to < pages)
        )
    return row


# A batch in a private message: each request in full, with its own buttons. Buttons for all appear
# only if the message shows all of them.

ALL, NONE = "all", "none"
IN_BATCH = "b"
BATCH_CHARS = 2600
_SPACE = 300  # for the title, and differences in Discord's counting
_MOST_COMPONENTS = 40
_PER_ITEM = 6  # a separator, the text, a row, three buttons
_MOST_ITEMS = (_MOST_COMPONENTS - 8) // _PER_ITEM  # eight are for the title and the last rows
_ITEM_UNITS = 300  # of one line
_FACT_UNITS = 160


def keep_drawn(batch: BatchCard) -> BatchCard:
    """Keep only the items of a batch that fit the message in full, and count the others."""
    left = MOST_TEXT - _SPACE
    drawn: list[Card] = []
    for card in batch.items[:_MOST_ITEMS]:
        text, whole = _draw_item(card)
        if not whole or count_units(text) + 2 > left:
            continue
        left -= count_units(text) + 2
        drawn.append(card)
    more = batch.more + len(batch.items) - len(drawn)
    return replace(batch, items=tuple(drawn), more=more)


def build_batch(
    batch: BatchCard, button: DiscordButton, key: str, *, told: str = ""
) -> MessageContent:
    """Build the message of a batch from `keep_drawn`; `told` is the line below the title."""
    container: ui.Container[Any] = ui.Container(accent_colour=choose_batch_colour(batch.items))
    title = f"### {escape_line(batch.title.text, _ITEM_UNITS)}"
    said = escape_line(f"{told[:1].upper()}{told[1:]}", _ITEM_UNITS) if told else ""
    container.add_item(ui.TextDisplay("\n".join(filter(None, (title, said)))))
    for card in batch.items:
        container.add_item(ui.Separator())
        container.add_item(ui.TextDisplay(_draw_item(card)[0]))
        container.add_item(_build_item_row(card))
    if batch.more:
        said = f"-# {batch.more} more do not fit here. Open them one at a time."
        container.add_item(ui.TextDisplay(said))
    if batch.deniable:
        container.add_item(ui.Separator())
        container.add_item(_build_all_row(batch, button, key))
        if not batch.together:
            container.add_item(ui.TextDisplay(f"-# {NOT_TOGETHER}"))
    return MessageContent(build_view(container))


def _draw_item(card: Card) -> tuple[str, bool]:
    """Return a request's summary, warnings and call as text, and whether the text is complete."""
    blocks, whole = render_blocks(card, MOST_TEXT)
    facts = " · ".join(
        f"**{fact.label}** {escape_line(fact.text.text, _FACT_UNITS)}" for fact in named_facts(card)
    )
    above = choose_above(card)
    people = (("👥", card.progress), ("👀", card.claimed))
    parts = (
        render_summary(card),
        render_above(card, above, _ITEM_UNITS),
        blocks,
        facts,
        render_risk(card, above, _ITEM_UNITS),
        render_findings(card, _ITEM_UNITS, above),
        "\n".join(f"⚠️ {notice}" for notice in list_warnings(card)),
        *(
            f"{sign} {escape_with_mentions(text, _ITEM_UNITS, card.people)}"
            for sign, text in people
            if text
        ),
    )
    return "\n".join(filter(None, parts)), whole and card.complete


def _build_item_row(card: Card) -> ui.ActionRow[Any]:
    """Build the buttons of one request. Approve is one of them only if one tap is enough."""
    base = DiscordButton(
        verb=READ, request_id=card.request_id, revision=card.revision, more=IN_BATCH
    )
    row: ui.ActionRow[Any] = ui.ActionRow()
    simple = is_simple(card)
    if simple:
        approve = base.with_verb(Action.APPROVE.value, more=IN_BATCH)
        row.add_item(_build_button("Approve", approve, discord.ButtonStyle.success))
    deny = base.with_verb(Action.DENY.value, more=IN_BATCH)
    row.add_item(_build_button("Deny", deny, discord.ButtonStyle.danger))
    label = "Details" if simple else "Review…"
    row.add_item(_build_button(label, base.with_verb(READ), discord.ButtonStyle.secondary))
    return row


def _build_all_row(batch: BatchCard, base: DiscordButton, key: str) -> ui.ActionRow[Any]:
    """Build the buttons that decide all of a batch. Approve all is left out if not permitted."""
    row: ui.ActionRow[Any] = ui.ActionRow()
    every, none = base.with_verb(ALL, more=key), base.with_verb(NONE, more=key)
    count = len(batch.items)
    if batch.together:
        row.add_item(_build_button(f"Approve all {count}", every, discord.ButtonStyle.success))
    label = f"Deny {'these' if batch.more else 'all'} {count}"
    row.add_item(_build_button(label, none, discord.ButtonStyle.danger))
    return row


def _build_button(label: str, wanted: DiscordButton, style: discord.ButtonStyle) -> ui.Button[Any]:
    return ui.Button(label=label, style=style, custom_id=wanted.custom_id)


async def show_page(
    answering: Answering, tap: DiscordTap, record: StoredRequest, *, replaces: bool = False
) -> InteractionReply:
    """Return the page of the full view that the button names, or the first page. The caller must
    check the person's rights before."""
    page = int(tap.button.more) - 1 if tap.button.more.isdecimal() else 0
    limit = tap.interaction.filesize_limit
    card = await answering.build_whole(record, tap.identity)

    def render() -> MessageContent:
        view = pages_of(record, fits=page_fits)
        return build_full_view(card, view, tap.named, page=page, limit=limit)

    return InteractionReply(await draw(render, *weight_of(record)), replaces=replaces)
