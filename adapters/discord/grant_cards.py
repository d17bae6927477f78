"""The card of a remembered decision in Discord, and the kill switch."""

from __future__ import annotations

import hashlib
from typing import Any

import discord
from discord import ui

from adapters.discord.card_views import Shown
from adapters.discord.custom_ids import Button
from adapters.discord.identities import identity_of, refuse_unfit
from adapters.discord.markup import inert, named
from adapters.discord.posting import Posting
from adapters.discord.responses import Answer
from gateway.errors import Unauthorized
from gateway.ports import Desk, GrantCard, MessageRef, Notice

REVOKE, STOP, ALLOW = "revoke", "stop", "allow"
SWITCHES = (STOP, ALLOW)
NOBODYS = "0" * 32  # the kill switch is about no request
_LIVE, _ENDED = 0x5865F2, 0x8B949E
_NONCE = 22


class GrantPosts:
    """Delivers, updates and announces. Raises only what `gateway.ports.outgoing` names."""

    def __init__(self, posting: Posting) -> None:
        self._posting = posting

    async def deliver(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post a card; the same nonce within minutes is the same message."""
        return await self._posting.post(target, lambda silent: _view(card, nonce, silent), nonce)

    async def update(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Have a posted message show the card as it is now."""
        await self._posting.edit(ref, lambda silent: _view(card, nonce, silent), nonce)

    async def announce(self, notice: Notice, card: GrantCard) -> None:
        """Answer the card with what it says newly: edits ring no bell."""
        if notice.ref is None:
            return
        said = hashlib.sha256(f"{notice.nonce} {card.revision}".encode()).hexdigest()[:_NONCE]
        news = card.outcome or " ".join(card.notices)
        text = f"⏰ {card.icon} **{card.word}** · {inert(card.tool.text, 250)}: {named(news, 600)}"
        await self._posting.answer(notice.target, notice.ref, text, said)


def grant_view(card: GrantCard, copy: str) -> Shown:
    """Return the message of a card."""
    return _view(card, copy, False)


def _view(card: GrantCard, copy: str, silent: bool) -> Shown:
    facts = " · ".join(f"**{one.label}** {inert(one.text.text, 160)}" for one in card.facts)
    ends = f"until <t:{card.until // 1000}:f>" if card.until else "until revoked"
    head = [f"### {card.icon} {card.word} · {inert(card.tool.text, 120)}"]
    if card.outcome:
        at = f" <t:{card.ended_at // 1000}:f>" if card.ended_at else ""
        head.append(f"{named(card.outcome[:1].upper() + card.outcome[1:], 300)}{at}")
    covers = [] if silent else [f"**What it covers**\n> {inert(card.words.text, 900)}"]
    if card.asked is not None and not silent:
        covers.append(f"**Made from**\n> {inert(card.asked.text, 500)}")
    notices = [f"⚠️ {inert(notice, 300)}" for notice in card.notices]
    reach = [f"-# {inert(card.reach, 300)}"] if card.reach else []
    foot = f"-# {'over' if card.ended else ends} · {card.uses} · `{card.short_id}`"
    container: ui.Container[Any] = ui.Container(accent_colour=_ENDED if card.ended else _LIVE)
    for text in (*head, facts, *covers, *notices, *reach, foot):
        container.add_item(ui.TextDisplay(text))
    if card.confirm:
        press = Button(
            verb=REVOKE, request_id=card.grant_id, revision=card.revision, copy=copy
        ).custom_id
        style = discord.ButtonStyle.danger
        container.add_item(ui.ActionRow(ui.Button(label="Revoke", style=style, custom_id=press)))
    view = ui.LayoutView(timeout=None)
    view.add_item(container)
    view.stop()
    return Shown(view)


class Operating:
    """The kill switch; the core checks who may turn it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def switch(self, interaction: discord.Interaction) -> Answer:
        """Show an admin how the kill switch stands, with the button that turns it."""
        person = await self._desk.requests.person(identity_of(interaction))
        if person is None or not person.admin:
            raise Unauthorized("only an admin may use the kill switch")
        return Answer(_switch_view(await self._desk.operator.is_stopped()))

    async def pressed(self, interaction: discord.Interaction, button: Button) -> Answer:
        """Turn the kill switch."""
        await refuse_unfit(self._desk, interaction, button.request_id)
        on = button.verb == STOP
        await self._desk.operator.stop_all(identity_of(interaction), on=on)
        return Answer(_switch_view(on), replaces=True)


def _switch_view(on: bool) -> Shown:
    verb, label = (ALLOW, "Allow again") if on else (STOP, "Stop everything")
    style = discord.ButtonStyle.secondary if on else discord.ButtonStyle.danger
    said = (
        "🛑 **Everything is denied:** the kill switch is on."
        if on
        else "**The kill switch is off.** Stopping denies all that waits or is asked, for all "
        "agents, until an admin allows it again."
    )
    press = Button(verb=verb, request_id=NOBODYS, revision=0).custom_id
    view = ui.LayoutView(timeout=None)
    view.add_item(ui.TextDisplay(said))
    view.add_item(ui.ActionRow(ui.Button(label=label, style=style, custom_id=press)))
    view.stop()
    return Shown(view)
