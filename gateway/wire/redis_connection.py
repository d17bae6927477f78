"""Where Redis is, and many commands over one connection without waiting.

A pool lends a connection to each command, which costs more than the command itself. Here commands
share the connection, and those that come together are sent together.

redis-py makes the connection: addresses, TLS, credentials, the greeting. Reading through its
streams costs two turns of the event loop and a dozen calls for each reply, while somebody waits. So
`read_replies` takes over the transport and parses replies in the same turn in which they arrive.

redis-py keeps the transport in private attributes. This module alone uses them; where a version of
redis-py no longer has them, replies are read through its public calls instead.
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
"""Called with each reply; with an exception where the server refused a command. What it raises
ends the connection."""

Lost = Callable[[str], None]
"""Called once, with the reason, when the connection has ended."""


def read_replies(
    connection: Any, take: Take, lost: Lost, most_bytes: float = math.inf
) -> DirectReplies | PublicReplies:
    """Hand each reply of a connection to `take`; the connection is used for nothing else.

    Replies that the server pushes unasked are dropped. A reply of more than `most_bytes` ends the
    connection; where redis-py's public calls are used, its parser sets the limit.
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
    """Receives from the transport itself. See `read_replies`."""

    def __init__(
        self, transport: Any, reader: Any, take: Take, lost: Lost, most_bytes: float
    ) -> None:
        self._transport = transport
        self._reader = reader
        self._take = take
        self._lost = lost
        self._most_bytes = most_bytes
        self._incomplete_bytes = 0  # received since the last whole reply
        self._why = "the connection was closed"
        self._streams = transport.get_protocol()
        transport.set_protocol(self)

    @property
    def open(self) -> bool:
        """Whether the connection is up, as far as is known."""
        return not self._transport.is_closing()

    def write(self, packed: bytes) -> None:
        """Send packed commands; raises ConnectionError when the connection is lost."""
        if not self.open:
            raise Disconnected(self._why)
        self._transport.write(packed)

    def abort(self) -> None:
        """Disconnect at once and drop what was not sent yet; `lost` is called soon after."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Hand out the replies that are complete."""
        try:
            self._hand_out(data)
        except Exception as error:
            # Whatever failed, later replies can no longer be matched to their commands.
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
            raise InvalidResponse(f"a reply of more than {self._most_bytes} bytes")

    def eof_received(self) -> bool:
        """Close our side too."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Report the loss, also to redis-py's streams, which may be waiting for it."""
        self._streams.connection_lost(error)
        self._lost(f"the connection was lost: {error}" if error else self._why)


class PublicReplies:
    """Sends and receives through redis-py's public calls, in a task. See `read_replies`."""

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
        """Send packed commands; raises ConnectionError when the connection is lost."""
        if not self.open:
            raise Disconnected(self._why)
        self._outgoing.put_nowait(packed)

    def abort(self) -> None:
        """Disconnect and drop what was not sent yet; `lost` is called soon after."""
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
        """Hand out replies until the connection ends; nothing is sent on it after a failure."""
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
        except AuthenticationError as refusal:  # redis-py has disconnected after this one
            self._take(refusal)
            raise

    def _end(self, _: asyncio.Task[None]) -> None:
        self.open = False
        self._lost(self._why)


_ANSWER_SECONDS = 5.0

_OnAnswer = Callable[[Any], None] | None


