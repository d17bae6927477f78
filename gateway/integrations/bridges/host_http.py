"""What bridges share that run beside a host: its HTTP API, their tasks, and their run."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import signal
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from gateway.client import AsyncClient
from gateway.errors import GatewayError, InvalidRequest, Misconfigured, NotFound, Unreachable
from gateway.models import ApprovalRequest, Reason, new_id
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject

log = logging.getLogger(__name__)

_MOST_BODY = 4 * 1024 * 1024
_CALL_SECONDS = 10.0
_OK, _NOT_FOUND, _BUSY = 200, 404, 409

TRIES = 6
"""How often an answer is posted while the host does not take it. Busy is not counted."""
_MOST_REMEMBERED = 10_000

K = TypeVar("K")
V = TypeVar("V")


class HostTasks:
    """What a bridge does at the same time. An error of one is logged, and ends no other."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin with something, and see to its end."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def finish(self) -> None:
        """Wait until nothing is left, also of what begins meanwhile."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def cancel(self) -> None:
        """End what is left, in the middle of it."""
        for task in self._tasks:
            task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a message of %s was not dealt with: %r", self._host, error)


class Remembered(OrderedDict[K, V]):
    """What passed by, the latest of it."""

    def keep(self, key: K, value: V) -> None:
        """Remember a value, and forget the oldest of too many."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > _MOST_REMEMBERED:
            self.popitem(last=False)


