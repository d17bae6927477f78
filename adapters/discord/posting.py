"""Post, edit and reply within Discord's rate limits, and translate its errors into the core's;
start with Posting."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import aiohttp
import discord
from discord.abc import Messageable

from adapters.discord.cards import (
    NOBODY,
    MessageContent,
    build_card_view,
    escape_line,
    escape_with_mentions,
)
from adapters.discord.connection import remember_card
from adapters.discord.custom_ids import PLATFORM, DiscordPlace, link_message, read_target
from gateway.cards.card import Card
from gateway.cards.summary import plain_summary
from gateway.ports import (
    AdapterStorage,
    CopyGone,
    DeliveryFailed,
    DeliveryUncertain,
    Limited,
    MessageRef,
    Notice,
    NoticeKind,
    Priority,
    Rate,
    RateLimiter,
    RetryLater,
    rank_edit,
)

log = logging.getLogger("adapters.discord")

# Discord allows five posts and five edits in five seconds per channel. All replicas share these
# limits; the extra 0.25 seconds allow for calls that arrive late.
POSTS = EDITS = Rate(5, 5.25)
_LEFT = 1
ALL_PER_MINUTE, ALL_BURST = 1200, 10  # Discord allows 50 a second, bursts included
RETRY_SECONDS = 5.0
OLD_EDIT_SECONDS = 120.0
_NONCE = 22  # Discord takes 25 characters
_MOST_CALLED = 20  # people, and as many roles
_PATIENCE, _LONGEST_CALL = 10.0, 12.0

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE = 10003, 10008
OLD_EDITS, MISSING_ACCESS, NOT_TO_THIS_USER, NO_PERMISSION = 30046, 50001, 50007, 50013
ARCHIVED, THREAD_LOCKED, MODERATED = 50083, 160005, 200000
_WHY = {
    UNKNOWN_CHANNEL: "the channel no longer exists",
    UNKNOWN_MESSAGE: "the message was deleted",
    MISSING_ACCESS: "the bot cannot see the channel",
    NOT_TO_THIS_USER: "this user does not accept direct messages from the bot",
    NO_PERMISSION: "the bot lacks a permission in the channel; see `gateway doctor`",
    50008: "messages cannot be posted in a channel of this kind",
    THREAD_LOCKED: "the thread is locked",
    ARCHIVED: "the thread is archived",
    MODERATED: "Discord's moderation blocked the message",
}
_ELSEWHERE = "the channel does not belong to the server that the target names"
# Only these are final: access, permissions and locks can change back.
_GONE = {UNKNOWN_CHANNEL, UNKNOWN_MESSAGE}

Clients = Callable[[], discord.Client]
View = Callable[[bool], MessageContent]
"""Builds a message; with True, it omits all text of the agent."""


class Posting:
    """Posts and edits messages. `client` returns the logged-in client, or raises RetryLater."""

    def __init__(self, client: Clients, notes: AdapterStorage) -> None:
        self._client = client
        self._notes = notes
        self._pace = RateLimiter(notes)
        self._homes: dict[int, str] = {}  # the server of each channel, which never changes

    async def deliver(self, target: str, card: Card, nonce: str) -> MessageRef:
        """Post a card. Idempotent: the same nonce within minutes posts nothing new."""
        place = _find_place(target)
        called, allowed = _build_mentions(card.calls, place.guild)

        def view(silent: bool) -> MessageContent:
            return build_card_view(card, nonce, called=called, silent=silent)

        return await self._post(
            place, view, nonce, rank=card.created, allowed=allowed, about=card.request_id
        )

    async def post(self, target: str, view: View, nonce: str) -> MessageRef:
        """Post a message without mentions. If moderation refuses it, omit the agent's text."""
        return await self._post(_find_place(target), view, nonce, rank=0, allowed=NOBODY)

    async def _post(
        self,
        place: DiscordPlace,
        view: View,
        nonce: str,
        *,
        rank: int,
        allowed: discord.AllowedMentions,
        about: str = "",
    ) -> MessageRef:
        turn = self._turn(place.posts, nonce, rank, about)
        async with turn, _translate_errors(sending=True):
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
        ref = MessageRef(adapter=PLATFORM, channel=str(message.channel.id), message=str(message.id))
        await remember_card(self._notes, ref)
        return ref

    async def update(self, ref: MessageRef, card: Card, nonce: str) -> None:
        """Edit a posted card. Edits that remove buttons come before others."""
        rank = rank_edit(card)
        await self.edit(
            ref, lambda silent: build_card_view(card, nonce, silent=silent), nonce, rank=rank
        )

    async def edit(self, ref: MessageRef, view: View, nonce: str, *, rank: int) -> None:
        """Edit a posted message."""
        leave = _LEFT if rank >= Priority.OTHER.rank(0) else 0
        budget = f"edits {ref.channel}"
        async with self._pace.slot(budget, EDITS, nonce, rank=rank, leave=leave):
            await self._wait_for_all()
            await self._update(ref, view)

    async def _update(self, ref: MessageRef, view: View) -> None:
        async with _translate_errors(sending=False):
            channel = self._client().get_partial_messageable(int(ref.channel))
            message = channel.get_partial_message(int(ref.message))
            try:
                await message.edit(view=view(False).view, allowed_mentions=NOBODY)
            except discord.HTTPException as error:
                if error.code == MODERATED:
                    await message.edit(view=view(True).view, allowed_mentions=NOBODY)
                elif error.code == ARCHIVED:
                    await self._wake(int(ref.channel))
                    await message.edit(view=view(False).view, allowed_mentions=NOBODY)
                else:
                    raise

    async def tell(self, notice: Notice, card: Card) -> None:
        """Post a reminder as a reply to its card, or the outcome of a request."""
        place = _find_place(notice.target)
        # Each reminder has a new revision of the card, so its nonce differs.
        said = hashlib.sha256(f"{notice.nonce} {card.revision}".encode()).hexdigest()[:_NONCE]
        turn = self._turn(place.posts, notice.nonce, card.created, card.request_id)
        async with turn, _translate_errors(sending=True):
            if notice.kind is NoticeKind.REMINDER and notice.ref is not None:
                await self._remind(notice, notice.ref, card, place, nonce=said)
            else:
                await self._inform(notice, card, place)

    async def link(self, target: str, ref: MessageRef) -> str:
        """Return the web address of a message, or "" unless the bot is in its server."""
        place = _find_place(target)
        if place.user == ref.channel:
            return ""  # an agent can name a user, but not the channel of their messages
        if place.guild and self._client().get_guild(int(place.guild)) is None:
            return ""
        return link_message(place, ref.channel, ref.message)

    async def answer(self, target: str, ref: MessageRef, text: str, nonce: str) -> None:
        """Reply to a posted message, without mentions."""
        posts = _find_place(target).posts
        async with self._turn(posts, nonce, 0), _translate_errors(sending=True):
            channel = self._client().get_partial_messageable(int(ref.channel))
            message = channel.get_partial_message(int(ref.message))
            await message.reply(
                text[:1900],
                allowed_mentions=NOBODY,
                suppress_embeds=True,
                nonce=nonce,
            )

    async def _inform(self, notice: Notice, card: Card, place: DiscordPlace) -> None:
        outcome = card.outcome.text if card.outcome else ""
        said = escape_with_mentions(outcome, 1200, card.people)
        text = f"{card.icon} **{card.word}** · {escape_line(card.tool.text, 250)}\n{said}"
        if notice.discreet:
            text = escape_line(card.notification, 250)
        channel = await self._channel(place)
        await channel.send(text, nonce=notice.nonce, suppress_embeds=True)

    async def _remind(
        self, notice: Notice, ref: MessageRef, card: Card, place: DiscordPlace, *, nonce: str
    ) -> None:
        channel = self._client().get_partial_messageable(int(ref.channel))
        message = channel.get_partial_message(int(ref.message))
        called, allowed = _build_mentions(notice.mentions, place.guild)
        said = card.notification if notice.discreet else plain_summary(card.summary)
        text = f"⏰ Still pending: {escape_line(said, 250)}, expires <t:{card.deadline // 1000}:R>."
        text = f"{text} {escape_line(notice.deciders, 900)}".strip()
        await message.reply(
            f"{called} {text}".strip(),
            allowed_mentions=allowed,
            suppress_embeds=True,
            nonce=nonce,
        )

    async def _channel(self, place: DiscordPlace) -> Messageable:
        client = self._client()
        if place.user is not None:
            return await client.create_dm(discord.Object(int(place.user)))
        number = int(place.thread or place.channel or 0)
        if place.origin:
            await _check_origin(client, place, number)
        elif number not in self._homes:
            channel = client.get_channel(number) or await client.fetch_channel(number)
            guild = getattr(channel, "guild", None)
            self._homes[number] = str(guild.id) if guild else ""
        if not place.origin and self._homes[number] != place.guild:
            raise DeliveryFailed(_ELSEWHERE)
        return client.get_partial_messageable(number)

    @asynccontextmanager
    async def _turn(
        self, budget: str, name: str, rank: int, about: str = ""
    ) -> AsyncIterator[None]:
        """Hold a turn to post to a channel, within the channel's and the bot's rate limits."""
        async with self._pace.turn(budget, POSTS, name, rank=rank, about=about):
            await self._wait_for_all()
            yield

    async def _wait_for_all(self) -> None:
        """Wait for the bot's overall rate limit. Raises RetryLater if that takes too long."""
        wait = await self._notes.delay("all calls", per_minute=ALL_PER_MINUTE, burst=ALL_BURST)
        if wait > _PATIENCE:
            raise RetryLater(wait, "the bot's overall rate limit is used up")
        await asyncio.sleep(wait)

    async def _wake(self, channel_id: int) -> None:
        """Unarchive a thread. Raises discord.py's error if the thread is locked."""
        client = self._client()
        thread = await client.fetch_channel(channel_id)
        if isinstance(thread, discord.Thread):
            await thread.edit(archived=False)


