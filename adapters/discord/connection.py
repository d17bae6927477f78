"""The connection to Discord: log-in, the gateway connection, and its supervision.

Every replica logs in and posts. One at a time listens on the gateway, by a shared lease. When it
dies, another takes over within the lease; when it stops, it first waits for another to connect.
While two listen, both receive each click, and the store still makes one decision.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import discord

from adapters.discord import library
from adapters.discord.leader_lock import Lease, Sessions
from adapters.discord.losses import Losses
from adapters.discord.settings import DiscordSettings
from gateway.errors import GatewayError, Misconfigured
from gateway.ports import Notes, RetryLater, cancel_and_wait

log = logging.getLogger("adapters.discord")

_START_SECONDS = 15.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_FATAL_PAUSE = 300.0
_DRAIN_SECONDS = 3.0
_CUT_SECONDS = 20.0  # shorter interruptions are normal: Discord requests reconnects
_GIVE_UP_SECONDS = 60.0  # discord.py's own pauses grow to 15 minutes
_BAD_TOKEN, _NEEDS_SHARDS = 4004, 4011
_FATAL_CODES = {_BAD_TOKEN, 4010, _NEEDS_SHARDS, 4012, 4013, 4014}

InteractionCallback = Callable[[discord.Interaction], Awaitable[None]]


class Bot(discord.Client):
    """A client with one intent, no caches that we do not need, and no mentions."""

    def __init__(
        self, arrived: InteractionCallback, losses: Losses, lease: Lease, sessions: Sessions
    ) -> None:
        super().__init__(
            # Messages, for those that are deleted. Their content would be another intent.
            intents=discord.Intents(guilds=True, guild_messages=True),
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            max_ratelimit_timeout=30.0,
            proxy=library.find_proxy(),
        )
        self._arrived = arrived
        self._losses = losses
        self._lease = lease
        self._sessions = sessions
        self.cut_at: float | None = None

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Count the session, so that repeated failures cannot use up the daily limit."""
        try:
            await self._sessions.begin()
        except RetryLater:
            await library.close_new_sockets(self)
            raise
        await super().before_identify_hook(shard_id, initial=initial)

    async def on_disconnect(self) -> None:
        """Record the time of the disconnect; discord.py reconnects by itself."""
        if self.cut_at is None:
            self.cut_at = self.loop.time()

    async def on_connect(self) -> None:
        """Record a connection with a new session."""
        self.cut_at = None
        await self._lease.announce()

    async def on_resumed(self) -> None:
        """Record a resumed connection."""
        self.cut_at = None

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Pass on every interaction."""
        await self._arrived(interaction)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        """Pass on that a message was deleted."""
        await self._losses.lose_messages(event.channel_id, {event.message_id})

    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        """Pass on that messages were deleted."""
        await self._losses.lose_messages(event.channel_id, event.message_ids)

    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        """Pass on that a channel was deleted."""
        await self._losses.lose_channel(channel.id)

    async def on_raw_thread_delete(self, event: discord.RawThreadDeleteEvent) -> None:
        """Pass on that a thread was deleted."""
        await self._losses.lose_channel(event.thread_id)

    async def on_guild_remove(self, guild: discord.Guild) -> None:
        """Pass on that the bot was removed from a server."""
        await self._losses.lose_server(guild.id)


class Connection:
    """Keeps a client logged in, and listening while it holds the lease.

    `problem` describes what is wrong, empty when nothing is. With `over_http`, clicks come to our
    HTTP endpoint and nobody listens on the gateway.
    """

    def __init__(
        self,
        settings: DiscordSettings,
        notes: Notes,
        arrived: InteractionCallback,
        losses: Losses,
        *,
        over_http: bool,
    ) -> None:
        self._settings = settings
        self._lease = Lease(notes)
        self._sessions = Sessions(notes)
        self._deliver = arrived
        self._losses = losses
        self._over_http = over_http
        self._client: Bot | None = None
        self._working: set[asyncio.Task[Any]] = set()
        self._ready = asyncio.Event()
        self.problem = "not connected yet"
        self.listening = False

    def client(self) -> discord.Client:
        """Return the client that is logged in; raises RetryLater while there is none."""
        if self._client is None or self._client.is_closed():
            raise RetryLater(5.0, f"not logged in to Discord: {self.problem}")
        return self._client

    def problems(self) -> list[str]:
        """Describe what keeps people from answering."""
        if self.problem:
            return [f"Discord: {self.problem}"]
        cut = self._client.cut_at if self._client and self.listening else None
        # A closed client has no loop.
        if cut is not None and asyncio.get_running_loop().time() - cut > _CUT_SECONDS:
            return ["Discord: the connection has been cut for a while"]
        return []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until left. Raises GatewayError when Discord refuses the first log-in, or
        when discord.py is of a version that we cannot use.

        When Discord is merely away, entering succeeds after a while, and we go on trying.
        """
        library.prepare(self._settings)
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._supervise(first), name="discord connection")
        try:
            await asyncio.wait({first}, timeout=_START_SECONDS)
            if first.done():
                first.result()
            else:
                log.warning(
                    "Discord is unavailable: %s", self.problem, extra={"event": "discord_away"}
                )
            yield
        finally:
            await self._leave(task)

    async def handle(self, interaction: discord.Interaction) -> None:
        """Handle an interaction, and track it until it is done."""
        task = asyncio.current_task()
        if task is None:
            return
        self._working.add(task)
        try:
            await self._deliver(interaction)
        finally:
            self._working.discard(task)

    async def _leave(self, task: asyncio.Task[None]) -> None:
        """Hand over to another replica, finish running interactions, and close."""
        if self.listening:
            await self._lease.hand_over()
        await cancel_and_wait(task)
        if self._working:
            await asyncio.wait(set(self._working), timeout=_DRAIN_SECONDS)
        if self._client is not None:
            await self._client.close()

    # --- supervision ----------------------------------------------------------------------------

    async def _supervise(self, first: asyncio.Future[None]) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            try:
                client = await self._login()
                if not self._sessions.wait():
                    self.problem = ""
                if not first.done():
                    first.set_result(None)
                await self._serve(client)
            except Exception as error:
                # Whatever ended the connection, try again.
                fatal = _is_fatal(error)
                self.problem = _describe_error(error)
                log.warning("Discord: %s", self.problem, extra={"event": "discord_down"})
                if fatal and not first.done():
                    first.set_exception(GatewayError(self.problem))
                if asyncio.get_running_loop().time() - began > _LONGEST_PAUSE:
                    pause = _FIRST_PAUSE
                wait = _FATAL_PAUSE if fatal else pause
                await asyncio.sleep(wait * random.uniform(0.8, 1.2))
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def _login(self) -> Bot:
        if self._client is not None and not self._client.is_closed():
            return self._client
        client = Bot(self.handle, self._losses, self._lease, self._sessions)
        try:
            await client.login(self._settings.token.get_secret_value())
            self._check_endpoint(client)
        except BaseException:
            await client.close()
            raise
        self._client = client
        return client

    def _check_endpoint(self, client: Bot) -> None:
        application = client.application
        url = application.interactions_endpoint_url if application else None
        if url is not None and not self._over_http:
            raise Misconfigured(
                "an Interactions Endpoint URL is set in the developer portal, so that clicks do "
                "not come over the gateway: remove it, or set GATEWAY_DISCORD_PUBLIC_KEY"
            )
        if url is None and self._over_http:
            log.warning(
                "no Interactions Endpoint URL is set in the developer portal: no click will come",
                extra={"event": "discord_no_endpoint"},
            )

    async def _serve(self, client: Bot) -> None:
        """Listen while holding the lease, otherwise wait for it."""
        if self._over_http:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(self._sessions.wait())
            await self._lease.obtain()
            self.problem = ""
            listening = asyncio.create_task(client.connect(), name="discord gateway")
            keeping = asyncio.create_task(self._lease.keep(), name="discord lease")
            watching = asyncio.create_task(_watch_connection(client), name="discord line")
            tasks = (listening, watching, keeping)
            self.listening = True
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in (listening, watching):
                    if task.done():
                        task.result()
            finally:
                self.listening = False
                await self._hang_up(client, *tasks)

    async def _hang_up(self, client: Bot, *tasks: asyncio.Task[None]) -> None:
        await cancel_and_wait(*tasks)
        await asyncio.gather(*tasks, return_exceptions=True)  # their errors have been reported
        if not client.is_closed() and client.ws is not None and client.ws.open:
            await client.ws.close(code=1000)
        await self._lease.give_up()


