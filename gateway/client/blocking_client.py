"""Ask for approvals from threads: `Client` runs an AsyncClient on a loop in its own thread."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from typing import Any, Concatenate, ParamSpec, TypeVar

from gateway.client.async_client import AsyncClient, OnEvent, log_report_failure
from gateway.client.config import CONNECT_TIMEOUT, name_agent
from gateway.client.transport import Say, Transport, say_on_stderr
from gateway.errors import Conflict, GatewayError, Unauthorized

_GOODBYE_SECONDS = 3.0
_WAIT_FOR_PEOPLE = ("ask", "asks", "outcome", "plan", "question", "send", "wait", "wait_id")
_UNUSABLE = "this client is closed, or was created before a fork; create a new client"

P = ParamSpec("P")
R = TypeVar("R")


def _make_blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Client, P], R]:
    """Return a blocking method with the signature and docstring of a coroutine method."""

    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        _warn_inside_loop(method.__name__)
        return self.wait_for_result(self.start(method(self.inner, *args, **kwargs)))

    call.__doc__, call.__name__ = method.__doc__, method.__name__
    return call


def _warn_inside_loop(name: str) -> None:
    """Warn if the caller blocks a running event loop while it waits for a person."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gateway."):
        level, frame = level + 1, frame.f_back  # point to the caller's own line
    if name in _WAIT_FOR_PEOPLE:
        warnings.warn(
            "a blocking call waits for a person inside a running event loop, and blocks the loop "
            "until then: gate an `async def`, use AsyncClient, or call it with asyncio.to_thread",
            RuntimeWarning,
            stacklevel=level,
        )


def _log_failures(method: Callable[P, None]) -> Callable[P, None]:
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        with log_report_failure():
            method(*args, **kwargs)

    call.__doc__, call.__name__ = method.__doc__, method.__name__
    return call


