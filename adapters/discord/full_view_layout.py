"""The layout of the full view: one page of all that would run, everything that its card says, and
the controls. Pure: no I/O.

A page is never cut to make room for what stands around it; that yields, by importance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from discord import ui

from adapters.discord.card_views import (
    BECAUSE_UNITS,
    CHANGED_BY_UNITS,
    CONFIRMED,
    FILE_NAME,
    LEAST,
    NUMBER,
    READ,
    SIGN_UNITS,
    STYLES,
    CardBudget,
    MessageContent,
    arrange_in_rows,
    build_remember_buttons,
    build_view,
    choose_colour,
    is_offered,
    label_inbox,
    leads_of,
    list_notices,
    render_because,
    render_changes,
    render_ended,
    render_facts,
    render_findings,
    render_head,
    render_statement,
    share_room,
)
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.markup import escape_line, escape_with_mentions, fence
from gateway.models import Action, RiskLevel
from gateway.ports import HIDDEN, NO_LINK, Card, FullView, say_no_link

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
