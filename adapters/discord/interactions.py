"""Identify who clicked, refuse bots and timed-out members, and reply to each interaction within
Discord's three seconds; start with `respond`."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import discord

from adapters.discord import library
from adapters.discord.cards import NOBODY, MessageContent, build_text_view, escape_line
from adapters.discord.custom_ids import PLATFORM, DiscordButton
from gateway.chat.answering import Press, describe_error
from gateway.errors import Unauthorized
from gateway.ports import AdapterApi, Identity, MessageRef

log = logging.getLogger("adapters.discord")

ACK_SECONDS = 1.5  # Discord gives up after 3; the rest is for the network
WORK_SECONDS = 30.0
_LONGEST_SENTENCE = 1500
_NOT_SHOWN = "⚠️ Discord refused to show the reply. See the card for the state of the request."
# The response came too late or twice, or the message is gone. A later edit updates the card.
_TOO_LATE = {10008, 10015, 10062, 40060, 50027}


@dataclass(frozen=True, slots=True)
class InteractionReply:
    """A reply: new content for the clicked message (`replaces`), or a private message.

    `word` is an additional private message. `later` yields one more, or None, when it is ready.
    """

    shown: MessageContent
    replaces: bool = False
    word: MessageContent | None = None
    later: Awaitable[MessageContent | None] | None = None


def build_private_reply(text: str, inbox: str | None = None) -> InteractionReply:
    """Build a private message. An `inbox` address becomes a button; "" adds how to get a link."""
    return InteractionReply(build_text_view(text, inbox))


def build_refusal(error: Exception) -> InteractionReply:
    """Build a private message that explains an error."""
    sign, said = describe_error(error)
    return build_private_reply(f"{sign} {escape_line(said, _LONGEST_SENTENCE)}")


async def respond(
    interaction: discord.Interaction, work: Coroutine[Any, Any, InteractionReply]
) -> None:
    """Do the work and send its reply; if the work takes over ACK_SECONDS, acknowledge first."""
    task = asyncio.create_task(_run_bounded(work))
    try:
        await asyncio.wait({task}, timeout=ACK_SECONDS)
        if not task.done():
            await _acknowledge(interaction)
        answer = await task
    finally:
        task.cancel()
    if not await _try_send(interaction, answer):
        word = answer.word and InteractionReply(answer.word)
        await _try_send(interaction, word or build_private_reply(_NOT_SHOWN))
    if answer.later is not None and (said := await answer.later) is not None:
        await _try_send(interaction, InteractionReply(said))


async def _try_send(interaction: discord.Interaction, answer: InteractionReply) -> bool:
    """Send a reply; return False if Discord refuses its content."""
    try:
        await _send(interaction, answer)
    except discord.HTTPException as error:
        if error.code not in _TOO_LATE:
            log.error("answer refused: %s", error, extra={"event": "answer_refused"})
            return False
        log.info("Discord did not accept the response: %s", error, extra={"event": "answer_late"})
    except discord.InteractionResponded:
        log.info("answered already", extra={"event": "answer_late"})
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        log.warning("answer lost: %s", error, extra={"event": "answer_lost"})
    return True


async def _run_bounded(work: Coroutine[Any, Any, InteractionReply]) -> InteractionReply:
    try:
        async with asyncio.timeout(WORK_SECONDS):
            return await work
    except Exception as error:
        # The person must learn of every failure.
        return build_refusal(error)


async def _acknowledge(interaction: discord.Interaction) -> None:
    """Acknowledge, which gives fifteen minutes to reply. A failure does not stop the work."""
    command = interaction.type is discord.InteractionType.application_command
    try:
        await interaction.response.defer(ephemeral=command, thinking=command)
    except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
        log.info("not acknowledged: %s", error, extra={"event": "answer_late"})


async def _send(interaction: discord.Interaction, answer: InteractionReply) -> None:
    shown = answer.shown
    response = interaction.response
    if answer.replaces and interaction.message is not None:
        # Keep the file attached while the pages of a full view are turned.
        kept = interaction.message.attachments if shown.attached is not None else []
        if response.is_done():
            await interaction.edit_original_response(
                view=shown.view, attachments=kept, allowed_mentions=NOBODY
            )
        else:
            await response.edit_message(view=shown.view, attachments=kept, allowed_mentions=NOBODY)
        if answer.word is not None:
            await interaction.followup.send(view=answer.word.view, ephemeral=True)
    elif not response.is_done():
        await response.send_message(view=shown.view, files=shown.files, ephemeral=True)
    elif response.type is discord.InteractionResponseType.deferred_channel_message:
        await interaction.edit_original_response(view=shown.view, attachments=shown.files)
    else:
        await interaction.followup.send(view=shown.view, files=shown.files, ephemeral=True)


@dataclass(frozen=True, slots=True)
class DiscordTap:
    """One use of a button, a modal or a command, for a request or a grant."""

    interaction: discord.Interaction
    button: DiscordButton

    @property
    def identity(self) -> Identity:
        """The person who used it."""
        return read_identity(self.interaction)

    @property
    def private(self) -> bool:
        """Whether it happened in a private message."""
        message = self.interaction.message
        return message is not None and message.flags.ephemeral

    @property
    def key(self) -> str:
        """A short key, unique per interaction, to store data under."""
        number = self.interaction.id.to_bytes(8, "big")
        return base64.urlsafe_b64encode(number).decode().rstrip("=")

    @property
    def ref(self) -> MessageRef | None:
        """The posted card that it belongs to; None if the button names none.

        In a private message the button names the card's message. Otherwise it is the clicked
        message, and the message id in the button is ignored.
        """
        if not self.button.copy:
            return None
        message = self.interaction.message
        seen = self.button.card if self.private else str(message.id if message else "")
        channel = str(self.interaction.channel_id or "")
        return MessageRef(adapter=PLATFORM, channel=channel, message=seen)

    @property
    def press(self) -> Press:
        """The click in the form that all chat adapters share."""
        return Press(
            request_id=self.button.request_id,
            revision=self.button.revision,
            identity=self.identity,
            nonce=f"{PLATFORM} {self.interaction.id}",
            copy=self.button.copy or None,
            ref=self.ref,
        )

    @property
    def named(self) -> DiscordButton:
        """The button for a private message, with the id of the card's message."""
        message = self.interaction.message
        if message is not None and not self.private and self.button.copy:
            return replace(self.button, card=str(message.id))
        return self.button


def read_identity(interaction: discord.Interaction) -> Identity:
    """Return the person with their current roles as `discord:SERVER/ROLE`.

    A person has no roles in direct messages.
    """
    user, guild = interaction.user, interaction.guild_id
    roles: tuple[str, ...] = ()
    if guild is not None and isinstance(user, discord.Member):
        roles = tuple(f"{PLATFORM}:{guild}/{role}" for role in library.role_ids(user))
    return Identity(platform=PLATFORM, id=str(user.id), groups=roles)


def find_objection(interaction: discord.Interaction) -> str | None:
    """Return why this person may not decide in Discord; None if they may."""
    user = interaction.user
    if user.bot:
        return "bots cannot decide requests"
    if isinstance(user, discord.Member) and user.is_timed_out():
        return "you are timed out in this server"
    return None


async def refuse_unfit(api: AdapterApi, interaction: discord.Interaction, request_id: str) -> None:
    """Refuse bots and people who are timed out, and record it. Raises Unauthorized."""
    why = find_objection(interaction)
    if why is not None:
        await api.requests.refuse(request_id, read_identity(interaction), why)
        raise Unauthorized(why)
