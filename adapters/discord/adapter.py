"""The Discord adapter: connects to Discord, posts cards and passes clicks to the core."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import discord
from aiohttp import web

from adapters.discord.cards import CARD_CHARS, CARD_LINES
from adapters.discord.clicks import InteractionHandler
from adapters.discord.commands import register_missing
from adapters.discord.connection import PATH, Connection, Endpoint, Losses
from adapters.discord.custom_ids import PLATFORM
from adapters.discord.grants import DiscordGrantPosting
from adapters.discord.permissions_and_checks import add_commands, check_mentions, run_checks
from adapters.discord.posting import Posting
from adapters.discord.settings import DiscordSettings, read_settings
from gateway.cards.card import Card
from gateway.cards.grant_cards import GrantCard
from gateway.ports import AdapterStorage, Desk, Finding, Logins, MessageRef, Notice, RetryLater

log = logging.getLogger("adapters.discord")


class DiscordAdapter:
    """Posts cards to Discord and accepts decisions."""

    name = PLATFORM
    card_lines = CARD_LINES
    card_chars = CARD_CHARS
    list_command = "/pending"
    repeatable = True

    def __init__(self) -> None:
        self._settings: DiscordSettings | None = None
        self._connection: Connection | None = None
        self._posting: Posting | None = None

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        """Serve until left. Raises GatewayError when Discord does not accept the settings."""
        self._settings = settings = read_settings()
        over_http = settings.public_key is not None
        connection = Connection(
            settings,
            desk.notes,
            InteractionHandler(desk).handle,
            Losses(desk),
            over_http=over_http,
        )
        self._connection = connection
        self._posting = Posting(connection.client, desk.notes)
        async with connection.running():
            await self._register(connection, desk)
            yield

    async def _register(self, connection: Connection, desk: Desk) -> None:
        """Register the commands. A failure is only logged: cards work without them."""
        try:
            await register_missing(connection.client(), desk.notes)
        except (RetryLater, discord.DiscordException, OSError) as error:
            log.warning("commands not registered: %s", error, extra={"event": "no_commands"})

    def problems(self) -> Sequence[str]:
        """Describe what keeps people from answering, empty when nothing does."""
        return self._connection.problems() if self._connection else ["Discord: not running"]

    async def checks(
        self, targets: Sequence[str], notes: AdapterStorage, *, live: bool
    ) -> Sequence[tuple[str, Finding]]:
        """Check settings, token, endpoint and each channel."""
        return await run_checks(targets, live=live)

    async def check_mentions(
        self, called: Mapping[str, Sequence[str]]
    ) -> Sequence[tuple[str, Finding]]:
        """Check whether the roles that routes call are notified."""
        return await check_mentions(called)

    def commands(self, verbs: Any) -> None:
        """Add `gateway invite discord` and `gateway check discord`."""
        add_commands(verbs)

    # --- cards ----------------------------------------------------------------------------------

    async def deliver(self, target: str, card: Card, nonce: str) -> MessageRef:
        """Post a card."""
        return await self._post().deliver(target, card, nonce)

    async def update(self, ref: MessageRef, card: Card, nonce: str) -> None:
        """Edit a posted card."""
        await self._post().update(ref, card, nonce)

    async def tell(self, notice: Notice, card: Card) -> None:
        """Post a reminder or an outcome."""
        await self._post().tell(notice, card)

    async def withdraw(self, target: str, nonce: str) -> None:
        """Leave the line of a channel."""
        if self._posting is not None:
            await self._posting.withdraw(target, nonce)

    async def deliver_grant(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        """Post the card of a remembered decision."""
        return await DiscordGrantPosting(self._post()).deliver(target, card, nonce)

    async def update_grant(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        """Edit the posted card of a remembered decision."""
        await DiscordGrantPosting(self._post()).update(ref, card, nonce)

    async def tell_grant(self, notice: Notice, card: GrantCard) -> None:
        """Reply to the card of a remembered decision with its news."""
        await DiscordGrantPosting(self._post()).announce(notice, card)

    def _post(self) -> Posting:
        if self._posting is None:
            raise RetryLater(1.0, "the adapter is not running")
        return self._posting

    # --- HTTP -----------------------------------------------------------------------------------

    def routes(self, desk: Desk, logins: Logins, *, secure: bool) -> Sequence[Any]:
        """Return the Interactions Endpoint, when a public key is set."""
        key = self._settings.public_key if self._settings else None
        connection = self._connection
        if key is None or connection is None:
            return []
        endpoint = Endpoint(key, desk.notes, connection.client, connection.handle)
        return [web.post(PATH, endpoint.serve)]