async def _check_origin(client: discord.Client, place: DiscordPlace, number: int) -> None:
    """Raise DeliveryFailed unless a conversation that an agent named is open and in its server."""
    channel = await client.fetch_channel(number)
    guild = getattr(channel, "guild", None)
    if guild is None or str(guild.id) != place.guild:
        raise DeliveryFailed(_ELSEWHERE)
    thread = channel if isinstance(channel, discord.Thread) else None
    if place.thread and (thread is None or str(thread.parent_id) != place.channel):
        raise DeliveryFailed("the thread is not in the channel")
    if thread is not None and (thread.archived or thread.locked):
        raise DeliveryFailed(_WHY[THREAD_LOCKED if thread.locked else ARCHIVED])


def _find_place(target: str) -> DiscordPlace:
    place = read_target(target)
    if place is None:
        raise DeliveryFailed(f"{target!r} is not a Discord target; write discord:SERVER/CHANNEL")
    return place


def _build_mentions(
    wanted: Sequence[str], guild: str | None
) -> tuple[str, discord.AllowedMentions]:
    """Return the text that mentions approvers, and permission to notify only those.

    Roles of other servers are left out.
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
async def _translate_errors(*, sending: bool) -> AsyncIterator[None]:
    """Translate discord.py's errors into the core's.

    With `sending`, a missing response becomes DeliveryUncertain: the message may be posted.
    """
    try:
        async with asyncio.timeout(_LONGEST_CALL):
            yield
    except discord.RateLimited as error:
        # Edits of old messages have a separate limit, which must not delay all other calls.
        limit = Limited if sending else RetryLater
        raise limit(error.retry_after, "Discord asked the gateway to wait") from error
    except discord.HTTPException as error:
        raise _translate_error(error, sending=sending) from error
    except (OSError, TimeoutError, aiohttp.ClientError) as error:
        why = f"Discord did not respond: {type(error).__name__}"
        raise (DeliveryUncertain(why) if sending else RetryLater(RETRY_SECONDS, why)) from error


def _translate_error(error: discord.HTTPException, *, sending: bool) -> DeliveryFailed:
    if error.code == OLD_EDITS:
        return RetryLater(OLD_EDIT_SECONDS, "Discord limits edits of messages older than an hour")
    if error.status == 429:  # noqa: PLR2004 (too many requests; without Via, a ban by its proxy)
        return Limited(RETRY_SECONDS * 12, "Discord rejects all calls at the moment")
    if error.status >= 500:  # noqa: PLR2004 (its own failure)
        why = f"Discord failed ({error.status})"
        return DeliveryUncertain(why) if sending else RetryLater(RETRY_SECONDS, why)
    why = _WHY.get(error.code, f"Discord rejected the call ({error.status}, {error.code})")
    if error.status == 401:  # noqa: PLR2004 (the token is no good any more)
        return DeliveryFailed("Discord does not accept the bot's token")
    if not sending and error.code in _GONE:
        return CopyGone(why, deleted=error.code == UNKNOWN_MESSAGE)
    return DeliveryFailed(why)
