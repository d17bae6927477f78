"""Define how a client talks to the gateway, and repeat calls until it answers. See Transport."""

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
    """The token by which a process claims approvals, and the approvals that it has claimed.

    The gateway returns an approval to the same token repeatedly, and warns only other tokens that
    the action may have run. So this object records which approvals were claimed.
    """

    def __init__(self) -> None:
        self._token = new_id()
        self._pid = os.getpid()
        self._taken: set[str] = set()

    @property
    def token(self) -> str:
        """The token. Raises GatewayError after a fork, because a child must not use its parent's
        token."""
        if os.getpid() != self._pid:
            raise GatewayError(
                "this client was created before a fork; create a client in the child process"
            )
        return self._token

    def take(self, request_id: str) -> bool:
        """Mark the approval of a request as claimed; return whether this is the first time."""
        first = request_id not in self._taken
        self._taken.add(request_id)
        return first


class StepUpCodes:
    """The verification codes of pending requests. `say` gets a line with each code, once."""

    def __init__(self) -> None:
        self.say: Callable[[str], None] | None = None
        self._told: dict[str, str] = {}

    def note(self, state: State) -> None:
        """Pass the verification code in a state to `say`, if there is one."""
        if self.say is None or state.id in self._told:
            return
        if told := say_number(state.number, state.id):
            self._told[state.id] = told
            self.say(told)

    def words_of(self, request_id: str) -> str:
        """Return the line with the verification code of a request, "" if the request has none."""
        return self._told.get(request_id, "")


class Transport(Protocol):
    """An agent's connection to the gateway. Use it inside `async with`. Every call may raise
    GatewayError; after Unreachable, the client repeats the call."""

    @property
    def agent(self) -> str:
        """The name of the agent that this credential belongs to."""

    @property
    def process(self) -> Process:
        """The process that claims the approvals."""

    @property
    def inbox(self) -> str | None:
        """The URL of the inbox: "" if it is unknown, None without a gateway."""

    numbers: StepUpCodes
    """Collects the verification codes of pending requests."""

    async def __aenter__(self) -> Transport:
        """Connect, or prepare a connection."""

    async def __aexit__(self, *exc: object) -> None:
        """Cancel all waits, and disconnect."""

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Submit a request durably. `wait` returns its decision. `detached` says that no process
        waits for the request yet."""

    async def deadline(self, request_id: str) -> float | None:
        """Return the deadline of a submitted request in seconds of the loop's clock, None if the
        gateway sets none. Waits until the gateway has sent the deadline. If the request has ended
        with an error, raises it."""

    async def wait(self, request_id: str, *, until: float) -> State:
        """Wait, and return the final state. Raises TimeoutError at `until`, in seconds of the
        loop's clock."""

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Cancel a pending request."""

    async def consume(self, request_id: str) -> State:
        """Claim an approval that this process did not wait for, and return the state that contains
        the approval."""

    async def report(self, request_id: str, report: Report) -> None:
        """Report the result of the action."""

    async def fetch(self, request_id: str) -> State:
        """Return the current state of a request with its `record`, without waiting."""

    async def end_session(self, session: str) -> None:
        """End a session and cancel its pending requests."""


def inbox_at(url: str) -> str:
    """Return the URL of the inbox of the gateway at `url`."""
    return f"{url.rstrip('/')}/inbox"


def aged(request: ApprovalRequest, seconds: float) -> ApprovalRequest:
    """Return a copy of a request to send again after `seconds`, with the remaining timeout."""
    if not request.timeout:
        return request
    return replace(request, timeout=max(round(request.timeout - seconds, 3), _LEAST_SECONDS))


def state_of(answer: Any) -> State:
    """Return the state in a reply of the gateway. Raises Unverified if it is malformed."""
    try:
        return build(State, answer)
    except InvalidRequest as error:
        raise Unverified(f"cannot parse the gateway's reply: {error}") from error


def is_final(state: State) -> bool:
    """Return whether the request has ended."""
    return state.status is not Status.PENDING


def chunks(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return `ids` split into lists of at most `size`."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]


# Repeats calls until the gateway answers.

log = logging.getLogger("gateway.client")

T = TypeVar("T")
Say = Callable[[str], None]
"""Takes a sentence for the person at the terminal, such as what the client waits for."""


def say_on_stderr(sentence: str) -> None:
    """Write a sentence to standard error, if the process has one."""
    if sys.stderr is not None:
        sys.stderr.write(f"gateway client: {sentence}\n")


def say_nothing(sentence: str) -> None:
    """Discard a sentence, for callers that print nothing."""


class RetryingTransport:
    """Repeat idempotent calls with growing random pauses.

    Before the gateway's first answer, a call is repeated for `connect_timeout` seconds, and `say`
    gets a sentence immediately. After that answer, a call is repeated until its own deadline.
    """

    def __init__(self, connect_timeout: float, say: Say) -> None:
        self._connect_timeout = connect_timeout
        self._say = say
        self._answered = False
        self._silent = False  # whether the missing answer was reported
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed.is_set()

    def close(self) -> None:
        """Stop repeating calls."""
        self._closed.set()

    async def repeat(
        self, call: Callable[[], Awaitable[T]], *, until: float, patient: bool = False
    ) -> T:
        """Repeat a call until the gateway answers, and return its result.

        Stops at `until` in seconds of the loop's clock. With `patient` the connect timeout does not
        apply. Raises Unreachable at the end, and every other error at once.
        """
        now = asyncio.get_running_loop().time()
        limit = until if self._answered or patient else min(until, now + self._connect_timeout)
        backoff, last = Backoff(), Unreachable("the gateway does not respond")
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
        """Record that the gateway has answered."""
        if self._silent:
            log.info("the gateway responds again", extra={"event": "gateway_answers"})
        self._answered, self._silent = True, False

    def _note_silence(self, error: Unreachable, limit: float) -> None:
        """Report once that the gateway does not answer."""
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
