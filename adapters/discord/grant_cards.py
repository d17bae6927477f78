"""Cards of remembered decisions (grants), and the kill switch."""

from __future__ import annotations

import hashlib
from typing import Any

import discord
from discord import ui

from adapters.discord.card_views import MessageContent
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.identities import read_identity, refuse_unfit
from adapters.discord.markup import escape_line, escape_with_mentions
from adapters.discord.posting import Posting
from adapters.discord.responses import InteractionReply
from gateway.errors import Unauthorized
from gateway.ports import LIFT, Desk, GrantCard, KillSwitch, MessageRef, Notice, Urgency

REVOKE, STOP, ALLOW = "revoke", "stop", "allow"
SWITCHES = (STOP, ALLOW)
NO_REQUEST = "0" * 32  # the kill switch belongs to no request
_LIVE, _ENDED = 0x5865F2, 0x8B949E
_NONCE = 22


class DiscordGrantPosting:
    """Posts and edits grant cards. Raises only errors that `gateway.ports.outgoing` names."""

    def __init__(self, posting: Posting) -> None:
        self._posting = posting

    async def deliver(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post a card. Repeated with the same nonce within minutes, it posts nothing new."""
        return await self._posting.post(
            target, lambda silent: _build_view(card, nonce, silent), nonce
        )

    async def update(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Edit a posted card."""
        rank = (Urgency.ENDED if card.ended else Urgency.OTHER).rank(card.ended_at or 0)
        await self._posting.edit(
            ref, lambda silent: _build_view(card, nonce, silent), nonce, rank=rank
        )

    async def announce(self, notice: Notice, card: GrantCard) -> None:
        """Reply to the card with its news, because edits notify nobody."""
        if notice.ref is None:
            return
        said = hashlib.sha256(f"{notice.nonce} {card.revision}".encode()).hexdigest()[:_NONCE]
        news = card.outcome or " ".join(card.notices)
        title = f"⏰ {card.icon} **{card.word}** · {escape_line(card.tool.text, 250)}"
        text = f"{title}: {escape_with_mentions(news, 600, card.people)}"
        await self._posting.answer(notice.target, notice.ref, text, said)


def build_grant_view(card: GrantCard, copy: str) -> MessageContent:
    """Return the message of a card."""
    return _build_view(card, copy, False)


def _build_view(card: GrantCard, copy: str, silent: bool) -> MessageContent:
    facts = " · ".join(f"**{one.label}** {escape_line(one.text.text, 160)}" for one in card.facts)
    ends = f"until <t:{card.until // 1000}:f>" if card.until else "until revoked"
    head = [f"### {card.icon} {card.word} · {escape_line(card.tool.text, 120)}"]
    if card.outcome:
        at = f", <t:{card.ended_at // 1000}:f>" if card.ended_at else ""
        said = card.outcome[:1].upper() + card.outcome[1:]
        head.append(f"{escape_with_mentions(said, 300, card.people)}{at}")
    covers = [] if silent else [f"**What it covers**\n> {escape_line(card.words.text, 900)}"]
    if card.asked is not None and not silent:
        covers.append(f"**Made from**\n> {escape_line(card.asked.text, 500)}")
    notices = [f"⚠️ {escape_line(notice, 300)}" for notice in card.notices]
    reach = [f"-# {escape_line(card.reach, 300)}"] if card.reach else []
    foot = f"-# {'over' if card.ended else ends} · {card.uses} · `{card.short_id}`"
    container: ui.Container[Any] = ui.Container(accent_colour=_ENDED if card.ended else _LIVE)
    for text in (*head, facts, *covers, *notices, *reach, foot):
        container.add_item(ui.TextDisplay(text))
    if card.confirm:
        press = DiscordButton(
            verb=REVOKE, request_id=card.grant_id, revision=card.revision, copy=copy
        ).custom_id
        style = discord.ButtonStyle.danger
        container.add_item(ui.ActionRow(ui.Button(label="Revoke", style=style, custom_id=press)))
    view = ui.LayoutView(timeout=None)
    view.add_item(container)
    view.stop()
    return MessageContent(view)


class KillSwitchActions:
    """The kill switch; the core checks who may use it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show_state(self, interaction: discord.Interaction) -> InteractionReply:
        """Show an admin the state of the kill switch, with a button to change it."""
        person = await self._desk.requests.person(read_identity(interaction))
        if person is None or not person.admin:
            raise Unauthorized("only an admin may use the kill switch")
        return InteractionReply(build_switch_view(await self._desk.operator.kill_switch()))

    async def turn(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Turn the kill switch on or off."""
        await refuse_unfit(self._desk, interaction, button.request_id)
        on = button.verb == STOP
        await self._desk.operator.stop_all(read_identity(interaction), on=on)
        switch = await self._desk.operator.kill_switch()
        return InteractionReply(build_switch_view(switch), replaces=True)


def build_switch_view(switch: KillSwitch) -> MessageContent:
    """Return the state of the kill switch, with the button to change it."""
    on = switch.on
    verb, label = (ALLOW, "Let agents ask again") if on else (STOP, "Stop everything")
    style = discord.ButtonStyle.secondary if on else discord.ButtonStyle.danger
    said = (
        f"🛑 {escape_line(switch.state, 300)}\n*Let agents ask again*: {LIFT}"
        if on
        else f"**The kill switch is off.** *Stop everything*: {switch.stopping}"
    )
    press = DiscordButton(verb=verb, request_id=NO_REQUEST, revision=0).custom_id
    view = ui.LayoutView(timeout=None)
    view.add_item(ui.TextDisplay(said))
    view.add_item(ui.ActionRow(ui.Button(label=label, style=style, custom_id=press)))
    view.stop()
    return MessageContent(view)
