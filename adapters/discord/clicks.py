"""Handle interactions with buttons, modals, menus and commands; start with InteractionHandler.

The handler reads the raw payload, so old buttons work after a restart. The person, server and roles
come from each interaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

import aiohttp
import discord

from adapters.discord.cards import (
    BATCH,
    BECAUSE,
    CARD_CHARS,
    CARD_LINES,
    CLAIM,
    CONFIRMED,
    MORE,
    NUMBER,
    READ,
    REMEMBER,
    UNCLAIM,
    build_card_view,
    build_more_view,
    build_outcome_view,
    render_about,
)
from adapters.discord.commands import MENUS, DiscordCommands
from adapters.discord.custom_ids import PLATFORM, OldButton, read_button
from adapters.discord.edits import (
    APPLY,
    KEPT,
    SURE,
    TYPED,
    Unfit,
    build_edit_modal,
    build_edit_state,
    build_modal,
    build_number_modal,
    read_content,
    read_typed,
    read_values,
)
from adapters.discord.full_view import (
    ALL,
    BATCH_CHARS,
    IN_BATCH,
    NONE,
    build_batch,
    keep_drawn,
    show_page,
)
from adapters.discord.grants import (
    DECLINE,
    KEEP,
    REVOKE,
    STOP,
    SWITCHES,
    RememberDialog,
    build_grant_view,
    build_switch_view,
)
from adapters.discord.interactions import (
    DiscordTap,
    InteractionReply,
    build_private_reply,
    build_refusal,
    refuse_unfit,
    respond,
)
from gateway.cards.card import Field
from gateway.chat.answering import (
    Answering,
    Edits,
    find_numbered,
    find_reason,
    read_denial,
)
from gateway.chat.lists_and_batches import NONE_WAITS, ChatBatches
from gateway.errors import Conflict, GatewayError, StepUpNeeded, WrongNumber
from gateway.models import Action
from gateway.ports import AdapterApi, StoredRequest

log = logging.getLogger("adapters.discord")

_MODAL_SECONDS = 1.5  # Discord accepts a modal as the first response only
_OLD = (
    "Another version of the gateway made this card. Use `/pending` to list your pending requests."
)
_NOES = (Action.DENY, Action.ABORT)
_ANSWERS = (*_NOES, Action.RESPOND, Action.ANSWER)
_MODALS = (*_ANSWERS, Action.EDIT, KEEP, NUMBER)
_OF_BATCH = {ALL: Action.APPROVE, NONE: Action.DENY}

_Work = Callable[[DiscordTap], Awaitable[InteractionReply]]


class InteractionHandler:
    """Turns interactions into calls to the core, and the results into replies."""

    def __init__(self, api: AdapterApi) -> None:
        self._api = api
        self._answering = Answering(api, PLATFORM, lines=CARD_LINES, chars=CARD_CHARS)
        self._edits = Edits(api, self._answering)
        self._batches = ChatBatches(api, chars=BATCH_CHARS, each=CARD_CHARS)
        self._remembering = RememberDialog(api, self._answering)
        self._commands = DiscordCommands(api, self._answering, self._remembering)
        self._pressed: dict[str, _Work] = {
            MORE: self._show_more,
            BECAUSE: self._deny_because,
            APPLY: self._apply_changes,
            Action.APPROVE.value: self._approve,
            READ: self._show_page,
            REMEMBER: self._remembering.show_options,
            REVOKE: self._revoke,
            DECLINE: self._remembering.decline,
            **dict.fromkeys((CLAIM, UNCLAIM), self._claim),
            **dict.fromkeys((BATCH, ALL, NONE), self._show_batch),
            **dict.fromkeys(SWITCHES, self._turn_switch),
        }
        self._submitted: dict[str, _Work] = {
            Action.EDIT.value: self._show_changes,
            NUMBER: self._submit_number,
            KEEP: self._decide_and_remember,
            **{one.value: self._submit for one in _ANSWERS},
        }

    async def handle(self, interaction: discord.Interaction) -> None:
        """Handle one interaction. Never raises: an error must not stop the client."""
        try:
            await self._dispatch(interaction)
        except Exception:
            log.exception(
                "could not respond to an interaction", extra={"event": "interaction_failed"}
            )

    async def _dispatch(self, interaction: discord.Interaction) -> None:
        match interaction.type:
            case discord.InteractionType.component if interaction.custom_id in MENUS:
                await respond(interaction, self._commands.choose(interaction))
            case discord.InteractionType.component:
                await self._handle(interaction, self._pressed)
            case discord.InteractionType.modal_submit:
                await self._handle(interaction, self._submitted)
            case discord.InteractionType.application_command:
                await respond(interaction, self._commands.run(interaction))
            case discord.InteractionType.autocomplete:
                await self._commands.complete(interaction)

    async def _handle(self, interaction: discord.Interaction, doing: dict[str, _Work]) -> None:
        """Run the work of a button or modal. A button of another version gets a private reply."""
        try:
            button = read_button(interaction.custom_id or "")
        except OldButton:
            await respond(interaction, _reply_privately(_OLD))
            return
        if button is None:
            return
        tap = DiscordTap(interaction, button)
        if work := doing.get(button.verb):
            await self._answer(tap, work)
        elif doing is self._pressed and button.verb in _MODALS:
            await self._open_modal(tap)

    async def _answer(self, tap: DiscordTap, work: _Work, *, checked: bool = False) -> None:
        """Do the work and reply with its result. A late click gets the current card and the reason.
        With `checked`, the caller has already refused bots and timed-out members."""

        async def answer() -> InteractionReply:
            try:
                if not checked:
                    await refuse_unfit(self._api, tap.interaction, tap.button.request_id)
                return await work(tap)
            except WrongNumber:
                raise
            except StepUpNeeded as needed:
                where = await self._api.lead_to(tap.button.request_id, tap.identity)
                return build_private_reply(f"Extra verification needed: {needed}.", where)
            except Conflict as late:
                return await self._repair(tap, late)

        await respond(tap.interaction, answer())

    async def _repair(self, tap: DiscordTap, late: Conflict) -> InteractionReply:
        """Return the current state of the clicked card, and privately why the click was refused."""
        refusal = build_refusal(late)
        if not tap.button.copy or tap.private or tap.interaction.message is None:
            return refusal
        try:
            record = await self._api.requests.get(tap.button.request_id)
        except GatewayError:
            return refusal
        return replace(await self._update(tap, record), word=refusal.shown)

    async def _update(self, tap: DiscordTap, record: StoredRequest) -> InteractionReply:
        """Return the new content of the clicked message. The worker updates the other messages."""
        card = await self._answering.build_posted(record)
        if tap.private and tap.button.more == IN_BATCH:
            return await self._build_batch(tap, card.ending.text if card.ending else card.progress)
        if tap.private:
            return InteractionReply(build_outcome_view(card), replaces=True)
        return InteractionReply(build_card_view(card, tap.button.copy), replaces=True)

    # --- modals -----------------------------------------------------------------------------------

    async def _open_modal(self, tap: DiscordTap) -> None:
        """Open the modal of an action, or reply why the person may not decide.

        If the store is slow, the modal of a denial opens anyway. It needs no data, and the core
        checks rights on submission.
        """
        interaction, button = tap.interaction, tap.button
        try:
            async with asyncio.timeout(_MODAL_SECONDS):
                await refuse_unfit(self._api, interaction, button.request_id)
                record = await self._answering.get_open(tap.press)
                modal = await self._build_modal(tap, record)
        except Unfit as error:
            where = self._api.address_of(button.request_id)
            await respond(interaction, _reply_privately(str(error), where))
            return
        except Exception as error:
            # The person must learn of every failure.
            failure = error
            if not isinstance(error, TimeoutError) or button.verb not in _NOES:

                async def fail(_: DiscordTap) -> InteractionReply:
                    raise failure

                await self._answer(tap, fail, checked=True)
                return
            modal = build_modal(Action(button.verb), None, button)
        try:
            await interaction.response.send_modal(modal)
        except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
            log.info("could not open a modal: %s", error, extra={"event": "answer_late"})

    async def _build_modal(self, tap: DiscordTap, record: StoredRequest) -> discord.ui.Modal:
        button = tap.button
        if button.verb == KEEP:
            return await self._remembering.build_modal(tap, record)
        card = await self._answering.build_for_form(record)
        if button.verb == Action.EDIT:
            key = button.more.removeprefix(KEPT)
            typed = await self._edits.read_kept(key) if button.more.startswith(KEPT) else {}
            return build_edit_modal(record, card, tap.named, typed)
        about = render_about(card)
        if button.verb == NUMBER:
            return build_number_modal(find_numbered(card), button, record.guesses, about=about)
        return build_modal(Action(button.verb), card, button, about=about)

    async def _submit(self, tap: DiscordTap) -> InteractionReply:
        action = Action(tap.button.verb)
        fields: tuple[Field, ...] = ()
        if action is Action.ANSWER:
            record = await self._api.requests.get(tap.button.request_id)
            fields = (await self._answering.build_whole(record)).fields
        content = read_content(action, tap.interaction.data, fields)
        return await self._decide(tap, action, confirmed=tap.button.more == CONFIRMED, **content)

    async def _submit_number(self, tap: DiscordTap) -> InteractionReply:
        """Approve the request with the verification code that was typed."""
        typed = str(read_values(tap.interaction.data).get(TYPED) or "").strip()
        return await self._decide(tap, Action.APPROVE, number=typed, confirmed=True)

    # --- deciding ---------------------------------------------------------------------------------

    async def _decide(self, tap: DiscordTap, action: Action, **content: object) -> InteractionReply:
        record = await self._answering.decide(tap.press, action, **content)
        return await self._update(tap, record)

    async def _approve(self, tap: DiscordTap) -> InteractionReply:
        sure = tap.button.more == CONFIRMED
        record = await self._answering.decide(tap.press, Action.APPROVE, confirmed=sure)
        shown = await self._update(tap, record)
        return replace(shown, later=self._remembering.suggest(tap, record))

    async def _deny_because(self, tap: DiscordTap) -> InteractionReply:
        """Deny with the reason on the pressed button."""
        said = read_denial(tapped=find_reason(tap.button.more))
        return await self._decide(tap, Action.DENY, **said)

    async def _claim(self, tap: DiscordTap) -> InteractionReply:
        record = await self._answering.claim(tap.press, on=tap.button.verb == CLAIM)
        return await self._update(tap, record)

    async def _decide_and_remember(self, tap: DiscordTap) -> InteractionReply:
        """Decide the request and create a grant, as one atomic step."""
        action, content = self._remembering.read_answer(tap)
        record = await self._answering.decide(tap.press, action, **content)
        return InteractionReply(await self._remembering.build_outcome(record), replaces=True)

    async def _show_changes(self, tap: DiscordTap) -> InteractionReply:
        """Return the changes of an edit, if the person may decide. This decides nothing yet."""
        record = await self._answering.get_open(tap.press)
        typed = read_typed(record, tap.button, tap.interaction.data)
        state = await self._edits.show(record, typed, tap.key)
        return InteractionReply(build_edit_state(tap.named, state))

    async def _apply_changes(self, tap: DiscordTap) -> InteractionReply:
        """Approve with the shown changes. If they are refused, keep them, to be edited again."""
        record = await self._api.requests.get(tap.button.request_id)
        key, high = tap.button.more.removesuffix(SURE), tap.button.more.endswith(SURE)
        done = await self._edits.approve(tap.press, record, key, high=high)
        if isinstance(done, StoredRequest):
            return await self._update(tap, done)
        return InteractionReply(build_edit_state(tap.button, done), replaces=True)

    # --- reading ----------------------------------------------------------------------------------

    async def _show_more(self, tap: DiscordTap) -> InteractionReply:
        """Return the other actions of a request, if the person may decide it."""
        record = await self._answering.get_open(tap.press)
        card, mine = await self._answering.build_own(record, tap.identity)
        count = await self._batches.count(tap.identity, record.id)
        return InteractionReply(build_more_view(card, tap.named, mine=mine, batch=count))

    async def _show_page(self, tap: DiscordTap) -> InteractionReply:
        """Return the requested page, if the person may decide the request."""
        record = await self._answering.check_approver(tap.press)
        turning = tap.private and tap.button.more.isdecimal()
        return await show_page(self._answering, tap, record, replaces=turning)

    async def _show_batch(self, tap: DiscordTap) -> InteractionReply:
        """Return the batch of a request. If the button decides all of it, the result is on top."""
        told, press = "", tap.press
        if action := _OF_BATCH.get(tap.button.verb):
            told = await self._batches.decide(press.identity, tap.button.more, action, press.nonce)
        return await self._build_batch(tap, told)

    async def _build_batch(self, tap: DiscordTap, told: str) -> InteractionReply:
        """Return the batch; it replaces the open private message, if there is one."""
        request_id = tap.button.request_id
        batch = await self._batches.open(tap.identity, request_id, tap.key, keep_drawn)
        if batch is None:
            return replace(build_private_reply(told or NONE_WAITS), replaces=tap.private)
        shown = build_batch(batch, tap.button, tap.key, told=told)
        return InteractionReply(shown, replaces=tap.private)

    # --- operating --------------------------------------------------------------------------------

    async def _revoke(self, tap: DiscordTap) -> InteractionReply:
        """Revoke a grant, and update its card if the button was on it."""
        grant_id, copy = tap.button.request_id, tap.button.copy
        told = await self._remembering.revoke(tap.identity, grant_id, copy=copy, ref=tap.ref)
        if not copy:
            return told
        card = await self._api.grants.card(grant_id)
        return InteractionReply(build_grant_view(card, copy), replaces=True)

    async def _turn_switch(self, tap: DiscordTap) -> InteractionReply:
        operator = self._api.operator
        await operator.stop_all(tap.identity, on=tap.button.verb == STOP)
        return InteractionReply(build_switch_view((await operator.status()).switch), replaces=True)


async def _reply_privately(text: str, inbox: str | None = None) -> InteractionReply:
    return build_private_reply(text, inbox)
