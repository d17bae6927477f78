"""The five verbs over HTTP, with the standard library in threads. For few waiters at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from gateway.client.http import Http
from gateway.client.transport import is_final
from gateway.errors import NotFound, Unreachable
from gateway.models import ApprovalRequest, Reason, Report, State, new_id
from gateway.wire import build, plain

_POLL_SECONDS = 25.0
_SLACK_SECONDS = 10.0
_MOST_WAITERS = 64
_MOST_SENDERS = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0

T = TypeVar("T")


class HttpTransport:
    """A `Transport` over HTTP. Each waiter takes a thread, at most 64 at once."""

    def __init__(self, url: str, token: str, agent: str) -> None:
        self.agent = agent
        self._http = Http(url, token)
        self._process = new_id()
        # Waiters get threads of their own, so that they cannot keep a cancel from being sent.
        self._waiting = ThreadPoolExecutor(_MOST_WAITERS, thread_name_prefix="gateway-wait")
        self._sending = ThreadPoolExecutor(_MOST_SENDERS, thread_name_prefix="gateway-send")

    async def __aenter__(self) -> HttpTransport:
        """Connections are made when they are needed."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Cut what still waits, and end the threads."""
        self._http.close()
        for threads in (self._waiting, self._sending):
            threads.shutdown(wait=False, cancel_futures=True)

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Hand a request over."""
        body = {"request": plain(request), "process": self._process, "detached": detached}
        await self._call("POST", "/v1/requests", body)

    async def wait(self, request_id: str, *, until: float) -> State:
        """Long-poll until the request is final; raises TimeoutError at `until`."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        while (left := until - loop.time()) > 0:
            seconds = max(0.0, min(_POLL_SECONDS, left))
            path = f"/v1/requests/{request_id}?wait={seconds:.3f}&process={self._process}"
            try:
                async with asyncio.timeout(left):
                    state = await self._state("GET", path, timeout=seconds + _SLACK_SECONDS)
            except Unreachable:
                await asyncio.sleep(min(pause, left))
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            if is_final(state):
                return state
        raise TimeoutError

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Withdraw a request."""
        body = {"reason": reason.value, "message": message}
        await self._call("POST", f"/v1/requests/{request_id}/cancel", body)

    async def consume(self, request_id: str) -> State:
        """Take the approval."""
        body = {"process": self._process}
        return await self._state("POST", f"/v1/requests/{request_id}/consume", body)

    async def report(self, request_id: str, report: Report) -> None:
        """Say what became of the action."""
        await self._call("POST", f"/v1/requests/{request_id}/report", {"report": plain(report)})

    async def end_session(self, session: str) -> None:
        """End a session."""
        try:
            await self._call("POST", f"/v1/sessions/{session}/end", {})
        except NotFound:
            return

    async def _state(self, method: str, path: str, body: Any = None, **options: float) -> State:
        return build(State, await self._call(method, path, body, **options))

    async def _call(self, method: str, path: str, body: Any = None, **options: float) -> Any:
        call = partial(self._http.call, method, path, body, **options)
        return await self._in_thread(call, long=method == "GET")

    async def _in_thread(self, work: Callable[[], T], *, long: bool) -> T:
        threads = self._waiting if long else self._sending
        return await asyncio.get_running_loop().run_in_executor(threads, work)
