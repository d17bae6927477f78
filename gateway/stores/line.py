"""One connection for all scripts of a process: each is sent at once, the answers come in order.

A pool lends a connection to each command and takes it back, which costs more than the command. Here
nothing is lent, and commands that come together travel together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as Unanswered

from gateway.tasks import ended

_ANSWER_SECONDS = 5.0
_PAUSES = (0.05, 0.1, 0.2)
"""Seconds before a script is sent again, as long as the pool's commands wait."""


class Line:
    """Runs scripts over one connection of `pool`, which has no socket timeout of its own.

    What was sent on a connection that is lost is sent again: scripts can bear that, as they compare
    revisions. Whoever stops waiting for an answer disturbs nobody else.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._session: _Session | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def evalsha(self, sha: str, count: int, *words: str | int) -> Any:
        """Run a script that the server knows."""
        return await self._ask("EVALSHA", sha, count, *words)

    async def eval(self, text: str, count: int, *words: str | int) -> Any:
        """Run a script, and have the server know it from then on."""
        return await self._ask("EVAL", text, count, *words)

    async def aclose(self) -> None:
        """Disconnect for good."""
        self._closed = True
        if self._session is not None:
            await ended(self._session.reader)

    async def _ask(self, *words: str | int) -> Any:
        command = hiredis.pack_command(words)  # type: ignore[arg-type]
        for pause in _PAUSES:
            try:
                return await self._once(command)
            except (Disconnected, Unanswered):
                await asyncio.sleep(pause)
        return await self._once(command)

    async def _once(self, command: bytes) -> Any:
        session = self._session
        if session is None or not session.connection.is_connected:
            session = await self._open()
        return await session.ask(command)

    async def _open(self) -> _Session:
        async with self._opening:
            if self._closed:
                raise RedisError("the gateway closed its connection")
            if self._session is None or not self._session.connection.is_connected:
                connection = self._pool.make_connection()
                await connection.connect()
                self._session = _Session(connection)
            return self._session


class _Session:
    """One connection from its beginning to its end, and who waits for answers on it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._answers: deque[asyncio.Future[Any]] = deque()
        self.reader = asyncio.create_task(self._read(), name="script answers")

    async def ask(self, command: bytes) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # It is written before anything is awaited, so answers come in the order of this queue.
        self._answers.append(answer)
        try:
            await self.connection.send_packed_command(command, check_health=False)
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            await self.connection.disconnect(nowait=True)
            raise Unanswered("Redis does not answer") from None
        finally:
            answer.cancel()

    async def _read(self) -> None:
        """Hand out answers until the connection is lost; then nobody is left waiting."""
        why = "the gateway closed the connection"
        try:
            while True:
                self._hand_out(await self._next())
        except (RedisError, OSError) as error:
            why = f"the connection was lost: {error}"
        finally:
            while self._answers:
                self._hand_out(Disconnected(why))
            await self.connection.disconnect(nowait=True)

    async def _next(self) -> Any:
        try:
            return await self.connection.read_response()
        except ResponseError as error:
            return error

    def _hand_out(self, found: Any) -> None:
        answer = self._answers.popleft()
        if answer.done():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)
