"""The transport protocol: the five verbs and waiting, repeated until the gateway answers."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from gateway.client.config import Backoff
from gateway.errors import Busy, GatewayError, InvalidRequest, Unreachable, Unverified
from gateway.models import ApprovalRequest, Reason, Report, State, Status, new_id
from gateway.wire.codec import build
from gateway.wire.outcome_text import say_number

_LEAST_SECONDS = 0.001  # zero would mean no deadline


class Process:
    """The token to which the gateway hands approvals, and the approvals already taken.

    The gateway hands an approval to the same token as often as asked, and warns only other tokens
    that the action may have run. So this object remembers what was taken.
    """

    def __init__(self) -> None:
        self._token = new_id()
        self._pid = os.getpid()
        self._taken: set[str] = set()

    @property
    def token(self) -> str:
        """The token. Raises GatewayError after a fork: a child must not use its parent's."""
        if os.getpid() != self._pid:
            raise GatewayError("this client was made before a fork; make one in the child process")
        return self._token

    def take(self, request_id: str) -> bool:
        """Take the approval of a request; return whether nobody had taken it before."""
        first = request_id not in self._taken
        self._taken.add(request_id)
        return first


class StepUpCodes:
    """The numbers that the gateway gave requests that wait, each told once."""

    def __init__(self) -> None:
        self.say: Callable[[str], None] | None = None
        self._told: dict[str, str] = {}

    def note(self, state: State) -> None:
        """Tell the number in a state, where there is one."""
        if self.say is None or state.id in self._told:
            return
        if told := say_number(state.number, state.id):
            self._told[state.id] = told
            self.say(told)

    def words_of(self, request_id: str) -> str:
        """Return the line that tells a request's number, "" where none was given."""
        return self._told.get(request_id, "")


class Transport(Protocol):
    """An agent's connection to the gateway. Used inside `async with`; every call may raise
    GatewayError, and is repeated after Unreachable."""

    @property
    def agent(self) -> str:
        """The agent whose credential this is."""

    @property
    def process(self) -> Process:
        """The process in whose name it takes approvals."""

    @property
    def inbox(self) -> str | None:
        """The address where people answer: "" where it is not known, None without a gateway."""

    numbers: StepUpCodes
    """Is told the number that the gateway gives a request that waits."""

    async def __aenter__(self) -> Transport:
        """Connect, or prepare to."""

    async def __aexit__(self, *exc: object) -> None:
        """Disconnect, and cancel all waits."""

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Submit a request durably. The gateway's answer comes with `wait`."""

    async def deadline(self, request_id: str) -> float | None:
        """Return when the time of a submitted request ends, in seconds of the loop's clock, once
        the gateway has said so; None where it does not. Raises what ended the request."""

    async def wait(self, request_id: str, *, until: float) -> State:
        """Return the final state. Raises TimeoutError at `until`, in seconds of the loop's
        clock."""

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Withdraw a request."""

    async def consume(self, request_id: str) -> State:
        """Take the approval of a request that another process submitted, or nothing waited for."""

    async def report(self, request_id: str, report: Report) -> None:
        """Report what became of the action."""

    async def fetch(self, request_id: str) -> State:
        """Return a request as it stands, with its `record`; it is not waited for."""

    async def end_session(self, session: str) -> None:
        """End a session and cancel its pending requests."""


def inbox_at(url: str) -> str:
    """Return the address of the inbox of the gateway at a URL."""
    return f"{url.rstrip('/')}/inbox"


def aged(request: ApprovalRequest, seconds: float) -> ApprovalRequest:
    """Return a request as it is sent again that much later, with what is left of its time."""
    if not request.timeout:
        return request
    return replace(request, timeout=max(round(request.timeout - seconds, 3), _LEAST_SECONDS))


def state_of(answer: Any) -> State:
    """Return the state in the gateway's answer. Raises Unverified when it cannot be read."""
    try:
        return build(State, answer)
    except InvalidRequest as error:
        raise Unverified(f"the gateway's answer cannot be read: {error}") from error


def is_final(state: State) -> bool:
    """Whether the request has ended."""
    return state.status is not Status.PENDING


def chunks(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return `ids` in pieces of at most `size`."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]


# Repeats what the client says to the gateway until it answers.

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


class RetryingTransport:
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
