"""The five verbs over HTTP, with the standard library in threads. For few waiters at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from gateway.client.http import Http, Renew
from gateway.client.transport import PATIENCE, Birthplace, is_final, pause_before
from gateway.errors import NotFound, Unreachable
from gateway.models import ApprovalRequest, Reason, Report, State, build, new_id, plain

_POLL_SECONDS = 25.0
_SLACK_SECONDS = 10.0
_MOST_WAITERS = 64
_TURN_SECONDS = 1.0  # of a poll, when more than that wait and have to take turns
_THREADS = 8  # for all that does not wait, so that waiters cannot hold it up

T = TypeVar("T")


class HttpTransport:
    """A `Transport` over HTTP. Each waiter takes a thread; beyond 64 they take turns."""

    def __init__(self, url: str, token: str, agent: str, *, renew: Renew | None = None) -> None:
        self.agent = agent
        self._url, self._token, self._renew = url, token, renew
        self._http = Http(url, token, renew)
        self._process = new_id()
        self._born = Birthplace()
        self._ended: dict[str, State] = {}
        self._polls: set[Http] = set()
        self._idle: list[Http] = []
        self._callers = ThreadPoolExecutor(_THREADS, thread_name_prefix="gateway-call")
        self._waiters = ThreadPoolExecutor(_MOST_WAITERS, thread_name_prefix="gateway-wait")

    async def __aenter__(self) -> HttpTransport:
        """Connections are made when they are needed."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Cut what still waits, and end the threads."""
        if self._born.left:
            return
        for http in (self._http, *self._polls, *self._idle):
            http.close()
        for threads in (self._callers, self._waiters):
            threads.shutdown(wait=False, cancel_futures=True)

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Hand a request over; a gateway that restarts has 15 s to come back."""
        body = {"request": plain(request), "process": self._process, "detached": detached}
        until = asyncio.get_running_loop().time() + PATIENCE
        state = build(State, await _persist(lambda: self._call("POST", "", body), until))
        if is_final(state) and not detached:
            self._ended[request.id] = state

    async def wait(self, request_id: str, *, until: float) -> State:
        """Long-poll until the request is final; raises TimeoutError at `until`."""
        if (state := self._ended.pop(request_id, None)) is not None:
            return state
        async with asyncio.timeout_at(until):
            while True:
                state = await _persist(lambda: self._poll(request_id, until), until)
                if is_final(state):
                    return state

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Withdraw a request."""
        self._ended.pop(request_id, None)
        body = {"reason": reason.value, "message": message}
        await self._call("POST", f"/{request_id}/cancel", body)

    async def consume(self, request_id: str) -> State:
        """Take the approval."""
        body = {"process": self._process}
        return build(State, await self._call("POST", f"/{request_id}/consume", body))

    async def report(self, request_id: str, report: Report) -> None:
        """Say what became of the action."""
        await self._call("POST", f"/{request_id}/report", {"report": plain(report)})

    async def end_session(self, session: str) -> None:
        """End a session."""
        path = f"/v1/sessions/{quote(session, safe='')}/end"
        try:
            await self._in_thread(self._callers, lambda: self._http.call("POST", path, {}))
        except NotFound:
            return

    async def _call(self, method: str, path: str, body: Any) -> Any:
        where = "/v1/requests" + path
        return await self._in_thread(self._callers, lambda: self._http.call(method, where, body))

    async def _poll(self, request_id: str, until: float) -> State:
        """Ask once, on a connection of its own, so that it is cut when the waiter is cancelled."""
        http = self._idle.pop() if self._idle else Http(self._url, self._token, self._renew)
        self._polls.add(http)
        longest = _POLL_SECONDS if len(self._polls) <= _MOST_WAITERS else _TURN_SECONDS
        seconds = max(0.0, min(longest, until - asyncio.get_running_loop().time()))
        path = f"/v1/requests/{request_id}?wait={seconds:.3f}&process={self._process}"
        timeout = seconds + _SLACK_SECONDS
        try:
            answer = await self._in_thread(
                self._waiters, lambda: http.call("GET", path, timeout=timeout)
            )
        except BaseException:
            http.close()
            raise
        finally:
            self._polls.discard(http)
        self._idle.append(http)
        return build(State, answer)

    async def _in_thread(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        self._born.check()
        return await asyncio.get_running_loop().run_in_executor(threads, work)


async def _persist(call: Callable[[], Awaitable[T]], until: float) -> T:
    """Call again while the gateway cannot be reached; raise Unreachable at `until`."""
    attempt = 0
    while True:
        try:
            return await call()
        except Unreachable:
            attempt += 1
            pause = pause_before(attempt)
            if asyncio.get_running_loop().time() + pause > until:
                raise
            await asyncio.sleep(pause)
