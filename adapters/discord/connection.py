"""Log in to Discord, receive interactions over WebSocket or HTTP, and report deleted cards; start
with `Connection.running`.

Every replica logs in and posts. One at a time holds the lease and listens on the WebSocket. If it
dies, another takes over once the lease expires. If it stops, it first waits for another to connect.
While two listen, both receive each click, and the store still makes one decision.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import discord
from aiohttp import web
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from adapters.discord.custom_ids import PLATFORM, read_target
from adapters.discord.library import close_new_sockets, find_proxy, prepare, read_interaction
from adapters.discord.settings import DiscordSettings
from gateway.errors import GatewayError, Misconfigured
from gateway.ports import (
    AdapterApi,
    AdapterStorage,
    BodyTooLarge,
    BodyTooSlow,
    JsonObject,
    MessageRef,
    RetryLater,
    SystemClock,
    bug,
    cancel_and_wait,
    read_whole,
)

# The lease: it selects the replica that listens, and limits the sessions of all replicas together.

LEASE_SECONDS = 10.0
_RENEW_SECONDS = 3.0
_HAND_OVER_SECONDS, _LOOK_SECONDS = 6.0, 0.1
_LEASE, _STANDBY, _ON_LINE = "gateway connection", "gateway standby", "gateway on the line"
# After a thousand sessions in 24 hours Discord resets the bot's token.
_SESSIONS_PER_MINUTE, _SESSIONS_AT_ONCE = 0.6, 100
_SPENT = "too many sessions ended at once; the next one must wait for Discord's limit"


class Lease:
    """The right to listen, held by one replica at a time; it expires if that replica dies."""

    def __init__(self, notes: AdapterStorage) -> None:
        self._notes = notes
        self._me = secrets.token_hex(8)
        self._leaving = False

    async def obtain(self) -> None:
        """Wait for the lease, and announce this replica as standby meanwhile."""
        while not await self._notes.put_new(_LEASE, self._me, seconds=LEASE_SECONDS):
            await self._notes.put(_STANDBY, self._me, seconds=_RENEW_SECONDS)
            await asyncio.sleep(_RENEW_SECONDS / 2)

    async def keep(self) -> None:
        """Renew the lease; return once another replica has it. Store failures do not end it."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            if self._leaving:
                continue
            try:
                if not await self._extend():
                    log.info(
                        "another replica receives Discord's events now",
                        extra={"event": "discord_standby"},
                    )
                    return
            except Exception as error:
                # This replica must receive clicks even if the store fails.
                log.warning(
                    "could not renew the lease: %s", bug(error), extra={"event": "lease_unsure"}
                )

    async def _extend(self) -> bool:
        if await self._notes.extend(_LEASE, self._me, seconds=LEASE_SECONDS) or self._leaving:
            return True
        return await self._notes.put_new(_LEASE, self._me, seconds=LEASE_SECONDS)

    async def announce(self) -> None:
        """Announce that this replica is connected, so that a stopping one can leave."""
        await self._notes.put(_ON_LINE, self._me)

    async def give_up(self) -> None:
        """Release the lease, if this replica holds it. Never raises."""
        try:
            if await self._notes.get(_LEASE) == self._me:
                await self._notes.delete(_LEASE)
        except Exception as error:
            # The lease expires anyway, and this must not delay the shutdown.
            log.info("could not release the lease: %s", bug(error), extra={"event": "lease_unsure"})

    async def hand_over(self) -> None:
        """Release the lease, and wait until another replica is connected, if one is standing by.

        This replica listens until then, because a click that nobody receives fails for the person.
        """
        self._leaving = True
        try:
            async with asyncio.timeout(_HAND_OVER_SECONDS):
                if await self._notes.get(_STANDBY) in (None, self._me):
                    return
                await self.give_up()
                while True:  # notes send no events, and this is brief
                    if await self._notes.get(_ON_LINE) not in (None, self._me):
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        except Exception as error:
            # As above; also when nobody took over in time.
            log.warning(
                "no other replica took over the connection: %s",
                bug(error),
                extra={"event": "lease_unsure"},
            )


