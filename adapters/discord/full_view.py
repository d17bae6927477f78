"""Private messages: the full view of all that would run, page by page, and batches."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import discord
from discord import ui

from adapters.discord.cards import (
    BECAUSE_UNITS,
    CARD_CHARS,
    CARD_LINES,
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
    build_more_view,
    build_remember_buttons,
    build_text_view,
    build_view,
    choose_above,
    choose_batch_colour,
    choose_colour,
    count_units,
    escape_line,
    escape_with_mentions,
    fence,
    is_offered,
    label_inbox,
    leads_of,
    list_notices,
    render_above,
    render_because,
    render_blocks,
    render_changes,
    render_ended,
    render_facts,
    render_findings,
    render_head,
    render_risk,
    render_statement,
    share_room,
)
from adapters.discord.custom_ids import PLATFORM, DiscordButton
from adapters.discord.interactions import InteractionReply, read_identity, refuse_stranger
from gateway.cards.batch_cards import BatchCard, batch_card_of, is_simple, named_facts
from gateway.cards.blocks import draw, weight_of
from gateway.cards.card import Card, FullView, card_of, leads_to_inbox, say_no_link
from gateway.cards.card import full_view as pages_of
from gateway.cards.masks import HIDDEN
from gateway.cards.words import NO_LINK
from gateway.errors import BatchRefused, Conflict, InvalidRequest
from gateway.models import Action, RiskLevel
from gateway.ports import Click, Desk, Record, Worklist

# The layout of the full view: one page of all that would run, everything that its card says, and
# the controls. Pure: no I/O.
#
# A page is never cut to make room for what stands around it; that yields, by importance.

PAGE_UNITS = 1600
_ALL_FACTS = 1500  # the longest possible sum of all facts
_PROGRESS = 200
_FOUND, _TOLD = (250, 900), (450, 900)  # at least, at most
_PARTLY = "⚠️ Discord cannot show all of a page. Read and decide it in the inbox."
_TURN = "Approve is on the last."


def shows_whole(view: FullView) -> bool:
    """Whether every page of a full view is shown whole."""
    return all(page_fits(page.text) for page in view.pages)


def page_fits(text: str) -> bool:
    """Whether a page of the full view shows all of this."""
    return fence(text, "text", PAGE_UNITS)[1]


def build_full_view(
    card: Card, view: FullView, button: DiscordButton, *, page: int = 0, limit: int = 10_485_760
) -> MessageContent:
    """Return the private message with one page of the full text, the whole as a file, and the
    controls.

    `card` is built without a size limit; `button` is the one pressed. `limit` is the largest file
    that Discord accepts here. Before the last page, and if a page is not shown whole, the request
    can only be denied.
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
    file = f"-# {FILE_NAME}: all of it, SHA-256 `{digest}`\n-# what runs: SHA-256 `{card.digest}`"
    way = "" if card.inbox or say_no_link(card) else f" {NO_LINK}"
    if not fits:
        file = f"⚠️ It is too large for Discord. Read and decide it in the inbox.{way}"
    if card.hides:
        file = f"⚠️ {HIDDEN}\n{file}"
    first = ended if card.final else (render_head(card), _render_brief_risk(card))
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
    """Return what stands above a page of the full view: everything that the card says, with the
    room that is left `beside` the rest. Warnings come before words about it."""
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
    """Return a third of what is left, within these limits: more comes after it."""
    least, most = limits
    return max(least, min(most, budget.left // 3))


def _render_notices(card: Card, room: int) -> str:
    """Return the notices that stand nowhere else in the full view, none of them left out."""
    texts = [one for one in list_notices(card) if one != HIDDEN]
    shares = share_room(texts, room, SIGN_UNITS)
    return "\n".join(
        f"⚠️ {escape_with_mentions(one, share, card.people)}"
        for one, share in zip(texts, shares, strict=True)
    )


def _render_last_changes(card: Card, beside: Sequence[str]) -> list[str]:
    """Return what was changed before a request ended, where there is room `beside` the rest."""
    if not card.final or card.changed_by is None:
        return []
    budget = CardBudget()
    for part in beside:
        budget.take(part)
    return [render_changes(card, budget)] if budget.left > LEAST + CHANGED_BY_UNITS else []


def _render_undeclared(view: FullView, room: int) -> str:
    """Return what is the same each time for want of a declaration."""
    if view.undeclared is None or room < LEAST:
        return ""
    return f"-# {escape_line(view.undeclared.text, room)}"


def _render_brief_risk(card: Card) -> str:
    """Return for a page with little room that the risk is high."""
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


# A batch in a private message: each of its requests whole, answered one by one, or all at once
# where all of them were read there.

ALL, NONE = "all", "none"
IN_BATCH = "b"
BATCH_CHARS = 2600
_SPACE = 300  # for the title, and differences in Discord's counting
_MOST_COMPONENTS = 40
_PER_ITEM = 6  # a separator, the text, a row, three buttons
_MOST_ITEMS = (_MOST_COMPONENTS - 8) // _PER_ITEM  # the rest is what stands around them
_SEEN_SECONDS = 3600.0
_ITEM_UNITS = 300  # of what is said in one line
_FACT_UNITS = 160
_ANSWERS = {ALL: Action.APPROVE, NONE: Action.DENY}


class BatchMessages:
    """Shows the batch of a request, and answers all of it at once."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._worklist = Worklist(desk)

    async def count(self, interaction: discord.Interaction, request_id: str) -> int:
        """Return how many requests of this batch wait for the person."""
        record = await self._desk.requests.get(request_id)
        return len(await self._worklist.list_batch(read_identity(interaction), record))

    async def build(
        self, interaction: discord.Interaction, button: DiscordButton, told: str = ""
    ) -> MessageContent:
        """Return the batch, as it stands now, below what came of the last tap."""
        identity = read_identity(interaction)
        record = await self._desk.requests.get(button.request_id)
        found = await self._worklist.list_batch(identity, record)
        if not found:
            return build_text_view(told or "None of them waits any more.")
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written
        batch = batch_card_of(found, chars=BATCH_CHARS, each=CARD_CHARS, reader=reader)
        shown = list_drawn(batch)
        together = batch.together and len(shown) == len(batch.items)
        kept = {"seen": [[card.request_id, card.revision] for card, _ in shown], "all": together}
        key = base64.urlsafe_b64encode(interaction.id.to_bytes(8, "big")).decode().rstrip("=")
        await self._desk.notes.put(_note(key), json.dumps(kept), seconds=_SEEN_SECONDS)
        return build_batch(batch, shown, button, key, told=told, together=together)

    async def decide(self, interaction: discord.Interaction, button: DiscordButton) -> str:
        """Answer all that the message showed, or none of it; return what came of it."""
        text = await self._desk.notes.get(_note(button.more))
        if text is None:
            raise Conflict("this was left open for too long; open it again")
        kept: dict[str, Any] = json.loads(text)
        if not kept["all"] and button.verb == ALL:
            raise InvalidRequest("not all of them can be read here: answer each")
        clicks = [
            Click(
                request_id=request_id,
                revision=revision,
                identity=read_identity(interaction),
                action=_ANSWERS[button.verb],
                nonce=f"{PLATFORM} {interaction.id}",
            )
            for request_id, revision in kept["seen"]
        ]
        try:
            done = await self._desk.requests.decide_all(clicks)
        except BatchRefused as refused:
            return str(refused)
        return f"All {len(done)} are {done[0].status.value}."


def list_drawn(batch: BatchCard) -> list[tuple[Card, str]]:
    """Return the items with their texts, as far as they find room, each whole or not at all."""
    left = MOST_TEXT - _SPACE
    drawn: list[tuple[Card, str]] = []
    for card in batch.items[:_MOST_ITEMS]:
        text, whole = _draw_item(card)
        if not whole or count_units(text) + 2 > left:
            continue
        left -= count_units(text) + 2
        drawn.append((card, text))
    return drawn


def build_batch(
    batch: BatchCard,
    shown: Sequence[tuple[Card, str]],
    button: DiscordButton,
    key: str,
    *,
    told: str = "",
    together: bool,
) -> MessageContent:
    """Return the message of a batch."""
    container: ui.Container[Any] = ui.Container(accent_colour=choose_batch_colour(batch.items))
    title = f"### {escape_line(batch.title.text, _ITEM_UNITS)}"
    said = escape_line(f"{told[:1].upper()}{told[1:]}", _ITEM_UNITS) if told else ""
    container.add_item(ui.TextDisplay("\n".join(filter(None, (title, said)))))
    for card, text in shown:
        container.add_item(ui.Separator())
        container.add_item(ui.TextDisplay(text))
        container.add_item(_build_item_row(card))
    hidden = batch.more + len(batch.items) - len(shown)
    if hidden:
        container.add_item(ui.TextDisplay(f"-# {hidden} more do not fit here: open each alone."))
    if len(shown) > 1:
        container.add_item(ui.Separator())
        every = _build_all_row(len(shown), button, key, approves=together, hidden=bool(hidden))
        container.add_item(every)
        if not together:
            text = "-# Not all may be approved at once: decide each by itself."
            container.add_item(ui.TextDisplay(text))
    return MessageContent(build_view(container))


def _draw_item(card: Card) -> tuple[str, bool]:
    """Return a request's head, what was found and exactly what runs, and whether it is whole."""
    blocks, whole = render_blocks(card, MOST_TEXT)
    facts = " · ".join(
        f"**{fact.label}** {escape_line(fact.text.text, _FACT_UNITS)}" for fact in named_facts(card)
    )
    above = choose_above(card)
    people = (("👥", card.progress), ("👀", card.claimed))
    parts = (
        render_head(card),
        render_above(card, above, _ITEM_UNITS),
        blocks,
        facts,
        render_risk(card, above, _ITEM_UNITS),
        render_findings(card, _ITEM_UNITS, above),
        "\n".join(f"⚠️ {notice}" for notice in list_notices(card)),
        *(
            f"{sign} {escape_with_mentions(text, _ITEM_UNITS, card.people)}"
            for sign, text in people
            if text
        ),
    )
    return "\n".join(filter(None, parts)), whole and card.complete


def _build_item_row(card: Card) -> ui.ActionRow[Any]:
    """Return the answers to one request: its approval where it takes one tap."""
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


def _build_all_row(
    count: int, base: DiscordButton, key: str, *, approves: bool, hidden: bool
) -> ui.ActionRow[Any]:
    """Return the buttons that answer all of a batch at once; not all may be approved so. With
    `hidden` there are others that are not shown."""
    row: ui.ActionRow[Any] = ui.ActionRow()
    every, none = base.with_verb(ALL, more=key), base.with_verb(NONE, more=key)
    if approves:
        row.add_item(_build_button(f"Approve all {count}", every, discord.ButtonStyle.success))
    label = f"Deny {'these' if hidden else 'all'} {count}"
    row.add_item(_build_button(label, none, discord.ButtonStyle.danger))
    return row


def _build_button(label: str, wanted: DiscordButton, style: discord.ButtonStyle) -> ui.Button[Any]:
    return ui.Button(label=label, style=style, custom_id=wanted.custom_id)


def _note(key: str) -> str:
    return f"batch {key}"


EVERYTHING = 10**9
BRIEF_LINES, BRIEF_CHARS = 10, 700


class FullViewPages:
    """Builds cards and full views of requests."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._batches = BatchMessages(desk)

    async def build_card(self, record: Record) -> Card:
        """Return the card at the size for channels."""
        card = await self._desk.requests.draw(record, PLATFORM, lines=CARD_LINES, chars=CARD_CHARS)
        leads = self._desk.address_of(record.id) if leads_to_inbox(card) else ""
        return replace(card, inbox=leads)

    async def build_whole_card(self, record: Record) -> Card:
        """Return the card without a size limit, and so with every control."""
        return await draw(partial(_build_card, record, EVERYTHING, EVERYTHING), *weight_of(record))

    async def build_brief_card(self, record: Record) -> Card:
        """Return the card with as much of what runs as a modal shows above its fields."""
        build = partial(_build_card, record, BRIEF_LINES, BRIEF_CHARS)
        return await draw(build, *weight_of(record))

    async def build_more(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Return what else may be done, if the person may decide the request."""
        record = await self.get_permitted(interaction, button.request_id)
        if record.final:
            raise Conflict("this was decided already; the card says how")
        if button.revision < record.shown_since:
            raise Conflict("the request has changed since you saw it; look at it again")
        identity = read_identity(interaction)
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written
        build = partial(_build_card, record, CARD_LINES, CARD_CHARS, reader)
        card = await draw(build, *weight_of(record))
        card = replace(card, inbox=self._desk.address_of(record.id))
        count = await self._batches.count(interaction, record.id)
        named = self.name_card(interaction, button)
        return InteractionReply(build_more_view(card, named, batch=count))

    async def get_permitted(self, interaction: discord.Interaction, request_id: str) -> Record:
        """Return a request, if the person may decide it. Raises NotFound, Unauthorized."""
        record = await self._desk.requests.get(request_id)
        await refuse_stranger(self._desk, interaction, record)
        return record

    def name_card(self, interaction: discord.Interaction, button: DiscordButton) -> DiscordButton:
        """Return the button for a private message, with the id of the card's message."""
        message = interaction.message
        if message is not None and not message.flags.ephemeral and button.copy:
            return replace(button, card=str(message.id))
        return button

    async def build_page(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Return the requested page, if the person may decide the request."""
        record = await self.get_permitted(interaction, button.request_id)
        message = interaction.message
        turning = message is not None and message.flags.ephemeral and button.more.isdecimal()
        button = self.name_card(interaction, button)
        page = int(button.more) - 1 if button.more.isdecimal() else 0
        return await self.build_full_view(record, interaction, button, page=page, replaces=turning)

    async def build_full_view(
        self,
        record: Record,
        interaction: discord.Interaction,
        button: DiscordButton,
        *,
        page: int = 0,
        replaces: bool = False,
    ) -> InteractionReply:
        """Return the full view of a record. The caller has checked the person's rights."""

        identity = read_identity(interaction)
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written

        def render() -> InteractionReply:
            view = pages_of(record, fits=page_fits)
            limit = interaction.filesize_limit
            card = _build_card(record, EVERYTHING, EVERYTHING, reader)
            card = replace(card, inbox=self._desk.address_of(record.id))
            return InteractionReply(
                build_full_view(card, view, button, page=page, limit=limit), replaces=replaces
            )

        return await draw(render, *weight_of(record))


def _build_card(record: Record, lines: int, chars: int, reader: str = "") -> Card:
    return card_of(record, lines=lines, chars=chars, reader=reader)
