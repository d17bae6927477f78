"""Connect to Redis fast: `pool_at` creates a pool for a URL, `Multiplexer` shares one connection.

A pool lends a connection to each command, which costs more than the command itself. Here commands
share one connection, and concurrent commands are sent together.

redis-py opens the connection: addresses, TLS, credentials, handshake. Its streams need two
iterations of the event loop and a dozen calls for each reply. So `read_replies` takes over the
transport and parses each reply in the iteration in which it arrives.

redis-py keeps the transport in private attributes, which only this module uses. If a version of
redis-py lacks these attributes, replies are read through its public methods.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import hiredis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import (
    AuthenticationError,
    InvalidResponse,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import TimeoutError as Unanswered

_INCOMPLETE: Any = object()

Take = Callable[[Any], None]
"""Called with each reply, or with an exception if the server rejected the command. An exception
from it ends the connection."""

Lost = Callable[[str], None]
"""Called once, with the reason, when the connection has ended."""


def read_replies(
    connection: Any, take: Take, lost: Lost, most_bytes: float = math.inf
) -> DirectReplies | PublicReplies:
    """Pass each reply of a connection to `take`. Use the connection for nothing else.

    Push messages from the server are dropped. A reply larger than `most_bytes` ends the connection.
    If redis-py's public methods are used, its parser sets the limit.
    """
    try:
        transport = connection._writer.transport
        parse_error = connection._parser.parse_error
    except AttributeError:
        return PublicReplies(connection, take, lost)
    reader = hiredis.Reader(
        protocolError=InvalidResponse,
        replyError=parse_error,
        encoding=connection.encoder.encoding,
        errors=connection.encoder.encoding_errors,
        notEnoughData=_INCOMPLETE,
    )
    return DirectReplies(transport, reader, take, lost, most_bytes)


class DirectReplies(asyncio.Protocol):
    """Reads replies directly from the transport. See `read_replies`."""

    def __init__(
        self, transport: Any, reader: Any, take: Take, lost: Lost, most_bytes: float
    ) -> None:
        self._transport = transport
        self._reader = reader
        self._take = take
        self._lost = lost
        self._most_bytes = most_bytes
        self._incomplete_bytes = 0  # received since the last complete reply
        self._outgoing: list[bytes] = []
        self._why = "the connection was closed"
        self._streams = transport.get_protocol()
        transport.set_protocol(self)

    @property
    def open(self) -> bool:
        """Whether the connection is open, as far as is known."""
        return not self._transport.is_closing()

    def write(self, packed: bytes) -> None:
        """Send packed commands, together with all others of this iteration of the event loop.
        Raises ConnectionError if the connection is lost."""
        if not self.open:
            raise Disconnected(self._why)
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(packed)

    def _flush(self) -> None:
        """Send the collected commands at once, because a system call costs more than a command.
        `lost` reports a lost connection."""
        packed, self._outgoing = b"".join(self._outgoing), []
        if self.open:
            self._transport.write(packed)

    def abort(self) -> None:
        """Disconnect at once and drop unsent data. `lost` is called soon after."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes and pass on the complete replies."""
        try:
            self._hand_out(data)
        except Exception as error:
            # After any failure, replies can no longer be matched to their commands.
            self._why = f"the connection was given up: {error!r}"
            self.abort()

    def _hand_out(self, data: bytes) -> None:
        self._incomplete_bytes += len(data)
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not _INCOMPLETE:
            self._incomplete_bytes = 0
            if not isinstance(reply, hiredis.PushNotification):
                self._take(reply)
        if self._incomplete_bytes > self._most_bytes:
            raise InvalidResponse(f"the reply has more than {self._most_bytes} bytes")

    def eof_received(self) -> bool:
        """Close the connection after the server closed it."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Report that the connection is lost, also to redis-py's streams, which may be waiting for
        that."""
        self._streams.connection_lost(error)
        self._lost(f"the connection to Redis was lost: {error}" if error else self._why)


