"""What people do in Discord: buttons, modals and menus, read raw, so that they survive restarts.

Who clicked, in which server, with which roles, is read from the interaction itself, at that moment.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiohttp
import discord

from adapters.discord.answers import Answer, answered, private, refusal
from adapters.discord.commands import OPEN, Commands
from adapters.discord.forms import Unfit, content_of, modal_for
from adapters.discord.ids import PLATFORM, Button, OldButton, read_button
from adapters.discord.people import identity_of, unfit_to_decide
from adapters.discord.reading import Reading
from adapters.discord.views import CLAIM, CONFIRMED, READ, UNCLAIM, card_view, outcome_view
from gateway.cards import Field
from gateway.errors import Unauthorized
from gateway.models import Action
from gateway.ports import Desk
from gateway.records import Click, MessageRef, Record

log = logging.getLogger("adapters.discord")

_MODAL_SECONDS = 1.5  # a modal must be the first answer: nothing may come before it
_OLD = (
    "This card was made by another version of the gateway. Use `/pending` to see what still waits."
)
_MODALS = {Action.DENY, Action.ABORT, Action.EDIT, Action.RESPOND, Action.ANSWER}


class Clicks:
    """Turns interactions into clicks at the desk, and what comes of them into answers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._reading = Reading(desk)
        self._commands = Commands(desk, self._reading)

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
        elif button.verb in _MODALS:
            await self._open(interaction, button, Action(button.verb))

    async def _modal(self, interaction: discord.Interaction) -> None:
        button = await self._button(interaction)
        if button is not None and button.verb in _MODALS:
            await answered(interaction, self._submitted(interaction, button))

    async def _button(self, interaction: discord.Interaction) -> Button | None:
        """Return what was pressed; tells the person when it is of another version."""
        try:
            return read_button(interaction.custom_id or "")
        except OldButton:
            await answered(interaction, _said(_OLD))
            return None

    # --- deciding -------------------------------------------------------------------------------

    async def _open(self, interaction: discord.Interaction, button: Button, action: Action) -> None:
        """Open the modal of an action; whoever may not decide is told so instead.

        When the store is slow, a denial is asked for all the same: it needs nothing from there,
        and is checked when it is submitted.
        """
        try:
            async with asyncio.timeout(_MODAL_SECONDS):
                record = await self._desk.get(button.request_id)
                await self._may(interaction, record)
                card = self._reading.whole(record)
            modal = modal_for(action, card, button)
        except Unfit as error:
            await answered(interaction, _said(str(error)))
            return
        except Exception as error:
            if action not in (Action.DENY, Action.ABORT) or not isinstance(error, TimeoutError):
                await answered(interaction, _refused(error))
                return
            modal = modal_for(action, None, button)
        try:
            await interaction.response.send_modal(modal)
        except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
            log.info("modal not opened: %s", error, extra={"event": "answer_late"})

    async def _submitted(self, interaction: discord.Interaction, button: Button) -> Answer:
        action = Action(button.verb)
        fields: tuple[Field, ...] = ()
        if action is Action.ANSWER:
            record = await self._desk.get(button.request_id)
            fields = self._reading.whole(record).fields
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
        identity = identity_of(interaction)
        await self._fit(interaction, button.request_id)
        record = await self._desk.decide(
            Click(
                request_id=button.request_id,
                revision=button.revision,
                identity=identity,
                action=action,
                nonce=f"{PLATFORM} {interaction.id}",
                copy=button.copy or None,
                ref=ref_of(interaction, button),
                **content,
            )
        )
        return self._shown(interaction, button, record)

    async def _claim(self, interaction: discord.Interaction, button: Button) -> Answer:
        await self._fit(interaction, button.request_id)
        record = await self._desk.claim(
            button.request_id, identity_of(interaction), on=button.verb == CLAIM
        )
        return self._shown(interaction, button, record)

    def _shown(self, interaction: discord.Interaction, button: Button, record: Record) -> Answer:
        """Return the clicked message as it must look now. The other copies follow by themselves."""
        card = self._reading.card(record)
        if _is_private(interaction):
            return Answer(outcome_view(card), replaces=True)
        return Answer(card_view(card, button.copy), replaces=True)

    # --- who ------------------------------------------------------------------------------------

    async def _fit(self, interaction: discord.Interaction, request_id: str) -> None:
        """Refuse what Discord itself tells against the person. Raises Unauthorized."""
        why = unfit_to_decide(interaction)
        if why is not None:
            await self._desk.refuse(request_id, identity_of(interaction), why)
            raise Unauthorized(why)

    async def _may(self, interaction: discord.Interaction, record: Record) -> None:
        await self._fit(interaction, record.id)
        identity = identity_of(interaction)
        why = await self._desk.may_decide(identity, record)
        if why is not None:
            await self._desk.refuse(record.id, identity, why)
            raise Unauthorized(why)


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
