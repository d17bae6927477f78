"""Waits for many requests with few HTTP calls, as HTTP has no reply stream."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from gateway.client.backoff import Backoff
from gateway.client.transport import chunks, is_final
from gateway.errors import Busy, GatewayError, NotFound, Unreachable
from gateway.models import State

MOST_POLLS = 16
_LOOK_SECONDS = 1.0
_LOOK_IDS = 500
_LONGEST_PAUSE = 2.0

Poll = Callable[[], Awaitable[State]]
OpenPoll = Callable[[str], AbstractAsyncContextManager[Poll]]
LookUp = Callable[[Sequence[str]], Awaitable[Mapping[str, State | GatewayError]]]
"""Returns the states of some requests, by id."""


class HttpWaits:
    """The waits of one process. Sixteen requests may hold a long poll each.

    The others, and those to which the gateway grants no long poll, share a lookup once a second
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
        """Return the final state; raises TimeoutError at `until`. Waiters for one id share a
        wait."""
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
                pass  # this agent may hold no more long polls
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
        """Look up states while any request shares the lookup."""
        try:
            while self._shared:
                pause = _LOOK_SECONDS
                for ids in chunks(list(self._shared), _LOOK_IDS):
                    pause = max(pause, await self._look_up_once(ids))
                await asyncio.sleep(pause)
        finally:
            self._lookups = None

    async def _look_up_once(self, ids: Sequence[str]) -> float:
        """Look up some requests; return the minimum pause before the next lookup."""
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
            state = found.get(request_id, NotFound("no such request"))
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
    """Cancel a task and wait for its end; its outcome is ignored."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