class PublicReplies:
    """Sends and receives in a task, through redis-py's public methods. See `read_replies`."""

    def __init__(self, connection: Any, take: Take, lost: Lost) -> None:
        self._connection = connection
        self._take = take
        self._lost = lost
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._why = "the connection was closed"
        self.open = True
        self._task = asyncio.create_task(self._run(), name="redis replies")
        self._task.add_done_callback(self._end)

    def write(self, packed: bytes) -> None:
        """Send packed commands. Raises ConnectionError if the connection is lost."""
        if not self.open:
            raise Disconnected(self._why)
        self._outgoing.put_nowait(packed)

    def abort(self) -> None:
        """Disconnect and drop unsent data. `lost` is called soon after."""
        self.open = False
        self._task.cancel()

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_all())
                group.create_task(self._receive_all())
        except* Exception as errors:
            self._why = f"the connection was given up: {errors.exceptions[0]!r}"
        finally:
            await self._connection.disconnect(nowait=True)

    async def _send_all(self) -> None:
        while True:
            packed = await self._outgoing.get()
            await self._connection.send_packed_command(packed, check_health=False)

    async def _receive_all(self) -> None:
        """Pass on replies until the connection ends. Nothing is sent after a failure."""
        try:
            while True:
                self._take(await self._receive())
        finally:
            self.open = False

    async def _receive(self) -> Any:
        try:
            return await self._connection.read_response()
        except ResponseError as refusal:
            return refusal
        except AuthenticationError as refusal:  # redis-py has already disconnected
            self._take(refusal)
            raise

    def _end(self, _: asyncio.Task[None]) -> None:
        self.open = False
        self._lost(self._why)


_ANSWER_SECONDS = 5.0

_OnAnswer = Callable[[Any], None] | None


