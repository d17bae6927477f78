"""Posting, editing and telling: the bot's own calls, and what Discord's refusals mean."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import aiohttp
import discord
from discord.abc import Messageable

from adapters.discord.card_views import Shown, card_view
from adapters.discord.custom_ids import PLATFORM, Place, read_target
from adapters.discord.markup import inert, named
from gateway.ports import (
    Card,
    CopyGone,
    DeliveryFailed,
    DeliveryUncertain,
    MessageRef,
    Notes,
    Notice,
    NoticeKind,
    Pace,
    Rate,
    RetryLater,
    SystemClock,
)

log = logging.getLogger("adapters.discord")

# Discord tells its limits with each answer, mostly five in five seconds for a channel. All replicas
# together stay below, because each of them knows only its own calls.
POSTS = EDITS = Rate(45, 2)
ALL_PER_MINUTE, ALL_BURST = 1200, 10  # 50 a second are allowed; the rest is for calls that bunch up
RETRY_SECONDS = 5.0
OLD_EDIT_SECONDS = 120.0
_NONCE = 22  # Discord takes 25 characters
_MOST_CALLED = 20  # people, and as many roles
_PATIENCE, _LONGEST_CALL = 10.0, 12.0

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE = 10003, 10008
OLD_EDITS, MISSING_ACCESS, NOT_TO_THIS_USER, NO_PERMISSION = 30046, 50001, 50007, 50013
ARCHIVED, THREAD_LOCKED, MODERATED = 50083, 160005, 200000
_WHY = {
    UNKNOWN_CHANNEL: "the channel does not exist any more",
    MISSING_ACCESS: "the bot cannot see the channel",
    NOT_TO_THIS_USER: "this user takes no direct messages from the bot",
    NO_PERMISSION: "the bot lacks a permission in the channel; see `gateway doctor`",
    50008: "messages cannot be posted in a channel of this kind",
    THREAD_LOCKED: "the thread is locked",
    MODERATED: "Discord's moderation refuses the message",
}
_LOST = {UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, MISSING_ACCESS, NO_PERMISSION, THREAD_LOCKED, ARCHIVED}

Clients = Callable[[], discord.Client]
View = Callable[[bool], Shown]
"""Makes a message; silent, nothing of the agent's stands in it."""


class Posting:
    """The message side of the adapter. `client` gives the one that is logged in, or raises
    RetryLater."""

    def __init__(self, client: Clients, notes: Notes) -> None:
        self._client = client
        self._notes = notes
        self._pace = Pace(notes, SystemClock())
        self._homes: dict[int, str] = {}  # the server of each channel, which never changes

    async def deliver(self, target: str, card: Card, nonce: str) -> MessageRef:
        """Post a card; the same nonce within minutes is the same message."""
        place = _place_of(target)
        called, allowed = _called(card.calls, place.guild)

        def view(silent: bool) -> Shown:
            return card_view(card, nonce, called=called, silent=silent)

        return await self._post(place, view, nonce, rank=card.created, allowed=allowed)

    async def post(self, target: str, view: View, nonce: str) -> MessageRef:
        """Post a message that calls nobody; what Discord's moderation refuses is posted silent."""
        allowed = discord.AllowedMentions.none()
        return await self._post(_place_of(target), view, nonce, rank=0, allowed=allowed)

    async def _post(
        self, place: Place, view: View, nonce: str, *, rank: int, allowed: discord.AllowedMentions
    ) -> MessageRef:
        async with self._turn(place.posts, POSTS, nonce, rank), _understood(sending=True):
            channel = await self._channel(place)
            try:
                message = await channel.send(
                    view=view(False).view, nonce=nonce, allowed_mentions=allowed
                )
            except discord.HTTPException as error:
                if error.code != MODERATED:
                    raise
                message = await channel.send(
                    view=view(True).view, nonce=nonce, allowed_mentions=allowed
                )
        return MessageRef(
            adapter=PLATFORM, channel=str(message.channel.id), message=str(message.id)
        )

    async def update(self, ref: MessageRef, card: Card, nonce: str) -> None:
        """Have a posted message show the card as it is now; what was decided goes first."""
        rank = 0 if card.final else 1
        await self.edit(ref, lambda silent: card_view(card, nonce, silent=silent), nonce, rank=rank)

    async def edit(self, ref: MessageRef, view: View, nonce: str, *, rank: int = 0) -> None:
        """Have a posted message show something else."""
        async with self._turn(f"edits {ref.channel}", EDITS, nonce, rank):
            await self._update(ref, view)

    async def _update(self, ref: MessageRef, view: View) -> None:
        async with _understood(sending=False):
            channel = self._client().get_partial_messageable(int(ref.channel))
            message = channel.get_partial_message(int(ref.message))
            try:
                await message.edit(view=view(False).view)
            except discord.HTTPException as error:
                if error.code == MODERATED:
                    await message.edit(view=view(True).view)
                elif error.code == ARCHIVED:
                    await self._wake(int(ref.channel))
                    await message.edit(view=view(False).view)
                else:
                    raise

    async def tell(self, notice: Notice, card: Card) -> None:
        """Post a reminder in answer to a card, or tell someone how a request ended."""
        place = _place_of(notice.target)
        # Each reminder is a new revision of the card, so that a repeated one is known as such.
        said = hashlib.sha256(f"{notice.nonce} {card.revision}".encode()).hexdigest()[:_NONCE]
        turn = self._turn(place.posts, POSTS, said, card.created)
        async with turn, _understood(sending=True):
            if notice.kind is NoticeKind.REMINDER and notice.ref is not None:
                await self._remind(notice, notice.ref, card, place, nonce=said)
            else:
                await self._inform(notice, card, place)

    async def answer(self, target: str, ref: MessageRef, text: str, nonce: str) -> None:
        """Answer a posted message with words of ours, calling nobody."""
        posts = _place_of(target).posts
        async with self._turn(posts, POSTS, nonce, 0), _understood(sending=True):
            channel = self._client().get_partial_messageable(int(ref.channel))
            message = channel.get_partial_message(int(ref.message))
            await message.reply(
                text[:1900],
                allowed_mentions=discord.AllowedMentions.none(),
                suppress_embeds=True,
                nonce=nonce,
            )

    async def _inform(self, notice: Notice, card: Card, place: Place) -> None:
        said = named(card.outcome.text, 1200) if card.outcome else ""
        text = f"{card.icon} **{card.word}** · {inert(card.tool.text, 250)}\n{said}"
        channel = await self._channel(place)
        await channel.send(text, nonce=notice.nonce, suppress_embeds=True)

    async def _remind(
        self, notice: Notice, ref: MessageRef, card: Card, place: Place, *, nonce: str
    ) -> None:
        channel = self._client().get_partial_messageable(int(ref.channel))
        message = channel.get_partial_message(int(ref.message))
        called, allowed = _called(notice.mentions, place.guild)
        text = f"⏰ Still waiting: {inert(card.tool.text, 250)}, <t:{card.deadline // 1000}:R>."
        await message.reply(
            f"{called} {text}".strip(),
            allowed_mentions=allowed,
            suppress_embeds=True,
            nonce=nonce,
        )

    async def _channel(self, place: Place) -> Messageable:
        client = self._client()
        if place.user is not None:
            return await client.create_dm(discord.Object(int(place.user)))
        number = int(place.channel or 0)
        if number not in self._homes:
            channel = client.get_channel(number) or await client.fetch_channel(number)
            guild = getattr(channel, "guild", None)
            self._homes[number] = str(guild.id) if guild else ""
        if self._homes[number] != place.guild:
            raise DeliveryFailed("the channel belongs to another server than the target says")
        return client.get_partial_messageable(number)

    @asynccontextmanager
    async def _turn(self, budget: str, rate: Rate, name: str, rank: int) -> AsyncIterator[None]:
        """Hold a turn in a budget, and a place in the bot's own."""
        async with self._pace.turn(budget, rate, name, rank=rank):
            wait = await self._notes.delay("all calls", per_minute=ALL_PER_MINUTE, burst=ALL_BURST)
            if wait > _PATIENCE:
                raise RetryLater(wait, "Discord takes no more at once")
            await asyncio.sleep(wait)
            yield

    async def _wake(self, channel_id: int) -> None:
        """Open an archived thread again; raises when it is locked."""
        client = self._client()
        thread = await client.fetch_channel(channel_id)
        if isinstance(thread, discord.Thread):
            await thread.edit(archived=False)