class Client:
    """Ask for approvals and block the calling thread. Has the methods of `AsyncClient`.

    Several threads may share a client. A forked child process must make a new client.
    """

    ask = _make_blocking(AsyncClient.ask)
    asks = _make_blocking(AsyncClient.asks)
    outcome = _make_blocking(AsyncClient.outcome)
    plan = _make_blocking(AsyncClient.plan)
    question = _make_blocking(AsyncClient.question)
    submit = _make_blocking(AsyncClient.submit)
    send = _make_blocking(AsyncClient.send)
    wait = _make_blocking(AsyncClient.wait)
    wait_id = _make_blocking(AsyncClient.wait_id)
    fetch = _make_blocking(AsyncClient.fetch)
    report = _log_failures(_make_blocking(AsyncClient.report))
    cancel = _make_blocking(AsyncClient.cancel)
    end_session = _make_blocking(AsyncClient.end_session)

    def __init__(
        self,
        transport: Transport,
        *,
        public_key: str | None = None,
        on_event: OnEvent | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
        say: Say | None = say_on_stderr,
    ) -> None:
        """Start the thread, and connect. See `AsyncClient` for the options."""
        inner = AsyncClient(
            transport,
            public_key=public_key,
            on_event=on_event,
            connect_timeout=connect_timeout,
            say=say,
        )
        self._open(inner)

    @classmethod
    def from_env(
        cls,
        agent: str | None = None,
        *,
        on_event: OnEvent | None = None,
        say: Say | None = say_on_stderr,
    ) -> Client:
        """Return a client for the configured gateway. See `AsyncClient.from_env` for the errors."""
        self = cls.__new__(cls)
        self._open(AsyncClient.from_env(agent, on_event=on_event, say=say))
        return self

    def _open(self, inner: AsyncClient) -> None:
        self.inner = inner
        self.request = inner.request
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._running: set[Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="gateway client", daemon=True
        )
        self._thread.start()
        self.wait_for_result(self.start(inner.__aenter__()))

    @property
    def agent(self) -> str:
        """The name of the agent for which this client makes requests."""
        return self.inner.agent

    @property
    def usable(self) -> bool:
        """Whether the client is open, and this is the process that made it."""
        return os.getpid() == self._pid and not self._closed

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        """Start a coroutine on the client's loop, and return its future. Raises GatewayError if the
        client is closed, or after a fork."""
        context = copy_context()

        async def in_context() -> R:
            # Keep the caller's session and tool.
            return await asyncio.get_running_loop().create_task(work, context=context)

        if os.getpid() == self._pid:  # in a forked child the lock may stay locked for ever
            with self._lock:
                if not self._closed:
                    future = asyncio.run_coroutine_threadsafe(in_context(), self._loop)
                    self._running.add(future)
                    future.add_done_callback(self._running.discard)
                    return future
        work.close()
        raise GatewayError(_UNUSABLE)

    async def run_on_loop(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the client's loop, and return its result. Cancelling this call also
        cancels the request. Raises GatewayError if the client is closed meanwhile."""
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            return await asyncio.wrap_future(self.start(work))
        except asyncio.CancelledError:
            if not self.usable and not (task and task.cancelling() > before):
                raise GatewayError(_UNUSABLE) from None
            if self.usable:  # the process may end at once: wait briefly for the cancellation
                goodbye = self._finish_cancelled()
                await asyncio.wait({asyncio.wrap_future(goodbye)}, timeout=_GOODBYE_SECONDS)
            raise

    def wait_for_result(self, future: Future[R]) -> R:
        """Block until a future of `start` is done, and return its result. Ctrl-C cancels the
        request. Raises GatewayError if the client is closed meanwhile."""
        try:
            return future.result()
        except CancelledError:
            if self.usable:
                raise
            raise GatewayError(_UNUSABLE) from None
        except BaseException:
            if future.cancel():
                # The loop cancels the request: wait briefly for that.
                self._await_cancelled()
            raise

    def close(self, *, withdraw: bool = True) -> None:
        """Cancel pending requests, disconnect, and end the thread. If the argument is False, the
        requests stay pending."""
        if not self.usable:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.inner.leave_waiting(not withdraw)
        for future in list(self._running):
            future.cancel()  # unblocks its caller at once
        self._await_cancelled()
        leaving = self.inner.close(withdraw=withdraw)
        asyncio.run_coroutine_threadsafe(leaving, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _await_cancelled(self) -> None:
        with suppress(TimeoutError):
            self._finish_cancelled().result(_GOODBYE_SECONDS)

    def _finish_cancelled(self) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(_finish_cancelled_tasks(), self._loop)

    def __enter__(self) -> Client:
        """Return this client, so that `with` closes it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Cancel pending requests, and disconnect."""
        self.close()


async def _finish_cancelled_tasks() -> None:
    """Wait until the cancelled tasks of this loop have ended."""
    cancelled = [
        task
        for task in asyncio.all_tasks()
        if task.cancelling() and task is not asyncio.current_task()
    ]
    await asyncio.gather(*cancelled, return_exceptions=True)


class _ProcessClient:
    """The default clients of this process, one for each agent. Each is made at its first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str | None, Client] = {}
        self._replaced: Client | None = None

    def get(self, agent: str | None) -> Client:
        """Return the client of an agent, and after a fork a new client. Raises Unreachable if no
        gateway is found."""
        with self._lock:
            if self._replaced is not None and self._replaced.usable:
                return self._replaced
            found = self._made.get(agent)
            if found is None or not found.usable:
                found = self._made[agent] = self._make(agent)
            return found

    def _make(self, agent: str | None) -> Client:
        try:
            return Client.from_env(agent)
        except (Unauthorized, Conflict):  # the gateway does not enrol this name
            if agent is None:
                raise
            return Client.from_env()

    @contextmanager
    def replace_inside(self, client: Client) -> Iterator[None]:
        """Use this client for every agent inside the block."""
        with self._lock:
            before, self._replaced = self._replaced, client
        try:
            yield
        finally:
            with self._lock:
                self._replaced = before


_chosen: ContextVar[Client | None] = ContextVar("gateway_client", default=None)
_shared = _ProcessClient()


def current_client(host: str | None = None) -> Client:
    """Return the client that `use_client` set, or else the default client of this process.

    `host` is the name of the calling framework. That is also the agent's name, unless a setting
    gives another name or the gateway rejects it. Raises Unreachable if no gateway is found.
    """
    return _chosen.get() or _shared.get(name_agent(host) if host else None)


@contextmanager
def use_client(client: Client, *, everywhere: bool = False) -> Iterator[Client]:
    """Make gated code inside the block ask through `client`, and yield the client.

    The client is set for the current context. With `everywhere`, it is also set for all threads
    that have not set another client.
    """
    token = _chosen.set(client)
    try:
        with _shared.replace_inside(client) if everywhere else nullcontext():
            yield client
    finally:
        _chosen.reset(token)