class Sessions:
    """Keeps the sessions that all replicas start together within Discord's daily limit."""

    def __init__(self, notes: AdapterStorage) -> None:
        self._notes = notes
        self._next: float | None = None  # when the delayed session may start

    def wait(self) -> float:
        """Return the seconds until the next session may start; 0 if unknown."""
        if self._next is None:
            return 0.0
        return max(0.0, self._next - asyncio.get_running_loop().time())

    async def begin(self) -> None:
        """Count a new session. Raises RetryLater if it may not start yet; see `wait`."""
        if self._next is None:
            told = await self._notes.delay(
                "sessions", per_minute=_SESSIONS_PER_MINUTE, burst=_SESSIONS_AT_ONCE
            )
            self._next = asyncio.get_running_loop().time() + told
        if wait := self.wait():
            raise RetryLater(wait, _SPENT)
        self._next = None


# Discord reports deleted messages, channels and threads, and the removal of the bot.
#
# The core then checks the affected cards at once, and posts lost cards again or elsewhere.

_NOTE_SECONDS = 40 * 24 * 3600.0
_REMOVED = "the bot was removed from the server"

Stood = Callable[[str, MessageRef], bool]


async def remember_card(notes: AdapterStorage, ref: MessageRef) -> None:
    """Record that a message is a card: deletions of other messages do not matter."""
    await notes.put(_name(ref.message), "1", seconds=_NOTE_SECONDS)


class Losses:
    """Makes the core check cards that may be lost. Never raises, so the client goes on."""

    def __init__(self, api: AdapterApi) -> None:
        self._api = api

    async def lose_messages(self, channel: int, messages: Collection[int]) -> None:
        """Make the core check deleted cards."""
        cards = {str(one) for one in messages if await self._is_card(one)}
        if cards:
            await self._doubt(lambda _, ref: ref.message in cards and ref.channel == str(channel))

    async def lose_channel(self, channel: int) -> None:
        """Make the core check the cards of a deleted channel or thread."""
        await self._doubt(lambda _, ref: ref.channel == str(channel))

    async def lose_server(self, server: int) -> None:
        """Report the cards in a server that removed the bot: nobody can decide them there."""

        def stood(target: str, ref: MessageRef) -> bool:
            place = read_target(target)
            return place is not None and place.guild == str(server)

        await self._doubt(stood, away=_REMOVED)

    async def _is_card(self, message: int) -> bool:
        try:
            return await self._api.notes.get(_name(str(message))) is not None
        except Exception as error:
            # Unknown, so have it checked, in case the store answers again.
            log.warning(
                "cannot check whether a deleted message was a card: %s",
                bug(error),
                extra={"event": "discord_loss"},
            )
            return True

    async def _doubt(self, stood: Stood, *, away: str = "") -> None:
        def here(target: str, ref: MessageRef) -> bool:
            return ref.adapter == PLATFORM and stood(target, ref)

        try:
            await self._api.requests.doubt_copies(here, away=away)
        except Exception as error:
            # The next edit of the card detects the loss anyway.
            log.warning(
                "could not mark lost cards for a check: %s",
                bug(error),
                extra={"event": "discord_loss"},
            )


def _name(message: str) -> str:
    return f"card {message}"


log = logging.getLogger("adapters.discord")

_START_SECONDS = 15.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_FATAL_PAUSE = 300.0
_DRAIN_SECONDS = 3.0
_CUT_SECONDS = 20.0  # shorter interruptions are normal: Discord requests reconnects
_GIVE_UP_SECONDS = 60.0  # discord.py's pauses grow to 15 minutes
_BAD_TOKEN, _NEEDS_SHARDS = 4004, 4011
_FATAL_CODES = {_BAD_TOKEN, 4010, _NEEDS_SHARDS, 4012, 4013, 4014}

