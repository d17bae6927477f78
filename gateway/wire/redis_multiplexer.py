"""Sends many commands over one Redis connection without waiting; replies come in order.

A pool lends a connection to each command, which costs more than the command itself. Here commands
share the connection, and those that come together are sent together.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as Unanswered

from gateway.wire.redis_replies import read_replies

_ANSWER_SECONDS = 5.0

_OnAnswer = Callable[[Any], None] | None


class Multiplexer:
    """Sends commands over one connection of `pool`, which has no socket timeout of its own.

    Commands on a connection that is lost are sent again after each of `pauses`, in seconds, so they
    must be idempotent. A caller that is cancelled does not affect the others. With `reports_loss`
    the first command after a lost connection fails, even when none was under way; otherwise a new
    connection is opened silently. No reply may have more than `most_bytes`.
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
        except (Disconnected, Unanswered):
            if session is self._session:
                await self._discard_session()
            raise

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