def _place_of(target: str) -> Place:
    place = read_target(target)
    if place is None:
        raise DeliveryFailed(f"{target!r} is no place in Discord")
    return place


def _called(wanted: Sequence[str], guild: str | None) -> tuple[str, discord.AllowedMentions]:
    """Return the text that calls approvers, and leave to call these and nobody else.

    A role is called only in the server that it belongs to.
    """
    roles = [one.removeprefix(f"{guild}/") for one in wanted if one.startswith(f"{guild}/")]
    users = [one for one in wanted if one.isdecimal()][:_MOST_CALLED]
    allowed = discord.AllowedMentions(
        everyone=False,
        users=[discord.Object(int(one)) for one in users],
        roles=[discord.Object(int(one)) for one in roles[:_MOST_CALLED]],
        replied_user=False,
    )
    text = [f"<@{one}>" for one in users] + [f"<@&{one}>" for one in roles[:_MOST_CALLED]]
    return " ".join(text), allowed


@asynccontextmanager
async def _understood(*, sending: bool) -> AsyncIterator[None]:
    """Turn what discord.py raises into the core's failures.

    `sending` something new, an answer that did not come leaves it open whether it is there.
    """
    try:
        async with asyncio.timeout(_LONGEST_CALL):
            yield
    except discord.RateLimited as error:
        raise RetryLater(error.retry_after, "Discord asks to wait") from error
    except discord.HTTPException as error:
        raise _meaning(error, sending=sending) from error
    except (OSError, TimeoutError, aiohttp.ClientError) as error:
        why = f"no answer from Discord: {type(error).__name__}"
        raise (DeliveryUncertain(why) if sending else RetryLater(RETRY_SECONDS, why)) from error


def _meaning(error: discord.HTTPException, *, sending: bool) -> DeliveryFailed:
    if error.code == OLD_EDITS:
        return RetryLater(OLD_EDIT_SECONDS, "Discord limits edits of messages older than an hour")
    if error.status == 429:  # noqa: PLR2004 (too many requests; without Via, a ban by its proxy)
        return RetryLater(RETRY_SECONDS * 12, "Discord refuses requests for now")
    if error.status >= 500:  # noqa: PLR2004 (its own failure)
        why = f"Discord failed ({error.status})"
        return DeliveryUncertain(why) if sending else RetryLater(RETRY_SECONDS, why)
    why = _WHY.get(error.code, f"Discord refuses it ({error.status}, {error.code})")
    if error.status == 401:  # noqa: PLR2004 (the token is no good any more)
        return DeliveryFailed("Discord does not accept the bot's token")
    if not sending and error.code in _LOST:
        return CopyGone(why if error.code != UNKNOWN_MESSAGE else "the message was deleted")
    return DeliveryFailed(why)