InteractionCallback = Callable[[discord.Interaction], Awaitable[None]]


class Bot(discord.Client):
    """A client with two intents and without unneeded caches; it never notifies by default."""

    def __init__(
        self, arrived: InteractionCallback, losses: Losses, lease: Lease, sessions: Sessions
    ) -> None:
        super().__init__(
            # guild_messages reports deleted messages. Message content would need another intent.
            intents=discord.Intents(guilds=True, guild_messages=True),
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            max_ratelimit_timeout=30.0,
            proxy=find_proxy(),
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
            await close_new_sockets(self)
            raise
        await super().before_identify_hook(shard_id, initial=initial)

    async def on_disconnect(self) -> None:
        """Record the time of the disconnect; discord.py reconnects automatically."""
        if self.cut_at is None:
            self.cut_at = self.loop.time()

    async def on_connect(self) -> None:
        """Record a connection with a new session, and announce it to other replicas."""
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

    `problem` describes the current problem, or is empty. With `over_http`, clicks come to the HTTP
    endpoint, and no replica listens on the WebSocket.
    """

    def __init__(
        self,
        settings: DiscordSettings,
        notes: AdapterStorage,
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
        """Return the logged-in client. Raises RetryLater if not logged in."""
        if self._client is None or self._client.is_closed():
            raise RetryLater(5.0, f"not logged in to Discord: {self.problem}")
        return self._client

    def problems(self) -> list[str]:
        """Return the problems that keep people from deciding."""
        if self.problem:
            return [f"Discord: {self.problem}"]
        cut = self._client.cut_at if self._client and self.listening else None
        # A closed client has no loop.
        if cut is not None and asyncio.get_running_loop().time() - cut > _CUT_SECONDS:
            return ["Discord: the connection has been cut for a while"]
        return []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Stay connected inside the context. Raises GatewayError if Discord refuses the first
        log-in, or if the version of discord.py is unsuitable.

        If Discord does not answer, entering succeeds after 15 seconds; retries go on inside.
        """
        prepare(self._settings)
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
        """Handle an interaction, and track its task so that `running` can wait for it."""
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
                # Try again after every error.
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
                "an Interactions Endpoint URL is set in the developer portal, so clicks do not "
                "come over the gateway: remove it, or set GATEWAY_DISCORD_PUBLIC_KEY"
            )
        if url is None and self._over_http:
            log.warning(
                "no Interactions Endpoint URL is set in the developer portal: no click can arrive",
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
    """Watch the connection. Raises ConnectionError once it has been lost for 60 seconds."""
    began = client.loop.time()
    while True:
        await asyncio.sleep(_GIVE_UP_SECONDS / 10)
        if client.cut_at is not None:
            since = max(client.cut_at, began)
            if client.loop.time() - since > _GIVE_UP_SECONDS:
                raise ConnectionError("the connection to Discord has been lost for too long")


async def log_in(settings: DiscordSettings) -> discord.Client:
    """Return a logged-in client, for a command. Raises Misconfigured if Discord does not accept the
    token, GatewayError if it does not answer."""
    client = discord.Client(intents=discord.Intents.none(), proxy=find_proxy())
    try:
        await client.login(settings.token.get_secret_value())
    except Exception as error:
        # A command reports every error in one sentence.
        await client.close()
        failure = Misconfigured if isinstance(error, discord.LoginFailure) else GatewayError
        raise failure(_describe_error(error)) from error
    return client


def _is_fatal(error: Exception) -> bool:
    if isinstance(error, discord.ConnectionClosed):
        return error.code in _FATAL_CODES
    return isinstance(
        error, (discord.LoginFailure, discord.PrivilegedIntentsRequired, Misconfigured)
    )


def _describe_error(error: Exception) -> str:
    """Describe a connection error in one sentence, without the token."""
    if isinstance(error, discord.LoginFailure) or (
        isinstance(error, discord.ConnectionClosed) and error.code == _BAD_TOKEN
    ):
        return "Discord does not accept the bot's token; reset it in the developer portal"
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return (
            "Discord rejects the intents, although the gateway requests only `guilds` and "
            "`guild_messages`"
        )
    if isinstance(error, discord.ConnectionClosed) and error.code == _NEEDS_SHARDS:
        return (
            "the bot is in more than 2500 servers, the limit of one gateway connection: set "
            "GATEWAY_DISCORD_PUBLIC_KEY, so that clicks come over HTTP"
        )
    if isinstance(error, discord.ConnectionClosed):
        return f"Discord closed the connection ({error.code})"
    if isinstance(error, GatewayError):
        return str(error)
    return f"cannot reach Discord ({type(error).__name__}): check the network and the proxy"


# HTTP mode: receives interactions at the Interactions Endpoint URL, and verifies each.
#
# It acknowledges each at once and refuses repeats; the reply is sent as in gateway mode.

PATH = "/discord/interactions"
FRESH_SECONDS = 300
_SEEN_SECONDS = 900.0  # as long as an interaction's token lives
_MOST_BYTES = 1_048_576
_PING = 1
_PUSH_NOTE_SECONDS = 1.5


class Endpoint:
    """Serves the Interactions Endpoint URL."""

    def __init__(
        self,
        public_key: str,
        notes: AdapterStorage,
        client: Callable[[], discord.Client],
        arrived: InteractionCallback,
    ) -> None:
        self._key = VerifyKey(bytes.fromhex(public_key))
        self._notes = notes
        self._clock = SystemClock()
        self._client = client
        self._arrived = arrived

    async def serve(self, request: web.Request) -> web.Response:
        """Receive one interaction. Responds 401 unless Discord signed it within five minutes."""
        try:
            if (request.content_length or 0) > _MOST_BYTES:
                raise BodyTooLarge
            body = await read_whole(request.content.iter_any(), most=_MOST_BYTES)
        except BodyTooLarge:
            return web.Response(status=413)
        except BodyTooSlow:
            return web.Response(status=408)
        if not self._is_signed(request, body):
            return web.Response(status=401)
        try:
            payload = json.loads(body)
            kind, number = payload["type"], str(payload["id"])
        except (ValueError, KeyError, TypeError):
            return web.Response(status=400)
        if kind == _PING:
            return web.json_response({"type": _PING})
        return await self._take(payload, number)

    async def _take(self, payload: JsonObject, number: str) -> web.Response:
        try:
            async with asyncio.timeout(_PUSH_NOTE_SECONDS):
                fresh = await self._notes.put_new(f"seen {number}", "", seconds=_SEEN_SECONDS)
        except Exception as error:
            # Without the store, decisions and the detection of replays are impossible.
            log.warning(
                "could not accept an interaction: %s", bug(error), extra={"event": "push_refused"}
            )
            return web.Response(status=503)
        if not fresh:
            return web.Response(status=401)
        try:
            interaction = read_interaction(self._client(), payload)
        except RetryLater:
            return web.Response(status=503)
        except Exception as error:
            # discord.py may raise anything for unexpected content.
            log.warning(
                "cannot parse an interaction: %s", bug(error), extra={"event": "push_refused"}
            )
            return web.Response(status=400)
        # The handler posts the reply to Discord; this response only acknowledges.
        task = asyncio.ensure_future(self._arrived(interaction))
        # Its errors are already logged and reported to the person.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return web.Response(status=202)

    def _is_signed(self, request: web.Request, body: bytes) -> bool:
        stamp = request.headers.get("X-Signature-Timestamp", "")
        try:
            signature = bytes.fromhex(request.headers.get("X-Signature-Ed25519", ""))
            self._key.verify(stamp.encode() + body, signature)
            age = self._clock.now_ms() / 1000 - int(stamp)
        except (ValueError, BadSignatureError):
            return False
        return abs(age) <= FRESH_SECONDS
