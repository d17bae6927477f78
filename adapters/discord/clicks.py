"""Handling of interactions: buttons, modals, menus and commands.

They are read from the raw payload, so they work after a restart. The person, server and roles come
from each interaction itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import aiohttp
import discord

from adapters.discord.cards import (
    BATCH,
    BECAUSE,
    CLAIM,
    CONFIRMED,
    MORE,
    NUMBER,
    READ,
    REMEMBER,
    UNCLAIM,
    build_card_view,
    build_outcome_view,
    render_about,
)
from adapters.discord.commands import OPEN, DiscordCommands
from adapters.discord.custom_ids import PLATFORM, DiscordButton, OldButton, read_button
from adapters.discord.edits import (
    APPLY,
    REASON,
    TYPED,
    EditMessages,
    Unfit,
    build_changes,
    build_modal,
    build_number_modal,
    build_refused_edit,
    is_sure,
    read_content,
    read_values,
)
from adapters.discord.full_view import ALL, IN_BATCH, NONE, BatchMessages, FullViewPages
from adapters.discord.grants import (
    KEEP,
    REVOKE,
    SWITCHES,
    KillSwitchActions,
    RememberDialog,
    build_grant_view,
    read_remember,
    read_way,
)
from adapters.discord.interactions import (
    InteractionReply,
    build_private_reply,
    build_refusal,
    read_identity,
    refuse_unfit,
    respond,
)
from gateway.cards.card import Card, Control, Field
from gateway.cards.words import DENIALS
from gateway.errors import (
    Conflict,
    GatewayError,
    InvalidRequest,
    StepUpNeeded,
    Unconfirmed,
    WrongNumber,
)
from gateway.models import Action
from gateway.ports import Click, Desk, MessageRef, Record

log = logging.getLogger("adapters.discord")

_MODAL_SECONDS = 1.5  # Discord accepts a modal as the first response only
_OLD = (
    "This card was made by another version of the gateway. Use `/pending` to see what still waits."
)
_NOES = (Action.DENY, Action.ABORT)
_MODALS = {Action.DENY, Action.ABORT, Action.EDIT, Action.RESPOND, Action.ANSWER}


class InteractionHandler:
    """Turns interactions into calls to the core, and their results into replies."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._reading = FullViewPages(desk)
        self._edits = EditMessages(desk)
        self._batches = BatchMessages(desk)
        self._remembering = RememberDialog(desk, self._reading)
        self._operating = KillSwitchActions(desk)
        self._commands = DiscordCommands(desk, self._reading, self._remembering, self._operating)

    async def handle(self, interaction: discord.Interaction) -> None:
        """Handle one interaction. Never raises: the client must go on."""
        try:
            await self._dispatch(interaction)
        except Exception:
            log.exception("interaction not answered", extra={"event": "interaction_failed"})

    async def _dispatch(self, interaction: discord.Interaction) -> None:
        match interaction.type:
            case discord.InteractionType.component:
                await self._handle_component(interaction)
            case discord.InteractionType.modal_submit:
                await self._handle_modal(interaction)
            case discord.InteractionType.application_command:
                await respond(interaction, self._commands.run(interaction))
            case discord.InteractionType.autocomplete:
                await self._commands.complete(interaction)

    async def _handle_component(self, interaction: discord.Interaction) -> None:
        if interaction.custom_id == OPEN:
            await respond(interaction, self._commands.open_selected(interaction))
            return
        button = await self._read_button(interaction)
        if button is None:
            return
        doing = {
            MORE: self._reading.build_more,
            BECAUSE: self._deny_because,
            CLAIM: self._claim,
            UNCLAIM: self._claim,
            APPLY: self._apply_changes,
            BATCH: self._show_batch,
            ALL: self._decide_batch,
            NONE: self._decide_batch,
            Action.APPROVE.value: self._approve,
        }
        if button.verb in doing:
            await self._answer(interaction, button, doing[button.verb](interaction, button))
        elif button.verb == READ:
            await respond(interaction, self._reading.build_page(interaction, button))
        elif button.verb == REMEMBER:
            await respond(interaction, self._remembering.show_options(interaction, button))
        elif button.verb in (REVOKE, *SWITCHES):
            operating = self._revoke if button.verb == REVOKE else self._operating.turn
            await respond(interaction, operating(interaction, button))
        elif button.verb in _MODALS or button.verb in (KEEP, NUMBER):
            await self._open_modal(interaction, button)

    async def _handle_modal(self, interaction: discord.Interaction) -> None:
        button = await self._read_button(interaction)
        if button is None:
            return
        if button.verb == Action.EDIT:
            await self._answer(interaction, button, self._show_changes(interaction, button))
        elif button.verb in _MODALS:
            await self._answer(interaction, button, self._submit(interaction, button))
        elif button.verb == NUMBER:
            await self._answer(interaction, button, self._submit_number(interaction, button))
        elif button.verb == KEEP:
            await respond(interaction, self._decide_and_remember(interaction, button))

    async def _answer(
        self,
        interaction: discord.Interaction,
        button: DiscordButton,
        work: Coroutine[Any, Any, InteractionReply],
    ) -> None:
        """Reply with what the work made; who was too late gets the word and the card as it is."""

        async def answer() -> InteractionReply:
            try:
                return await work
            except WrongNumber:
                raise
            except StepUpNeeded as needed:
                who = read_identity(interaction)
                where = await self._desk.lead_to(button.request_id, who)
                return build_private_reply(f"It takes a step-up: {needed}.", where)
            except Conflict as late:
                return await self._repair(interaction, button, late)

        await respond(interaction, answer())

    async def _repair(
        self, interaction: discord.Interaction, button: DiscordButton, late: Conflict
    ) -> InteractionReply:
        """Return the clicked card as it stands, with why the tap was refused as a private word."""
        refusal = build_refusal(late)
        if not button.copy or _is_private(interaction) or interaction.message is None:
            return refusal
        try:
            record = await self._desk.requests.get(button.request_id)
        except GatewayError:
            return refusal
        shown = await self._build_updated_message(interaction, button, record)
        return replace(shown, word=refusal.shown)

    async def _read_button(self, interaction: discord.Interaction) -> DiscordButton | None:
        """Return the pressed button; reply privately when it is of another version."""
        try:
            return read_button(interaction.custom_id or "")
        except OldButton:
            await respond(interaction, _reply_privately(_OLD))
            return None

    # --- deciding -------------------------------------------------------------------------------

    async def _open_modal(self, interaction: discord.Interaction, button: DiscordButton) -> None:
        """Open the modal of an action, or reply why the person may not decide.

        When the store is slow, the modal of a denial opens anyway: it needs no data, and rights are
        checked on submission.
        """
        try:
            async with asyncio.timeout(_MODAL_SECONDS):
                record = await self._reading.get_permitted(interaction, button.request_id)
                if record.final:
                    raise Conflict("this was decided already; the card says how")
                modal = await self._build_modal(interaction, record, button)
        except Unfit as error:
            where = self._desk.address_of(button.request_id)
            await respond(interaction, _reply_privately(str(error), where))
            return
        except Exception as error:
            # Whatever it was, the person must learn that it failed.
            if not isinstance(error, TimeoutError) or button.verb not in _NOES:
                await self._answer(interaction, button, _raise(error))
                return
            modal = build_modal(Action(button.verb), None, button)
        try:
            await interaction.response.send_modal(modal)
        except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
            log.info("modal not opened: %s", error, extra={"event": "answer_late"})

    async def _build_modal(
        self, interaction: discord.Interaction, record: Record, button: DiscordButton
    ) -> discord.ui.Modal:
        if button.verb == KEEP:
            return await self._remembering.build_modal(interaction, record, button)
        card = await self._reading.build_whole_card(record)
        if button.verb == Action.EDIT:
            button = self._reading.name_card(interaction, button)
            return await self._edits.build_modal(record, card, button)
        about = render_about(await self._reading.build_brief_card(record))
        if button.verb == NUMBER:
            return build_number_modal(_find_numbered(card), button, about=about)
        return build_modal(Action(button.verb), card, button, about=about)

    async def _approve(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        sure = {"confirmed": button.more == CONFIRMED}
        return await self._decide(interaction, button, Action.APPROVE, sure)

    async def _show_batch(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Return all that waits with a request, in place of the private message that is open."""
        await refuse_unfit(self._desk, interaction, button.request_id)
        private = _is_private(interaction)
        return InteractionReply(await self._batches.build(interaction, button), replaces=private)

    async def _decide_batch(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        await refuse_unfit(self._desk, interaction, button.request_id)
        told = await self._batches.decide(interaction, button)
        shown = await self._batches.build(interaction, button, told)
        return InteractionReply(shown, replaces=True)

    async def _show_changes(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Return what an edit changes, if the person may decide. Nothing is decided yet."""
        record = await self._reading.get_permitted(interaction, button.request_id)
        if record.final:
            raise Conflict("this was decided already; the card says how")
        if button.revision < record.shown_since:
            raise Conflict("the request has changed since you saw it; look at it again")
        button = self._reading.name_card(interaction, button)
        return InteractionReply(await self._edits.show_changes(record, button, interaction))

    async def _apply_changes(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Approve with the changes that were shown. What is refused is kept, to be edited again."""
        record = await self._desk.requests.get(button.request_id)
        arguments = await self._edits.read_arguments(record, button)
        content = {"arguments": arguments, "confirmed": is_sure(button)}
        try:
            return await self._decide(interaction, button, Action.EDIT, content)
        except StepUpNeeded:
            raise
        except Unconfirmed:
            shown = build_changes(record, button, button.more, arguments, high=True)
        except InvalidRequest as refused:
            shown = build_refused_edit(button, button.more, str(refused))
        return InteractionReply(shown, replaces=True)

    async def _deny_because(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Deny with the reason that was tapped."""
        if button.more not in map(str, range(len(DENIALS))):
            raise InvalidRequest("this is no reason that is offered")
        said = {"message": DENIALS[int(button.more)]}
        return await self._decide(interaction, button, Action.DENY, said)

    async def _submit(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        action = Action(button.verb)
        fields: tuple[Field, ...] = ()
        if action is Action.ANSWER:
            record = await self._desk.requests.get(button.request_id)
            fields = (await self._reading.build_whole_card(record)).fields
        content = read_content(action, interaction.data, fields)
        content["confirmed"] = content.get("confirmed", False) or button.more == CONFIRMED
        return await self._decide(interaction, button, action, content)

    async def _submit_number(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Approve what was read, with the number that was typed."""
        typed = str(read_values(interaction.data).get(TYPED) or "").strip()
        content = {"number": typed, "confirmed": True}
        return await self._decide(interaction, button, Action.APPROVE, content)

    async def _decide(
        self,
        interaction: discord.Interaction,
        button: DiscordButton,
        action: Action,
        content: dict[str, Any],
    ) -> InteractionReply:
        record = await self._apply_decision(interaction, button, action, content)
        return await self._build_updated_message(interaction, button, record)

    async def _decide_and_remember(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Decide and remember in one step; both happen or neither."""
        content = {
            "message": str(read_values(interaction.data).get(REASON) or ""),
            "remember": read_remember(interaction.data),
        }
        record = await self._apply_decision(interaction, button, read_way(button), content)
        return InteractionReply(await self._remembering.build_outcome(record), replaces=True)

    async def _apply_decision(
        self,
        interaction: discord.Interaction,
        button: DiscordButton,
        action: Action,
        content: dict[str, Any],
    ) -> Record:
        await refuse_unfit(self._desk, interaction, button.request_id)
        return await self._desk.requests.decide(
            Click(
                request_id=button.request_id,
                revision=button.revision,
                identity=read_identity(interaction),
                action=action,
                nonce=f"{PLATFORM} {interaction.id}",
                copy=button.copy or None,
                ref=read_ref(interaction, button),
                **content,
            )
        )

    async def _revoke(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Revoke a grant, and update its card if the button was on it."""
        if not button.copy:
            return await self._remembering.revoke(interaction, button.request_id)
        await refuse_unfit(self._desk, interaction, button.request_id)
        await self._desk.grants.revoke(
            button.request_id,
            read_identity(interaction),
            copy=button.copy,
            ref=read_ref(interaction, button),
        )
        card = await self._desk.grants.card(button.request_id)
        return InteractionReply(build_grant_view(card, button.copy), replaces=True)

    async def _claim(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        await refuse_unfit(self._desk, interaction, button.request_id)
        record = await self._desk.requests.claim(
            button.request_id, read_identity(interaction), on=button.verb == CLAIM
        )
        return await self._build_updated_message(interaction, button, record)

    async def _build_updated_message(
        self, interaction: discord.Interaction, button: DiscordButton, record: Record
    ) -> InteractionReply:
        """Return the clicked message in its new state. The worker updates the other copies."""
        card = await self._reading.build_card(record)
        if _is_private(interaction) and button.more == IN_BATCH:
            told = card.ending.text if card.ending else card.progress
            return InteractionReply(
                await self._batches.build(interaction, button, told), replaces=True
            )
        if _is_private(interaction):
            return InteractionReply(build_outcome_view(card), replaces=True)
        return InteractionReply(build_card_view(card, button.copy), replaces=True)


def _find_numbered(card: Card) -> Control:
    for control in card.controls:
        if control.action is Action.APPROVE and control.number:
            return control
    raise InvalidRequest("this takes no number; look at it again")


def read_ref(interaction: discord.Interaction, button: DiscordButton) -> MessageRef | None:
    """Return the posted copy that an interaction belongs to, None where there is none.

    In a private message the button names the card's message. Elsewhere the clicked message itself
    counts, whatever the button says.
    """
    if not button.copy:
        return None
    message = interaction.message
    seen = button.card if _is_private(interaction) else str(message.id if message else "")
    return MessageRef(adapter=PLATFORM, channel=str(interaction.channel_id or ""), message=seen)


def _is_private(interaction: discord.Interaction) -> bool:
    return interaction.message is not None and interaction.message.flags.ephemeral


async def _reply_privately(text: str, inbox: str | None = None) -> InteractionReply:
    return build_private_reply(text, inbox)


async def _raise(error: Exception) -> InteractionReply:
    raise error
