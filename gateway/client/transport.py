"""How a client reaches the gateway: the five verbs, and waiting.

A transport goes on trying over lost connections for as long as somebody waits. Every verb may be said
twice without harm.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from gateway.errors import Unreachable
from gateway.models import ApprovalRequest, Reason, Report, State, Status

PATIENCE = 15.0
"""Seconds in which a gateway or Redis may restart before a message counts as not taken."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class Transport(Protocol):
    """One agent's way to the gateway. Used inside `async with`; every call may raise GatewayError."""

    @property
    def agent(self) -> str:
        """The agent whose credential this is."""

    async def __aenter__(self) -> Transport:
        """Connect, or get ready to."""

    async def __aexit__(self, *exc: object) -> None:
        """Disconnect; whoever still waits is cancelled."""

    async def submit(self, request: ApprovalRequest, *, detached: bool) -> None:
        """Hand a request over durably. What becomes of it is told to `wait`.

        Unless `detached`, what is heard of it is kept until `wait` or `cancel` is called.
        """

    async def wait(self, request_id: str, *, until: float) -> State:
        """Return the final state; `until` is in seconds of the loop's clock.

        Raises TimeoutError at `until`, or Unreachable when the gateway never spoke of the request.
        """

    async def cancel(self, request_id: str, *, reason: Reason, message: str) -> None:
        """Withdraw a request."""

    async def consume(self, request_id: str) -> State:
        """Take the approval of a request that another process submitted, or nobody waited for."""

    async def report(self, request_id: str, report: Report) -> None:
        """Say what became of the action."""

    async def end_session(self, session: str) -> None:
        """End a session and cancel what waits in it."""


class Birthplace:
    """The process that something was made in. Two processes on one connection mix up their answers."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def left(self) -> bool:
        """Whether this is a forked child of that process."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raise Unreachable in a forked child."""
        if self.left:
            raise Unreachable("this client was made before a fork; make one in the child process")


def is_final(state: State) -> bool:
    """Whether the request has ended."""
    return state.status is not Status.PENDING


def chunks(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return `ids` in pieces of at most `size`."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def pause_before(attempt: int) -> float:
    """Return how many seconds to wait before try number `attempt`, counted from 1."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempt, 10))
