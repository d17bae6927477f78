"""Repeats what the client says to the gateway until it answers."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.client.backoff import Backoff
from gateway.errors import Busy, Unreachable

log = logging.getLogger("gateway.client")

T = TypeVar("T")
Say = Callable[[str], None]
"""Is told in a sentence what the client waits for."""


def say_on_stderr(sentence: str) -> None:
    """Write a sentence to standard error, where the process has one."""
    if sys.stderr is not None:
        sys.stderr.write(f"gateway client: {sentence}\n")


def say_nothing(sentence: str) -> None:
    """Keep quiet."""


class GatewayReach:
    """Repeats calls, which must be idempotent, with growing random pauses.

    A gateway that has answered before is waited for until a call's own deadline; one that never
    has, for `connect_timeout` seconds, and `say` is told so at once.
    """

    def __init__(self, connect_timeout: float, say: Say) -> None:
        self._connect_timeout = connect_timeout
        self._say = say
        self._answered = False
        self._silent = False  # the gateway does not answer, and that was said
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Whether nothing is repeated any more."""
        return self._closed.is_set()

    def close(self) -> None:
        """Repeat nothing any more."""
        self._closed.set()

    async def repeat(
        self, call: Callable[[], Awaitable[T]], *, until: float, patient: bool = False
    ) -> T:
        """Call until the gateway answers, up to `until` in seconds of the loop's clock.

        With `patient` that holds for a gateway too that has never answered. Raises Unreachable, and
        at once every other error.
        """
        now = asyncio.get_running_loop().time()
        limit = until if self._answered or patient else min(until, now + self._connect_timeout)
        backoff, last = Backoff(), Unreachable("the gateway does not answer")
        try:
            async with asyncio.timeout_at(limit) as bound:
                while True:
                    try:
                        result = await call()
                    except Unreachable as error:
                        last = error
                    else:
                        self.note_answer()
                        return result
                    if self.closed:
                        raise last
                    self._note_silence(last, bound.when() or limit)
                    if self._answered:
                        bound.reschedule(until)
                    wish = last.retry_after if isinstance(last, Busy) else 0.0
                    await self._pause(backoff.pause(wish))
        except TimeoutError:
            raise last from None

    def note_answer(self) -> None:
        """Remember that the gateway answered."""
        if self._silent:
            log.info("the gateway answers again", extra={"event": "gateway_answers"})
        self._answered, self._silent = True, False

    def _note_silence(self, error: Unreachable, limit: float) -> None:
        """Say once that the gateway does not answer."""
        if isinstance(error, Busy):
            self._answered = True
        elif not self._silent:
            self._silent = True
            left = limit - asyncio.get_running_loop().time()
            sentence = f"waiting for the gateway, for {left:.0f} s at most: {error}"
            if self._answered:
                log.warning(sentence, extra={"event": "gateway_silent"})
            else:
                self._say(sentence)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            return