class HostBridge:
    """Asks the gateway what a host's server asks, and tells the host. Lives in one event loop."""

    def __init__(
        self,
        host: str,
        client: AsyncClient,
        api: HostApi,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self._host = host
        self._client = client
        self._server = api
        self._pause = pause
        self._waiting: dict[str, ApprovalRequest] = {}
        self._seen = Remembered[str, None]()
        self._tasks = HostTasks(host)
        self._closing = False

    @property
    def waits(self) -> bool:
        """Whether anything waits for an answer."""
        return bool(self._waiting)

    async def abandon(self) -> None:
        """Withdraw what waits: the host does not wait for it any more."""
        for request in list(self._waiting.values()):
            await self._client.cancel(request, reason=Reason.ABANDONED)

    async def close(self) -> None:
        """Withdraw what waits, and tell the host: it must not wait for a bridge that is gone."""
        self._closing = True
        await self.abandon()
        await self._tasks.finish()

    def _is_new(self, name: str) -> bool:
        """Tell whether to ask about what has this name, which is true once."""
        if name in self._seen or self._closing:
            return False
        self._seen.keep(name, None)
        return True

    async def _post(self, path: str, body: JsonObject) -> int:
        """Post an answer until the host has it, or knows no such question any more; return the last
        status, 0 where it never answered."""
        status = failures = 0
        while failures < TRIES:
            if failures or status:
                await self._pause(1.0)
            try:
                status, _ = await self._server.call("POST", path, body)
            except OSError as error:
                log.warning("%s does not answer: %s", self._host, error)
                status = 0
            if status in (_OK, _NOT_FOUND):
                return status
            failures += status != _BUSY or self._closing
        log.error("%s did not take an answer: status %s", self._host, status)
        return status


class FollowingBridge(HostBridge, ABC):
    """A bridge that learns from a host's events what it waits for."""

    @abstractmethod
    async def look(self) -> None:
        """Take what waits already. Raises OSError."""

    @abstractmethod
    async def follow(self) -> None:
        """Follow the events, for ever."""


def run_until_told(run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    """Run a bridge, which ends once the event is set by a signal; return the exit code."""
    logging.basicConfig(format="gateway: %(message)s")
    try:
        asyncio.run(_run(run))
    except (GatewayError, OSError) as error:
        print(f"gateway: {error}", file=sys.stderr)  # noqa: T201 (a command)
        return error.exit_code if isinstance(error, GatewayError) else Unreachable.exit_code
    return 0


async def _run(run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop.set)
    await run(stop)


def run_follower(make: Callable[[AsyncClient], FollowingBridge], url: str) -> int:
    """Run a bridge that follows the events of the host at `url`; return the exit code."""

    async def run(stop: asyncio.Event) -> None:
        async with AsyncClient.from_env() as client:
            bridge = make(client)
            await bridge.look()
            await tell_ready(client, url)
            following = asyncio.create_task(bridge.follow())
            await stop.wait()
            following.cancel()
            await bridge.close()

    return run_until_told(run)


async def tell_ready(client: AsyncClient, host: str) -> None:
    """Print for whom a bridge asks, once the gateway knows its agent. Raises GatewayError."""
    with suppress(NotFound):  # it answers, and takes the token
        await client.fetch(new_id())
    print(f"gateway: {client.agent} asks for {host}", flush=True)  # noqa: T201 (a command)


class HostApi:
    """Calls a host. Redirections are not followed: they would take the key along."""

    def __init__(self, url: str, key: str | None, *, prefix: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misconfigured(f"{url!r} is no address of a server")
        self._parts = parts
        self._prefix = parts.path.rstrip("/") + prefix
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    async def call(self, method: str, path: str, body: JsonObject | None = None) -> tuple[int, Any]:
        """Return status and JSON of the answer, None where it is none. Raises OSError."""
        return await asyncio.to_thread(self._call, method, path, body)

    async def stream(self, path: str, take: Callable[[Any], None], *, silence: float) -> None:
        """Hand over the events of a stream until it ends; None for one that cannot be read.

        Raises OSError where it does not begin, or is silent for so many seconds.
        """
        loop = asyncio.get_running_loop()
        reader = _Reader(self._connection(silence), self._prefix + path, self._headers)
        ended: asyncio.Future[None] = loop.create_future()

        def tell(action: Callable[..., None], *given: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(action, *given)

        def end(error: OSError | None) -> None:
            if not ended.done():
                ended.set_result(None) if error is None else ended.set_exception(error)

        def read() -> None:
            error: OSError | None = None
            try:
                reader.read(lambda event: tell(take, event))
            except OSError as found:
                error = found
            except (http.client.HTTPException, ValueError) as found:
                error = ConnectionError(f"this is no stream of events: {found}")
            tell(end, error)

        threading.Thread(target=read, name="events", daemon=True).start()
        try:
            await ended
        finally:
            reader.close()

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(self._parts.hostname or "", self._parts.port, timeout=seconds)

    def _call(self, method: str, path: str, body: JsonObject | None) -> tuple[int, Any]:
        connection = self._connection(_CALL_SECONDS)
        sent = None if body is None else json.dumps(body)
        try:
            connection.request(method, f"{self._prefix}{path}", sent, self._headers)
            answer = connection.getresponse()
            raw = answer.read(_MOST_BODY)
        except (http.client.HTTPException, OSError) as error:
            where = f"{self._parts.scheme}://{self._parts.netloc}"
            raise ConnectionError(f"{where} does not answer as it should: {error}") from error
        finally:
            connection.close()
        try:
            return answer.status, json.loads(raw)
        except ValueError:
            return answer.status, None


def _event(line: bytes) -> Any:
    try:
        return parse(line, max_bytes=_MOST_BODY)
    except InvalidRequest:
        return None


class _Reader:
    """Reads one stream in a thread of its own, until another one closes it."""

    def __init__(
        self, connection: http.client.HTTPConnection, path: str, headers: dict[str, str]
    ) -> None:
        self._connection = connection
        self._path = path
        self._headers = headers
        self._socket: socket.socket | None = None
        self._closed = False

    def read(self, take: Callable[[Any], None]) -> None:
        """Read events to the end. Raises OSError, HTTPException, and ValueError for rubbish."""
        try:
            self._connection.connect()
            self._socket = self._connection.sock
            self._connection.request("GET", self._path, headers=self._headers)
            with self._connection.getresponse() as answer:
                if answer.status != _OK:
                    raise ConnectionError(f"the stream was refused with status {answer.status}")
                while not self._closed and (line := answer.readline(_MOST_BODY)):
                    if len(line) >= _MOST_BODY:
                        raise ValueError("an event has more than 4 MiB")
                    if line.startswith(b"data:"):
                        take(_event(line[len(b"data:") :]))
        finally:
            self._connection.close()

    def close(self) -> None:
        """End the reading."""
        self._closed = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended by itself
                return
