"""Talk to the gateway over HTTP, with the standard library in threads. Start at HttpTransport."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from gateway.client.config import Backoff
from gateway.client.http_connection import HttpConnection, HttpPool, seconds_left
from gateway.client.transport import Process, StepUpCodes, chunks, inbox_at, is_final, state_of
from gateway.errors import Busy, GatewayError, NotFound, Unreachable, Unverified
from gateway.models import ApprovalRequest, Reason, Report, State
from gateway.wire.codec import plain

# Waits for many requests with few HTTP calls, because HTTP has no reply stream.

MOST_POLLS = 16
_LOOK_SECONDS = 1.0
_LOOK_IDS = 500
_LONGEST_PAUSE = 2.0

Poll = Callable[[], Awaitable[State]]
OpenPoll = Callable[[str], AbstractAsyncContextManager[Poll]]
LookUp = Callable[[Sequence[str]], Awaitable[Mapping[str, State | GatewayError]]]
"""Returns the states of some requests, by id."""


class HttpWaits:
    """The waits of one process. Each of up to sixteen requests has a long poll.

    Further requests, and requests that the gateway refuses a long poll, share one lookup per second
    for up to 500 requests.
    """

    def __init__(self, open_poll: OpenPoll, look_up: LookUp) -> None:
        self._open_poll = open_poll
        self._look_up = look_up
        self._polls = 0
        self._watches: dict[str, asyncio.Task[State]] = {}
        self._waiters: Counter[str] = Counter()
        self._shared: dict[str, asyncio.Future[State]] = {}
        self._lookups: asyncio.Task[None] | None = None

    async def wait(self, request_id: str, *, until: float) -> State:
        """Return the final state. Raises TimeoutError at `until`. If several callers wait for one
        id, they share a wait."""
        watch = self._watches.get(request_id)
        if watch is None:
            watch = self._watches[request_id] = asyncio.create_task(self._watch(request_id))
        self._waiters[request_id] += 1
        try:
            async with asyncio.timeout_at(until):
                return await asyncio.shield(watch)
        finally:
            self._waiters[request_id] -= 1
            if not self._waiters[request_id]:
                del self._waiters[request_id], self._watches[request_id]
                await _cancel_and_wait(watch)

    async def close(self) -> None:
        """Cancel all waits."""
        for watch in list(self._watches.values()):
            watch.cancel()
        if self._lookups is not None:
            await _cancel_and_wait(self._lookups)

    async def _watch(self, request_id: str) -> State:
        if self._polls < MOST_POLLS:
            self._polls += 1
            try:
                return await self._poll_until_final(request_id)
            except Busy:
                pass  # the gateway refuses this agent further long polls
            finally:
                self._polls -= 1
        return await self._wait_for_shared(request_id)

    async def _poll_until_final(self, request_id: str) -> State:
        backoff = Backoff()
        async with self._open_poll(request_id) as poll:
            while True:
                try:
                    state = await poll()
                except Busy:
                    raise
                except Unreachable:
                    await asyncio.sleep(backoff.pause())
                    continue
                backoff = Backoff()
                if is_final(state):
                    return state

    async def _wait_for_shared(self, request_id: str) -> State:
        self._shared[request_id] = asyncio.get_running_loop().create_future()
        if self._lookups is None:
            self._lookups = asyncio.create_task(self._look_up_shared(), name="gateway lookups")
        try:
            return await self._shared[request_id]
        finally:
            del self._shared[request_id]

    async def _look_up_shared(self) -> None:
        """Repeat the shared lookup as long as any request uses it."""
        try:
            while self._shared:
                pause = _LOOK_SECONDS
                for ids in chunks(list(self._shared), _LOOK_IDS):
                    pause = max(pause, await self._look_up_once(ids))
                await asyncio.sleep(pause)
        finally:
            self._lookups = None

    async def _look_up_once(self, ids: Sequence[str]) -> float:
        """Look up some requests, and return the shortest pause before the next lookup."""
        try:
            found = await self._look_up(ids)
        except Busy as error:
            return error.retry_after
        except Unreachable:
            return _LONGEST_PAUSE
        except GatewayError as error:
            for request_id in ids:
                self._fail(request_id, error)
            return 0.0
        for request_id in ids:
            future = self._shared.get(request_id)
            state = found.get(request_id, NotFound(f"this agent has no request {request_id}"))
            if isinstance(state, GatewayError):
                self._fail(request_id, state)
            elif is_final(state) and future is not None and not future.done():
                future.set_result(state)
        return 0.0

    def _fail(self, request_id: str, error: GatewayError) -> None:
        future = self._shared.get(request_id)
        if future is not None and not future.done():
            future.set_exception(error)


async def _cancel_and_wait(task: asyncio.Task[State] | asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end. Its outcome is ignored."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


T = TypeVar("T")
_POLL_SECONDS = 25.0
_SLACK_SECONDS = 10.0
_MOST_SENDERS = 8


class HttpTransport:
    """A `Transport` over HTTP. See `HttpWaits` for how the transport waits for decisions."""

    def __init__(self, url: str, token: str, agent: str) -> None:
        self.agent = agent
        self.url, self._token = url, token
        self._http = HttpPool(url, token)
        self.process = Process()
        self.numbers = StepUpCodes()
        self.inbox = inbox_at(url)
        # Waiters have separate threads, so that they cannot delay a cancellation.
        self._waiting = ThreadPoolExecutor(MOST_POLLS, thread_name_prefix="gateway-wait")
        self._sending = ThreadPoolExecutor(_MOST_SENDERS, thread_name_prefix="gateway-send")
        self._waits = HttpWaits(self._open_poll, self._look_up)
        self._settled: dict[str, State] = {}
        self._deadlines: dict[str, float] = {}
        self._left = False

    async def __aenter__(self) -> HttpTransport:
        """Return this transport. It connects at its first call."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Abort waiting calls, and end the threads."""
        self._left = True
        await self._waits.close()
        self._http.close()
        for threads in (self._waiting, self._sending):
            threads.shutdown(wait=False, cancel_futures=True)

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Submit a request, and save its deadline and decision for later calls."""
        process = self.process.token
        body = {"request": plain(request), "process": process, "detached": detached}
        answer, date = await self._exchange("POST", "/v1/requests", body)
        state = state_of(answer)
        self.numbers.note(state)
        left = None if request.timeout is not None else seconds_left(answer, date)
        if left is not None and not detached:
            self._deadlines[request.id] = asyncio.get_running_loop().time() + left
        if is_final(state) and not detached:
            self._settled[request.id] = state

    async def deadline(self, request_id: str) -> float | None:
        """Return the deadline in the reply to `submit`, or None if the reply had none."""
        return self._deadlines.pop(request_id, None)

    async def wait(self, request_id: str, *, until: float) -> State:
        """Return the final state. Raises TimeoutError at `until`."""
        settled = self._settled.pop(request_id, None)  # decided when it was submitted
        return settled or await self._waits.wait(request_id, until=until)

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Cancel a request."""
        self._settled.pop(request_id, None)
        self._deadlines.pop(request_id, None)
        body = {"reason": reason.value, "message": message}
        await self._call("POST", f"/v1/requests/{request_id}/cancel", body)

    async def consume(self, request_id: str) -> State:
        """Claim the approval, and return the state that contains the approval."""
        body = {"process": self.process.token}
        return state_of(await self._call("POST", f"/v1/requests/{request_id}/consume", body))

    async def report(self, request_id: str, report: Report) -> None:
        """Report the result of the action."""
        await self._call("POST", f"/v1/requests/{request_id}/report", {"report": plain(report)})

    async def fetch(self, request_id: str) -> State:
        """Return the current state of a request, with its record."""
        return state_of(await self._call("GET", f"/v1/requests/{request_id}?record=true"))

    async def end_session(self, session: str) -> None:
        """End a session. An unknown session is ignored."""
        try:
            await self._call("POST", f"/v1/sessions/{quote(session, safe='')}/end", {})
        except NotFound:
            return

    @asynccontextmanager
    async def _open_poll(self, request_id: str) -> AsyncIterator[Poll]:
        """Yield the long poll of one request, on a connection that is closed at the end."""
        connection = HttpConnection(self.url, self._token)
        path = f"/v1/requests/{request_id}?wait={_POLL_SECONDS}&process={self.process.token}"
        call = partial(connection.call, "GET", path, timeout=_POLL_SECONDS + _SLACK_SECONDS)

        async def poll() -> State:
            state = state_of(await _run_in(self._waiting, call))
            self.numbers.note(state)
            return state

        try:
            yield poll
        finally:
            connection.cut()
            connection.close()

    async def _look_up(self, ids: Sequence[str]) -> dict[str, State | GatewayError]:
        body = {"process": self.process.token, "ids": list(ids)}
        found = await self._call("POST", "/v1/sync", body)
        try:
            return {item["id"]: _read(item) for item in found["items"]}
        except (LookupError, TypeError) as error:
            raise Unverified(f"cannot parse the gateway's reply: {error!r}") from error

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        return (await self._exchange(method, path, body))[0]

    async def _exchange(self, method: str, path: str, body: Any = None) -> tuple[Any, str]:
        call = partial(self._http.exchange, method, path, body)
        if self._left:  # its threads have ended
            raise Unreachable("this client is closed")
        return await _run_in(self._sending, call)


async def _run_in(threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """Run a blocking call in one of these threads. Raises GatewayError if this process is
    ending."""
    try:
        running = asyncio.get_running_loop().run_in_executor(threads, call)
    except RuntimeError as error:
        raise GatewayError("the call cannot start: this process is ending") from error
    return await running


def _read(item: Any) -> State | GatewayError:
    """Return a state, or for a malformed state the error. The error ends only the wait for this
    id."""
    try:
        return state_of(item)
    except Unverified as error:
        return error