class Multiplexer:
    """Sends commands over one connection of `pool`, which has no socket timeout.

    Commands on a lost connection are sent again after each of `pauses` (seconds), so they must be
    idempotent. Cancelling a caller does not affect the others. With `reports_loss` the first
    command after a lost connection fails; otherwise a new connection is opened silently.
    `most_bytes` limits the size of a reply.

    If the server reports that another node is the primary, the next connection goes to that node,
    if the pool has `move_to`.
    """

    def __init__(
        self,
        pool: Any,
        pauses: Sequence[float] = (),
        *,
        reports_loss: bool = False,
        most_bytes: float = math.inf,
    ) -> None:
        self._pool = pool
        self._pauses = pauses
        self._reports_loss = reports_loss
        self._most_bytes = most_bytes
        self._session: _Session | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def evalsha(self, sha: str, count: int, *words: str | int) -> Any:
        """Run a script that the server has cached."""
        packed = hiredis.pack_command(("EVALSHA", sha, count, *words))  # type: ignore[arg-type]
        return (await self._deliver(packed, 1))[0]

    async def eval(self, text: str, count: int, *words: str | int) -> Any:
        """Run a script from its text. The server caches it for `evalsha`."""
        return await self.send("EVAL", text, count, *words)

    async def send(self, *words: str | int, on_answer: _OnAnswer = None) -> Any:
        """Send a command and return its reply. A blocking command delays all other commands.

        `on_answer` is called with the reply before the caller resumes, unless it is an error.
        """
        return (await self._deliver(hiredis.pack_command(words), 1, on_answer))[0]  # type: ignore[arg-type]

    async def send_all(self, *commands: Sequence[str | int]) -> list[Any]:
        """Send commands together and return their replies. They run in this order, but commands of
        other callers may run between them."""
        packed = b"".join(map(hiredis.pack_command, commands))  # type: ignore[arg-type]
        return await self._deliver(packed, len(commands))

    async def aclose(self) -> None:
        """Disconnect permanently."""
        self._closed = True
        async with self._opening:
            session = self._session
        if session is not None:
            await session.close()

    async def _deliver(self, packed: bytes, count: int, on_answer: _OnAnswer = None) -> list[Any]:
        for pause in self._pauses:
            try:
                return await self._try_once(packed, count, on_answer)
            except (Disconnected, Unanswered):
                await asyncio.sleep(pause)
        return await self._try_once(packed, count, on_answer)

    async def _try_once(self, packed: bytes, count: int, on_answer: _OnAnswer) -> list[Any]:
        session = self._session
        if session is None or not session.alive:
            if session is not None and self._reports_loss:
                await self._discard_session()
                raise Disconnected("the connection to Redis was lost")
            session = await self._open()
        try:
            return await session.ask(packed, count, on_answer)
        except (Disconnected, Unanswered, ReadOnlyError, MovedError) as error:
            if session is self._session:
                await self._discard_session()
            if not isinstance(error, MovedError) or not hasattr(self._pool, "move_to"):
                raise
            self._pool.move_to(error.host, error.port)
            raise Disconnected(f"the data moved to another node: {error}") from error

    async def _discard_session(self) -> None:
        """Drop a lost connection. The next command opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _open(self) -> _Session:
        async with self._opening:
            if self._closed:
                raise RedisError("the connection was closed")
            if self._session is not None and not self._session.alive:
                await self._discard_session()
            if self._session is None:
                self._session = _Session(await self._connect(), self._most_bytes)
            return self._session

    async def _connect(self) -> Any:
        connection = self._pool.make_connection()
        try:
            await connection.connect()
            if await connection.can_read():
                raise Disconnected("the server disconnected, or sent an unexpected reply")
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


class _Session:
    """One connection and the callers that wait for its replies."""

    def __init__(self, connection: Any, most_bytes: float) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._answers: deque[tuple[asyncio.Future[Any], _OnAnswer, float]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._replies = read_replies(connection, self._hand_out, self._handle_loss, most_bytes)

    @property
    def alive(self) -> bool:
        """Whether commands can be sent."""
        return self._replies.open

    async def ask(self, packed: bytes, count: int, on_answer: _OnAnswer) -> list[Any]:
        """Send `count` packed commands. Return their replies, or raise the first error."""
        self._replies.write(packed)  # no reply is read before the futures are queued
        answers: list[asyncio.Future[Any]] = []
        now = self._loop.time()
        for _ in range(count):
            answer = self._loop.create_future()
            answers.append(answer)
            self._answers.append((answer, on_answer, now))
        if self._watch is None:
            self._watch = self._loop.call_at(now + _ANSWER_SECONDS, self._check_oldest)
        try:
            return [await answer for answer in answers]
        finally:
            for answer in answers:
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # marks the error as retrieved

    async def close(self) -> None:
        """Disconnect. All waiting callers get an error."""
        self._replies.abort()
        await self._connection.disconnect()

    def _check_oldest(self) -> None:
        """Close the connection if its oldest command has waited too long. One timer for all
        commands is cheaper than one timer for each."""
        self._watch = None
        if not self._answers:
            return
        due = self._answers[0][2] + _ANSWER_SECONDS
        if self._loop.time() < due:
            self._watch = self._loop.call_at(due, self._check_oldest)
            return
        self._fail(Unanswered, "Redis does not respond")
        self._replies.abort()

    def _handle_loss(self, why: str) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._fail(Disconnected, why)

    def _fail(self, kind: type[RedisError], why: str) -> None:
        while self._answers:
            self._hand_out(kind(why))

    def _hand_out(self, found: Any) -> None:
        if not self._answers:
            raise Disconnected("Redis sent a reply to no command")
        answer, on_answer, _ = self._answers.popleft()
        if answer.done():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
            return
        try:
            if on_answer is not None:
                on_answer(found)
        except Exception as error:
            answer.set_exception(Disconnected(f"cannot process the reply: {error!r}"))
            raise
        answer.set_result(found)


# Redis addresses: the supported URLs, and connections to the primary.
#
# `redis://`, `rediss://` and `unix://` are read by redis-py.
# `redis+sentinel://[user:password@]host:port[,host:port]/service[/db]` asks Sentinel for the
# primary at each connect. `redis+cluster://[user:password@]host:port[,host:port]` is a cluster.

DRIVER = DriverInfo()
"""Client information that each connection sends. Shared, because redis-py would look up its version
for each connection."""

DEFAULT_PORT = 6379
_SENTINEL_PORT = 26379
_SENTINEL_SECONDS = 5.0


def pool_at(url: str, **options: Any) -> Any:
    """Return a pool of connections to the primary of a URL, without opening one.

    Raises ValueError for an invalid URL. The error does not contain the URL.
    """
    parts = urlsplit(url)
    options = {"driver_info": DRIVER, **options}
    if parts.scheme == "redis+sentinel":
        return sentinel_client(parts, **options).connection_pool
    if parts.scheme == "redis+cluster":
        return ClusterPool(parts, **options)
    pool = redis.asyncio.ConnectionPool.from_url(url, **options)
    heed_cancellation(pool)
    return pool


class ClusterPool:
    """Connections to the node of a cluster that holds a namespace.

    All keys of a namespace are in one slot. The first connection goes to any node, which reports
    the right node (`move_to`).
    """

    def __init__(self, parts: SplitResult, **options: Any) -> None:
        self._seeds = hosts_of(parts, DEFAULT_PORT)
        self._options = {**login_of(parts), **options}
        self._place: tuple[str, int] | None = None

    def make_connection(self) -> redis.asyncio.Connection:
        """Return an unopened connection to the node last passed to `move_to`, which is used once.
        Otherwise any node is chosen."""
        host, port = self._place or random.choice(self._seeds)
        self._place = None
        connection: redis.asyncio.Connection = heedful(redis.asyncio.Connection)(
            host=host, port=port, **self._options
        )
        return connection

    def move_to(self, host: str, port: int) -> None:
        """Open the next connection to this node."""
        self._place = host, port


class _Heedful:
    """Mixin for a connection that stops a command if its task was cancelled during the write.

    redis-py 8.1 limits a write by `asyncio.wait_for`. On Python 3.11, `wait_for` loses a
    cancellation if the write finishes in the same iteration of the event loop, and the task would
    continue.
    """

    async def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        await super().send_packed_command(*args, **kwargs)  # type: ignore[misc]
        if task.cancelling() > before:
            # Otherwise the next command would receive this command's reply.
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise asyncio.CancelledError


@cache
def heedful(connection: type) -> Any:
    """Return a subclass that respects cancellation while a command is written."""
    return type(f"Heedful{connection.__name__}", (_Heedful, connection), {})


def heed_cancellation(pool: Any) -> None:
    """Make new connections of a pool respect cancellation."""
    pool.connection_class = heedful(pool.connection_class)


def sentinel_client(parts: SplitResult, **options: Any) -> Any:
    """Return a redis.asyncio client for the primary of a Sentinel service. Raises ValueError."""
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("a redis+sentinel URL must end with the name of the service")
    sentinel = _Sentinel(  # type: ignore[no-untyped-call]
        hosts_of(parts, _SENTINEL_PORT),
        sentinel_kwargs={
            "socket_timeout": _SENTINEL_SECONDS,
            "socket_connect_timeout": _SENTINEL_SECONDS,
            "decode_responses": True,
            # No retry here: the next Sentinel is asked at once, and the command tries again.
            "retry": Retry(NoBackoff(), 0),
        },
    )
    client = sentinel.master_for(service, db=int(database or 0), **login_of(parts), **options)
    for one in (client, *sentinel.sentinels):
        heed_cancellation(one.connection_pool)
    return client


class _Sentinel(Sentinel):
    """Replaces redis-py's error for a missing primary, because its message contains connection
    data."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        try:
            found: tuple[str, int] = await super().discover_master(service_name)
        except MasterNotFoundError:
            raise MasterNotFoundError(f'no Sentinel knows a primary of "{service_name}"') from None
        return found


async def close_sentinels(pool: Any) -> None:
    """Close a pool's connections to Sentinels, if there are any."""
    manager = getattr(pool, "sentinel_manager", None)
    for sentinel in manager.sentinels if manager else ():
        await sentinel.aclose()


def login_of(parts: SplitResult) -> dict[str, Any]:
    """Return the user and password of a URL as redis-py options."""
    user, at, _ = parts.netloc.rpartition("@")
    if not at:
        return {}
    name, _, password = user.partition(":")
    login = {"password": unquote(password)}
    return {"username": unquote(name), **login} if name else login


def hosts_of(parts: SplitResult, default_port: int) -> list[tuple[str, int]]:
    """Return the hosts and ports in a URL."""
    listed = parts.netloc.rpartition("@")[2].split(",")
    named = (one.rpartition(":") if ":" in one else (one, ":", "") for one in listed)
    return [(host, int(port or default_port)) for host, _, port in named]
