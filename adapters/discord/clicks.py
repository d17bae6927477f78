"""What people do in Discord: buttons, modals and menus, read raw, so that they survive restarts.

Who clicked, in which server, with which roles, is read from the interaction itself, at that moment.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiohttp
import discord

from adapters.discord.card_views import (
    CLAIM,
    CONFIRMED,
    READ,
    REMEMBER,
    UNCLAIM,
    card_view,
    outcome_view,
)
from adapters.discord.commands import OPEN, Commands
from adapters.discord.custom_ids import PLATFORM, Button, OldButton, read_button
from adapters.discord.forms import REASON, Unfit, content_of, modal_for, typed
from adapters.discord.full_view import Reading
from adapters.discord.grant_cards import REVOKE, SWITCHES, Operating, grant_view
from adapters.discord.identities import identity_of, refuse_unfit
from adapters.discord.remember import KEEP, Remembering, remember_of
from adapters.discord.responses import Answer, answered, private, refusal
from gateway.models import Action
from gateway.ports import Click, Desk, Field, MessageRef, Record

log = logging.getLogger("adapters.discord")

_MODAL_SECONDS = 1.5  # a modal must be the first answer: nothing may come before it
_OLD = (
    "This card was made by another version of the gateway. Use `/pending` to see what still waits."
)
_NOES = (Action.DENY, Action.ABORT)
_MODALS = {Action.DENY, Action.ABORT, Action.EDIT, Action.RESPOND, Action.ANSWER}


class Clicks:
    """Turns interactions into clicks at the desk, and what comes of them into answers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._reading = Reading(desk)
        self._remembering = Remembering(desk, self._reading)
        self._operating = Operating(desk)
        self._commands = Commands(desk, self._reading, self._remembering, self._operating)

    async def arrived(self, interaction: discord.Interaction) -> None:
        """Handle one interaction to its end. Nothing escapes: the client must go on."""
        try:
            await self._handle(interaction)
        except Exception:
            log.exception("interaction not answered", extra={"event": "interaction_failed"})

    async def _handle(self, interaction: discord.Interaction) -> None:
        match interaction.type:
            case discord.InteractionType.component:
                await self._component(interaction)
            case discord.InteractionType.modal_submit:
                await self._modal(interaction)
            case discord.InteractionType.application_command:
                await answered(interaction, self._commands.run(interaction))
            case discord.InteractionType.autocomplete:
                await self._commands.complete(interaction)

    async def _component(self, interaction: discord.Interaction) -> None:
        if interaction.custom_id == OPEN:
            await answered(interaction, self._commands.opened(interaction))
            return
        button = await self._button(interaction)
        if button is None:
            return
        if button.verb == READ:
            await answered(interaction, self._reading.page(interaction, button))
        elif button.verb in (CLAIM, UNCLAIM):
            await answered(interaction, self._claim(interaction, button))
        elif button.verb == Action.APPROVE:
            sure = {"confirmed": button.more == CONFIRMED}
            await answered(interaction, self._decide(interaction, button, Action.APPROVE, sure))
        elif button.verb == REMEMBER:
            await answered(interaction, self._remembering.offered(interaction, button))
        elif button.verb in (REVOKE, *SWITCHES):
            operating = self._revoke if button.verb == REVOKE else self._operating.pressed
            await answered(interaction, operating(interaction, button))
        elif button.verb in _MODALS or button.verb == KEEP:
            await self._open(interaction, button)

    async def _modal(self, interaction: discord.Interaction) -> None:
        button = await self._button(interaction)
        if button is None:
            return
        if button.verb in _MODALS:
            await answered(interaction, self._submitted(interaction, button))
        elif button.verb == KEEP:
            await answered(interaction, self._kept(interaction, button))

    async def _button(self, interaction: discord.Interaction) -> Button | None:
        """Return what was pressed; tells the person when it is of another version."""
        try:
            return read_button(interaction.custom_id or "")
        except OldButton:
            await answered(interaction, _said(_OLD))
            return None

    # --- deciding -------------------------------------------------------------------------------

    async def _open(self, interaction: discord.Interaction, button: Button) -> None:
        """Open the modal of an action; whoever may not decide is told so instead.

        When the store is slow, a denial is asked for all the same: it needs nothing from there,
        and is checked when it is submitted.
        """
        try:
            async with asyncio.timeout(_MODAL_SECONDS):
                record = await self._reading.permitted(interaction, button.request_id)
                modal = await self._modal_for(record, button)
        except Unfit as error:
            await answered(interaction, _said(str(error)))
            return
        except Exception as error:
            # Whatever it was, the person must hear that nothing came of it.
            if not isinstance(error, TimeoutError) or button.verb not in _NOES:
                await answered(interaction, _refused(error))
                return
            modal = modal_for(Action(button.verb), None, button)
        try:
            await interaction.response.send_modal(modal)
        except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
            log.info("modal not opened: %s", error, extra={"event": "answer_late"})

    async def _modal_for(self, record: Record, button: Button) -> discord.ui.Modal:
        if button.verb == KEEP:
            return await self._remembering.modal(record, button)
        return modal_for(Action(button.verb), await self._reading.whole(record), button)

    async def _submitted(self, interaction: discord.Interaction, button: Button) -> Answer:
        action = Action(button.verb)
        fields: tuple[Field, ...] = ()
        if action is Action.ANSWER:
            record = await self._desk.requests.get(button.request_id)
            fields = (await self._reading.whole(record)).fields
        content = content_of(action, interaction.data, fields)
        content["confirmed"] = content.get("confirmed", False) or button.more == CONFIRMED
        return await self._decide(interaction, button, action, content)

    async def _decide(
        self,
        interaction: discord.Interaction,
        button: Button,
        action: Action,
        content: dict[str, Any],
    ) -> Answer:
        record = await self._decided(interaction, button, action, content)
        return await self._shown(interaction, button, record)

    async def _kept(self, interaction: discord.Interaction, button: Button) -> Answer:
        """Decide, and have it remembered; either both or neither."""
        content = {
            "message": str(typed(interaction.data).get(REASON) or ""),
            "remember": remember_of(interaction.data),
        }
        record = await self._decided(interaction, button, Action(button.more), content)
        return Answer(await self._remembering.shown(record), replaces=True)

    async def _decided(
        self,
        interaction: discord.Interaction,
        button: Button,
        action: Action,
        content: dict[str, Any],
    ) -> Record:
        await refuse_unfit(self._desk, interaction, button.request_id)
        return await self._desk.requests.decide(
            Click(
                request_id=button.request_id,
                revision=button.revision,
                identity=identity_of(interaction),
                action=action,
                nonce=f"{PLATFORM} {interaction.id}",
                copy=button.copy or None,
                ref=ref_of(interaction, button),
                **content,
            )
        )

    async def _revoke(self, interaction: discord.Interaction, button: Button) -> Answer:
        """Take a remembered decision back; its card, if that was pressed, shows it at once."""
        if not button.copy:
            return await self._remembering.revoked(interaction, button.request_id)
        await refuse_unfit(self._desk, interaction, button.request_id)
        await self._desk.grants.revoke(
            button.request_id,
            identity_of(interaction),
            copy=button.copy,
            ref=ref_of(interaction, button),
        )
        card = await self._desk.grants.card(button.request_id)
        return Answer(grant_view(card, button.copy), replaces=True)

    async def _claim(self, interaction: discord.Interaction, button: Button) -> Answer:
        await refuse_unfit(self._desk, interaction, button.request_id)
        record = await self._desk.requests.claim(
            button.request_id, identity_of(interaction), on=button.verb == CLAIM
        )
        return await self._shown(interaction, button, record)

    async def _shown(
        self, interaction: discord.Interaction, button: Button, record: Record
    ) -> Answer:
        """Return the clicked message as it must look now. The other copies follow by themselves."""
        card = await self._reading.card(record)
        if _is_private(interaction):
            return Answer(outcome_view(card), replaces=True)
        return Answer(card_view(card, button.copy), replaces=True)


def ref_of(interaction: discord.Interaction, button: Button) -> MessageRef | None:
    """Return the posted copy that an interaction was made on, None where there is none.

    On a private view the button names the card's message; on any other the message itself counts,
    whatever a button says.
    """
    if not button.copy:
        return None
    message = interaction.message
    seen = button.card if _is_private(interaction) else str(message.id if message else "")
    return MessageRef(adapter=PLATFORM, channel=str(interaction.channel_id or ""), message=seen)


def _is_private(interaction: discord.Interaction) -> bool:
    return interaction.message is not None and interaction.message.flags.ephemeral


async def _said(text: str) -> Answer:
    return private(text)


async def _refused(error: Exception) -> Answer:
    return refusal(error)
