"""Connect to Discord, post cards and pass clicks to the core; start with `DiscordAdapter.run`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
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
from adapters.discord.settings import read_settings
from adapters.discord.setup import DiscordSetup
from gateway.cards.grant_cards import GrantCard
from gateway.ports import (
    Adapter,
    AdapterApi,
    AdapterStorage,
    Called,
    Finding,
    LiveTrial,
    MessageRef,
    Notice,
    RetryLater,
    Shown,
    WebPages,
)

log = logging.getLogger("adapters.discord")


class DiscordAdapter(Adapter):
    """Posts cards to Discord and accepts decisions."""

    name = PLATFORM
    card_lines = CARD_LINES
    card_chars = CARD_CHARS
    list_command = "/pending"
    repeatable = True
    setup = DiscordSetup()

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._posting: Posting | None = None

    @asynccontextmanager
    async def run(self, api: AdapterApi) -> AsyncIterator[WebPages]:
        """Stay connected inside the context; yield the Interactions Endpoint if a key is set.

        Raises GatewayError if Discord does not accept the settings.
        """
        settings = read_settings()
        key = settings.public_key
        connection = Connection(
            settings,
            api.notes,
            InteractionHandler(api).handle,
            Losses(api),
            over_http=key is not None,
        )
        self._connection = connection
        self._posting = Posting(connection.client, api.notes)
        api.messages.links[PLATFORM] = self._posting.link
        async with connection.running():
            await self._register(connection, api)
            if key is None:
                yield WebPages()
                return
            endpoint = Endpoint(key, api.notes, connection.client, connection.handle)
            yield WebPages([web.post(PATH, endpoint.serve)])

    async def _register(self, connection: Connection, api: AdapterApi) -> None:
        """Register the slash commands. Log a failure and go on: cards work without commands."""
        try:
            await register_missing(connection.client(), api.notes)
        except (RetryLater, discord.DiscordException, OSError) as error:
            log.warning("commands not registered: %s", error, extra={"event": "no_commands"})

    @property
    def problems(self) -> Sequence[str]:
        """The problems that keep people from deciding; empty if there are none."""
        return self._connection.problems() if self._connection else ["Discord: not running"]

    async def checks(
        self, called: Called, notes: AdapterStorage, *, live: bool, trial: LiveTrial | None = None
    ) -> Sequence[tuple[str, Finding]]:
        """Check settings, token, endpoint and channels, and if mentioned roles get notified."""
        found = await run_checks(list(called), live=live, trial=trial)
        return [*found, *await check_mentions(called)]

    def commands(self, verbs: Any) -> None:
        """Add `gateway discord invite` and `gateway discord check`."""
        add_commands(verbs)

    # --- cards ----------------------------------------------------------------------------------

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        """Post a card."""
        if isinstance(shown, GrantCard):
            return await DiscordGrantPosting(self._post()).deliver(target, shown, nonce)
        return await self._post().deliver(target, shown, nonce)

    async def update(self, ref: MessageRef, shown: Shown, nonce: str) -> None:
        """Edit a posted card."""
        if isinstance(shown, GrantCard):
            await DiscordGrantPosting(self._post()).update(ref, shown, nonce)
        else:
            await self._post().update(ref, shown, nonce)

    async def tell(self, notice: Notice, shown: Shown) -> None:
        """Post a reminder or an outcome; news about a grant becomes a reply to its card."""
        if isinstance(shown, GrantCard):
            await DiscordGrantPosting(self._post()).announce(notice, shown)
        else:
            await self._post().tell(notice, shown)

    def _post(self) -> Posting:
        if self._posting is None:
            raise RetryLater(1.0, "the adapter is not running")
        return self._posting
