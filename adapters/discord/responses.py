"""How an interaction is answered: within three seconds, once, whatever the rest does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import aiohttp
import discord

from adapters.discord.card_views import Shown, text_view
from adapters.discord.markup import named
from gateway.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    Unauthorized,
    Unreachable,
)
from gateway.ports import render_safe

log = logging.getLogger("adapters.discord")

ACK_SECONDS = 1.5  # Discord's client gives up after 3; the rest is for the way there
WORK_SECONDS = 30.0
_LONGEST_SENTENCE = 1500
_NOT_SHOWN = "⚠️ Discord refuses to show the answer. The card tells how the request stands."
# The answer came too late, or a second time, or the message is gone: the card is repaired later.
_TOO_LATE = {10008, 10015, 10062, 40060, 50027}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person gets: the clicked message changed, or a message that only they see."""

    shown: Shown
    replaces: bool = False


def private(text: str) -> Answer:
    """Return a sentence for this person alone."""
    return Answer(text_view(text))


def refusal(error: Exception) -> Answer:
    """Say privately why nothing came of it. The truth, and never more than is known."""
    if isinstance(error, NotFound):
        return private("🗑️ That is not known any more.")
    if isinstance(error, Unauthorized):
        return private(f"⛔ {_sentence(f'not you: {error}')}")
    if isinstance(error, Conflict):
        return private(f"ℹ️ {_sentence(str(error))}")  # noqa: RUF001 (the sign is for people)
    if isinstance(error, InvalidRequest):
        return private(f"✏️ {_sentence(str(error))} Nothing was decided.")
    if isinstance(error, Unreachable):
        return private("⚠️ Nothing was recorded: the gateway could not be reached. Try again.")
    if not isinstance(error, TimeoutError):
        log.error("click not handled", exc_info=error, extra={"event": "click_failed"})
    return private(
        "⚠️ The gateway did not answer; whether this was recorded is not certain. "
        "Look at the card again."
    )


def _sentence(text: str) -> str:
    """Return an error's words as a sentence. Parts of it may be anybody's."""
    said = render_safe(text).text
    return named(f"{said[:1].upper()}{said[1:].rstrip('.')}.", _LONGEST_SENTENCE)


async def answered(interaction: discord.Interaction, work: Coroutine[Any, Any, Answer]) -> None:
    """Do the work and answer; if it is slow, acknowledge first and answer afterwards."""
    task = asyncio.create_task(_bounded(work))
    try:
        await asyncio.wait({task}, timeout=ACK_SECONDS)
        if not task.done():
            await _acknowledge(interaction)
        answer = await task
    finally:
        task.cancel()
    if not await _given(interaction, answer):
        await _given(interaction, private(_NOT_SHOWN))


async def _given(interaction: discord.Interaction, answer: Answer) -> bool:
    """Give an answer; False when Discord refuses to show it."""
    try:
        await _give(interaction, answer)
    except discord.HTTPException as error:
        if error.code not in _TOO_LATE:
            log.error("answer refused: %s", error, extra={"event": "answer_refused"})
            return False
        log.info("answer not taken: %s", error, extra={"event": "answer_late"})
    except discord.InteractionResponded:
        log.info("answered already", extra={"event": "answer_late"})
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        log.warning("answer lost: %s", error, extra={"event": "answer_lost"})
    return True


async def _bounded(work: Coroutine[Any, Any, Answer]) -> Answer:
    try:
        async with asyncio.timeout(WORK_SECONDS):
            return await work
    except Exception as error:
        # Whatever it was, the person must hear that nothing came of it.
        return refusal(error)


async def _acknowledge(interaction: discord.Interaction) -> None:
    """Gain fifteen minutes. Should even that fail, the work goes on: it may be a decision."""
    command = interaction.type is discord.InteractionType.application_command
    try:
        await interaction.response.defer(ephemeral=command, thinking=command)
    except (discord.DiscordException, OSError, aiohttp.ClientError) as error:
        log.info("not acknowledged: %s", error, extra={"event": "answer_late"})


async def _give(interaction: discord.Interaction, answer: Answer) -> None:
    shown = answer.shown
    response = interaction.response
    if answer.replaces and interaction.message is not None:
        # What is attached stays: a private full view keeps its file while it is leafed through.
        kept = interaction.message.attachments if shown.attached is not None else []
        if response.is_done():
            await interaction.edit_original_response(view=shown.view, attachments=kept)
        else:
            await response.edit_message(view=shown.view, attachments=kept)
    elif not response.is_done():
        await response.send_message(view=shown.view, files=shown.files, ephemeral=True)
    elif response.type is discord.InteractionResponseType.deferred_channel_message:
        await interaction.edit_original_response(view=shown.view, attachments=shown.files)
    else:
        await interaction.followup.send(view=shown.view, files=shown.files, ephemeral=True)