class Multiplexer:
    """Sends commands over one connection of `pool`, which has no socket timeout of its own.

    Commands on a connection that is lost are sent again after each of `pauses`, in seconds, so they
    must be idempotent. A caller that is cancelled does not affect the others. With `reports_loss`
    the first command after a lost connection fails, even when none was under way; otherwise a new
    connection is opened silently. No reply may have more than `most_bytes`.

    A server that is no primary any more is left: the next connection is made anew, to the node that
    it named where the pool can `move_to` one.
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
        """Run a script that the server has kept."""
        packed = hiredis.pack_command(("EVALSHA", sha, count, *words))  # type: ignore[arg-type]
        return (await self._deliver(packed, 1))[0]

    async def eval(self, text: str, count: int, *words: str | int) -> Any:
        """Run a script from its text, which the server keeps for `evalsha`."""
        return await self.send("EVAL", text, count, *words)

    async def send(self, *words: str | int, on_answer: _OnAnswer = None) -> Any:
        """Send a command and return its reply. A blocking command delays all others.

        `on_answer` is called with the reply before the caller resumes, unless it is an error.
        """
        return (await self._deliver(hiredis.pack_command(words), 1, on_answer))[0]  # type: ignore[arg-type]

    async def send_all(self, *commands: Sequence[str | int]) -> list[Any]:
        """Send commands together and return their replies. They run in this order, with commands of
        others possibly between them."""
        packed = b"".join(map(hiredis.pack_command, commands))  # type: ignore[arg-type]
        return await self._deliver(packed, len(commands))

    async def aclose(self) -> None:
        """Disconnect for good."""
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
                raise Disconnected("the connection was lost")
            session = await self._open()
        try:
            return await session.ask(packed, count, on_answer)
        except (Disconnected, Unanswered, ReadOnlyError, MovedError) as error:
            if session is self._session:
                await self._discard_session()
            if not isinstance(error, MovedError) or not hasattr(self._pool, "move_to"):
                raise
            self._pool.move_to(error.host, error.port)
            raise Disconnected(f"another node has it now: {error}") from error

    async def _discard_session(self) -> None:
        """Drop a lost connection; the next command opens another."""
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
    """One connection, and the callers that wait for replies on it."""

    def __init__(self, connection: Any, most_bytes: float) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._answers: deque[tuple[asyncio.Future[Any], _OnAnswer, float]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._replies = read_replies(connection, self._hand_out, self._handle_loss, most_bytes)

    @property
    def alive(self) -> bool:
        """Whether commands can be sent on it."""
        return self._replies.open

    async def ask(self, packed: bytes, count: int, on_answer: _OnAnswer) -> list[Any]:
        """Send `count` packed commands; return their replies, or raise the first error."""
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
        """Disconnect; all waiting callers fail."""
        self._replies.abort()
        await self._connection.disconnect()

    def _check_oldest(self) -> None:
        """Give up the connection when its oldest command has waited too long. One timer serves all
        commands, which is cheaper than one for each."""
        self._watch = None
        if not self._answers:
            return
        due = self._answers[0][2] + _ANSWER_SECONDS
        if self._loop.time() < due:
            self._watch = self._loop.call_at(due, self._check_oldest)
            return
        self._fail(Unanswered, "Redis does not answer")
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
            raise Disconnected("a reply came without a command")
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
            answer.set_exception(Disconnected(f"the answer cannot be used: {error!r}"))
            raise
        answer.set_result(found)


# Where Redis is: the forms that its URL may have, and connections to its primary.
#
# `redis://`, `rediss://` and `unix://` as redis-py reads them;
# `redis+sentinel://[user:password@]host:port[,host:port]/service[/db]` asks Sentinel for the
# primary at every connect; `redis+cluster://[user:password@]host:port[,host:port]` leads to a
# cluster.

DRIVER = DriverInfo()
"""What each connection tells the server of redis-py, which would look its version up for each."""

DEFAULT_PORT = 6379
_SENTINEL_PORT = 26379
_SENTINEL_SECONDS = 5.0


def pool_at(url: str, **options: Any) -> Any:
    """Return a pool whose connections lead to the primary of a URL. It opens nothing.

    Raises ValueError for what is no such URL; the error does not tell it.
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
    """Connections to the one node of a cluster that holds a namespace.

    A namespace is in one slot. Any node is asked first, and says where that is: see `move_to`.
    """

    def __init__(self, parts: SplitResult, **options: Any) -> None:
        self._seeds = hosts_of(parts, DEFAULT_PORT)
        self._options = {**login_of(parts), **options}
        self._place: tuple[str, int] | None = None

    def make_connection(self) -> redis.asyncio.Connection:
        """Return a connection that is not open yet: to the node that was named last, once, and
        from then on to any until another is named."""
        host, port = self._place or random.choice(self._seeds)
        self._place = None
        connection: redis.asyncio.Connection = heedful(redis.asyncio.Connection)(
            host=host, port=port, **self._options
        )
        return connection

    def move_to(self, host: str, port: int) -> None:
        """Have the next connection lead there, as a node said."""
        self._place = host, port


class _Heedful:
    """Mixed into a connection: ends the command of a task that was cancelled while it was written.

    redis-py 8.1 limits a write by `asyncio.wait_for`. On Python 3.11 that returns as if nothing had
    happened where the write is done in the same turn, and the task would go on for ever.
    """

    async def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        await super().send_packed_command(*args, **kwargs)  # type: ignore[misc]
        if task.cancelling() > before:
            # Its reply would be taken for that of the next command.
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise asyncio.CancelledError


@cache
def heedful(connection: type) -> Any:
    """Return a class of connections that heeds cancellation while a command is written."""
    return type(f"Heedful{connection.__name__}", (_Heedful, connection), {})


def heed_cancellation(pool: Any) -> None:
    """Have the connections that a pool makes from now on heed cancellation."""
    pool.connection_class = heedful(pool.connection_class)


def sentinel_client(parts: SplitResult, **options: Any) -> Any:
    """Return a redis.asyncio client of the primary of a Sentinel service. Raises ValueError."""
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("a redis+sentinel URL names the service")
    sentinel = _Sentinel(  # type: ignore[no-untyped-call]
        hosts_of(parts, _SENTINEL_PORT),
        sentinel_kwargs={
            "socket_timeout": _SENTINEL_SECONDS,
            "socket_connect_timeout": _SENTINEL_SECONDS,
            "decode_responses": True,
            # The next one is asked at once; the command that wants to know tries again itself.
            "retry": Retry(NoBackoff(), 0),
        },
    )
    client = sentinel.master_for(service, db=int(database or 0), **login_of(parts), **options)
    for one in (client, *sentinel.sentinels):
        heed_cancellation(one.connection_pool)
    return client


class _Sentinel(Sentinel):
    """Says in a sentence that there is no primary; redis-py prints its connections."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        try:
            found: tuple[str, int] = await super().discover_master(service_name)
        except MasterNotFoundError:
            raise MasterNotFoundError(
                f"no Sentinel answers with a primary of {service_name}"
            ) from None
        return found


async def close_sentinels(pool: Any) -> None:
    """Close the connections to Sentinels behind a pool, if there are any."""
    manager = getattr(pool, "sentinel_manager", None)
    for sentinel in manager.sentinels if manager else ():
        await sentinel.aclose()


def login_of(parts: SplitResult) -> dict[str, Any]:
    """Return the user and password of a URL, as redis-py names them."""
    user, at, _ = parts.netloc.rpartition("@")
    if not at:
        return {}
    name, _, password = user.partition(":")
    login = {"password": unquote(password)}
    return {"username": unquote(name), **login} if name else login


def hosts_of(parts: SplitResult, default_port: int) -> list[tuple[str, int]]:
    """Return the hosts and ports that a URL lists."""
    listed = parts.netloc.rpartition("@")[2].split(",")
    named = (one.rpartition(":") if ":" in one else (one, ":", "") for one in listed)
    return [(host, int(port or default_port)) for host, _, port in named]
