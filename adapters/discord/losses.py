"""What Discord tells of deleted messages, channels and threads, and of a bot that was removed.

The cards that stood there are looked at again, at once: what is gone is posted again or elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from adapters.discord.custom_ids import PLATFORM, read_target
from gateway.ports import Desk, MessageRef, Notes, bug

log = logging.getLogger("adapters.discord")

_NOTE_SECONDS = 40 * 24 * 3600.0
_REMOVED = "the bot was removed from the server"

Stood = Callable[[str, MessageRef], bool]


async def remember_card(notes: Notes, ref: MessageRef) -> None:
    """Keep in mind that a message is a card: of all that are deleted, only these matter."""
    await notes.put(_name(ref.message), "1", seconds=_NOTE_SECONDS)


class Losses:
    """Passes on what Discord tells. Never raises: the client must go on."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def lose_messages(self, channel: int, messages: Collection[int]) -> None:
        """Have deleted cards looked at."""
        cards = {str(one) for one in messages if await self._is_card(one)}
        if cards:
            await self._doubt(lambda _, ref: ref.message in cards and ref.channel == str(channel))

    async def lose_channel(self, channel: int) -> None:
        """Have the cards of a deleted channel or thread looked at."""
        await self._doubt(lambda _, ref: ref.channel == str(channel))

    async def lose_server(self, server: int) -> None:
        """Have the cards in a server looked at that removed the bot: nobody can answer there."""

        def stood(target: str, ref: MessageRef) -> bool:
            place = read_target(target)
            return place is not None and place.guild == str(server)

        await self._doubt(stood, away=_REMOVED)

    async def _is_card(self, message: int) -> bool:
        try:
            return await self._desk.notes.get(_name(str(message))) is not None
        except Exception as error:
            # Unknown: then it is looked at, if the store is there again.
            log.warning("a loss is unsure: %s", bug(error), extra={"event": "discord_loss"})
            return True

    async def _doubt(self, stood: Stood, *, away: str = "") -> None:
        def here(target: str, ref: MessageRef) -> bool:
            return ref.adapter == PLATFORM and stood(target, ref)

        try:
            await self._desk.requests.doubt_copies(here, away=away)
        except Exception as error:
            # The next edit of the card will tell it all the same.
            log.warning("a loss is not followed: %s", bug(error), extra={"event": "discord_loss"})


def _name(message: str) -> str:
    return f"card {message}"