async def _watch_connection(client: Bot) -> None:
    """Raise ConnectionError when the connection has been lost for too long."""
    began = client.loop.time()
    while True:
        await asyncio.sleep(_GIVE_UP_SECONDS / 10)
        if client.cut_at is not None:
            since = max(client.cut_at, began)
            if client.loop.time() - since > _GIVE_UP_SECONDS:
                raise ConnectionError("the connection to Discord has been lost for too long")


async def log_in(settings: DiscordSettings) -> discord.Client:
    """Return a logged-in client, for a command. Raises GatewayError."""
    client = discord.Client(intents=discord.Intents.none(), proxy=library.find_proxy())
    try:
        await client.login(settings.token.get_secret_value())
    except Exception as error:
        # Whatever it was, a command reports it in a sentence.
        await client.close()
        raise GatewayError(_describe_error(error)) from error
    return client


def _is_fatal(error: Exception) -> bool:
    if isinstance(error, discord.ConnectionClosed):
        return error.code in _FATAL_CODES
    return isinstance(
        error, (discord.LoginFailure, discord.PrivilegedIntentsRequired, Misconfigured)
    )


def _describe_error(error: Exception) -> str:
    """Return what is wrong, never with the token."""
    if isinstance(error, discord.LoginFailure) or (
        isinstance(error, discord.ConnectionClosed) and error.code == _BAD_TOKEN
    ):
        return "Discord does not accept the bot's token; reset it in the developer portal"
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return (
            "Discord refuses the intents; the gateway asks for `guilds` and `guild_messages` only"
        )
    if isinstance(error, discord.ConnectionClosed) and error.code == _NEEDS_SHARDS:
        return (
            "the bot is in more than 2500 servers, more than one gateway connection may serve: "
            "let clicks come over HTTP (GATEWAY_DISCORD_PUBLIC_KEY)"
        )
    if isinstance(error, discord.ConnectionClosed):
        return f"Discord closed the connection ({error.code})"
    if isinstance(error, GatewayError):
        return str(error)
    return f"Discord cannot be reached from here ({type(error).__name__}): see network and proxy"
