"""The connection to Discord: logging in, the gateway under supervision, and who of us holds it.

Every replica logs in and posts. One at a time listens on the gateway, by a lease that they share; a
replica that dies is followed by another within the lease, and one that stops leaves the line when
another is on it. While two listen, both are told of each click, and the decision is still one: it
is made in the store.
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
from adapters.discord.settings import DiscordSettings
from gateway.errors import GatewayError, Misconfigured
from gateway.ports import Notes, RetryLater, cancel_and_wait

log = logging.getLogger("adapters.discord")

_START_SECONDS = 15.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_FATAL_PAUSE = 300.0
_DRAIN_SECONDS = 3.0
_CUT_SECONDS = 20.0  # shorter ones are everyday: Discord asks for a new connection now and then
_GIVE_UP_SECONDS = 60.0  # discord.py's own pauses grow to a quarter of an hour
_BAD_TOKEN, _NEEDS_SHARDS = 4004, 4011
_FATAL_CODES = {_BAD_TOKEN, 4010, _NEEDS_SHARDS, 4012, 4013, 4014}

Arrived = Callable[[discord.Interaction], Awaitable[None]]


class Bot(discord.Client):
    """discord.py with the one intent we need, nothing cached that we do not, and no mentions."""

    def __init__(self, arrived: Arrived, lease: Lease, sessions: Sessions) -> None:
        super().__init__(
            intents=discord.Intents(guilds=True),
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            max_ratelimit_timeout=30.0,
        )
        self._arrived = arrived
        self._lease = lease
        self._sessions = sessions
        self.cut_at: float | None = None

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Count every session: a server that ends each at once would use up the day's."""
        try:
            await self._sessions.begin()
        except RetryLater:
            await library.close_new_sockets(self)
            raise
        await super().before_identify_hook(shard_id, initial=initial)

    async def on_disconnect(self) -> None:
        """Note since when the line has been cut; discord.py connects again by itself."""
        if self.cut_at is None:
            self.cut_at = self.loop.time()

    async def on_connect(self) -> None:
        """Note that we are on the line, with a new session."""
        self.cut_at = None
        await self._lease.on_line()

    async def on_resumed(self) -> None:
        """Note that we are on the line again."""
        self.cut_at = None

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Hand over every click, modal and command as it came."""
        await self._arrived(interaction)


class Connection:
    """Keeps one client logged in, and listening while it holds the lease.

    `problem` says in a sentence what is wrong, empty when all is well. `over_http` says that clicks
    come to our own endpoint, so that nobody listens on the gateway.
    """

    def __init__(
        self, settings: DiscordSettings, notes: Notes, arrived: Arrived, *, over_http: bool
    ) -> None:
        self._settings = settings
        self._lease = Lease(notes)
        self._sessions = Sessions(notes)
        self._deliver = arrived
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
        """Say what keeps people from answering, in sentences."""
        if self.problem:
            return [f"Discord: {self.problem}"]
        cut = self._client.cut_at if self._client and self.listening else None
        # A client that was closed has no loop any more.
        if cut is not None and asyncio.get_running_loop().time() - cut > _CUT_SECONDS:
            return ["Discord: the connection has been cut for a while"]
        return []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until left. Raises GatewayError when Discord refuses us at the first try, or
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
                log.warning("Discord is away: %s", self.problem, extra={"event": "discord_away"})
            yield
        finally:
            await self._leave(task)

    async def arrived(self, interaction: discord.Interaction) -> None:
        """Handle an interaction, and know of it until it is answered."""
        task = asyncio.current_task()
        if task is None:
            return
        self._working.add(task)
        try:
            await self._deliver(interaction)
        finally:
            self._working.discard(task)

    async def _leave(self, task: asyncio.Task[None]) -> None:
        """Let another listen first, then stop, answer what has come, and close."""
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
                # Whatever ends the connection, the process goes on and tries again.
                fatal = _is_fatal(error)
                self.problem = _said(error)
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
        client = Bot(self.arrived, self._lease, self._sessions)
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
        """Listen while we hold the lease; wait for it while another does."""
        if self._over_http:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(self._sessions.wait())
            await self._lease.obtain()
            self.problem = ""
            listening = asyncio.create_task(client.connect(), name="discord gateway")
            keeping = asyncio.create_task(self._lease.keep(), name="discord lease")
            watching = asyncio.create_task(_cut_for_long(client), name="discord line")
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
        await asyncio.gather(*tasks, return_exceptions=True)  # what they raised has been told
        if not client.is_closed() and client.ws is not None and client.ws.open:
            await client.ws.close(code=1000)
        await self._lease.give_up()


async def _cut_for_long(client: Bot) -> None:
    """Raise ConnectionError when the line has been cut for so long that we better begin anew."""
    began = client.loop.time()
    while True:
        await asyncio.sleep(_GIVE_UP_SECONDS / 10)
        if client.cut_at is not None:
            since = max(client.cut_at, began)
            if client.loop.time() - since > _GIVE_UP_SECONDS:
                raise ConnectionError("the line to Discord stays cut")


async def login_of(settings: DiscordSettings) -> discord.Client:
    """Return a client that is logged in, for a command. Raises GatewayError."""
    client = discord.Client(intents=discord.Intents.none())
    try:
        await client.login(settings.token.get_secret_value())
    except Exception as error:
        # Whatever discord.py or the network raises, a command says it in a sentence.
        await client.close()
        raise GatewayError(_said(error)) from error
    return client


def _is_fatal(error: Exception) -> bool:
    if isinstance(error, discord.ConnectionClosed):
        return error.code in _FATAL_CODES
    return isinstance(
        error, (discord.LoginFailure, discord.PrivilegedIntentsRequired, Misconfigured)
    )


def _said(error: Exception) -> str:
    """Say what is wrong, never with the token."""
    if isinstance(error, discord.LoginFailure) or (
        isinstance(error, discord.ConnectionClosed) and error.code == _BAD_TOKEN
    ):
        return "Discord does not accept the bot's token; reset it in the developer portal"
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return "Discord refuses the intents; the gateway asks for `guilds` only"
    if isinstance(error, discord.ConnectionClosed) and error.code == _NEEDS_SHARDS:
        return (
            "the bot is in more than 2500 servers, more than one gateway connection may serve: "
            "let clicks come over HTTP (GATEWAY_DISCORD_PUBLIC_KEY)"
        )
    if isinstance(error, discord.ConnectionClosed):
        return f"Discord closed the connection ({error.code})"
    if isinstance(error, GatewayError):
        return str(error)
    return f"no connection to Discord ({type(error).__name__})"
