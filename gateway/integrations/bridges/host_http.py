"""Shared code of the bridges to HTTP servers of coding agents ("hosts"). Start at HostBridge."""

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
"""The number of attempts to post an answer. A reply "busy" does not count."""
_MOST_REMEMBERED = 10_000

K = TypeVar("K")
V = TypeVar("V")


class HostTasks:
    """The parallel tasks of a bridge. An error of one task is logged, and does not end other
    tasks."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task, and log its error."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def finish(self) -> None:
        """Wait until all tasks have ended, including those that start meanwhile."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def cancel(self) -> None:
        """Cancel the running tasks."""
        for task in self._tasks:
            task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("cannot handle a message of %s: %r", self._host, error)


class Remembered(OrderedDict[K, V]):
    """A dict that keeps only the latest entries."""

    def keep(self, key: K, value: V) -> None:
        """Set a value, and drop the oldest entry if there are too many."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > _MOST_REMEMBERED:
            self.popitem(last=False)


class HostBridge:
    """Ask the gateway about a host's questions, and answer the host. Use it in one event loop
    only."""

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
        """Whether any request is pending."""
        return bool(self._waiting)

    async def abandon(self) -> None:
        """Cancel all pending requests, because the host does not wait any more."""
        for request in list(self._waiting.values()):
            await self._client.cancel(request, reason=Reason.ABANDONED)

    async def close(self) -> None:
        """Cancel all pending requests, and answer the host, so that the host does not wait
        forever."""
        self._closing = True
        await self.abandon()
        await self._tasks.finish()

    def _is_new(self, name: str) -> bool:
        """Return whether the question `name` is new. Returns True only for the first call with this
        name."""
        if name in self._seen or self._closing:
            return False
        self._seen.keep(name, None)
        return True

    async def _post(self, path: str, body: JsonObject) -> int:
        """Post an answer repeatedly until the host accepts it, or does not know the question any
        more. Return the last HTTP status, 0 without a response."""
        status = failures = 0
        while failures < TRIES:
            if failures or status:
                await self._pause(1.0)
            try:
                status, _ = await self._server.call("POST", path, body)
            except OSError as error:
                log.warning("%s does not respond: %s", self._host, error)
                status = 0
            if status in (_OK, _NOT_FOUND):
                return status
            failures += status != _BUSY or self._closing
        log.error("%s did not accept an answer: status %s", self._host, status)
        return status


class FollowingBridge(HostBridge, ABC):
    """A bridge that follows the events of a host to find its questions."""

    @abstractmethod
    async def look(self) -> None:
        """Handle the questions that are already open. Raises OSError."""

    @abstractmethod
    async def follow(self) -> None:
        """Follow the events until this task is cancelled."""


def run_until_told(run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    """Run a bridge, and pass it an event that a stop signal sets; return the exit code."""
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
    """Call the gateway as a test, then print that the bridge is ready. Raises GatewayError."""
    with suppress(NotFound):  # the gateway answers, and accepts the token
        await client.fetch(new_id())
    print(f"gateway: {client.agent} asks for {host}", flush=True)  # noqa: T201 (a command)


class HostApi:
    """The HTTP API of a host. Redirects are not followed, because they could send the key
    elsewhere."""

    def __init__(self, url: str, key: str | None, *, prefix: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misconfigured(f"{url!r} is not the URL of a server: use http(s)://HOST[:PORT]")
        self._parts = parts
        self._prefix = parts.path.rstrip("/") + prefix
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    async def call(self, method: str, path: str, body: JsonObject | None = None) -> tuple[int, Any]:
        """Return the status and the JSON of the response, or None for other content. Raises
        OSError."""
        return await asyncio.to_thread(self._call, method, path, body)

    async def stream(self, path: str, take: Callable[[Any], None], *, silence: float) -> None:
        """Call `take` with each event of a stream until the stream ends, and with None for an
        invalid event.

        Raises OSError if the stream does not start, or is silent for `silence` seconds.
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
                error = ConnectionError(f"the response is not a stream of events: {found}")
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
            raise ConnectionError(
                f"{where} does not respond, or does not speak HTTP: {error}"
            ) from error
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
    """Read one stream in a separate thread, until another thread closes it."""

    def __init__(
        self, connection: http.client.HTTPConnection, path: str, headers: dict[str, str]
    ) -> None:
        self._connection = connection
        self._path = path
        self._headers = headers
        self._socket: socket.socket | None = None
        self._closed = False

    def read(self, take: Callable[[Any], None]) -> None:
        """Read events to the end. Raises OSError, HTTPException, or ValueError for invalid data."""
        try:
            self._connection.connect()
            self._socket = self._connection.sock
            self._connection.request("GET", self._path, headers=self._headers)
            with self._connection.getresponse() as answer:
                if answer.status != _OK:
                    raise ConnectionError(
                        f"the server refused the event stream with status {answer.status}"
                    )
                while not self._closed and (line := answer.readline(_MOST_BODY)):
                    if len(line) >= _MOST_BODY:
                        raise ValueError("an event has more than 4 MiB")
                    if line.startswith(b"data:"):
                        take(_event(line[len(b"data:") :]))
        finally:
            self._connection.close()

    def close(self) -> None:
        """Stop reading, from any thread."""
        self._closed = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:  # the stream has already ended
                return
