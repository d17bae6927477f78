"""Brings together the calls of one turn that a framework makes side by side, each by itself.

They are asked as one batch, and all wait for all: an abort of one stops those beside it. Which
calls come is not known, for some tools are not gated; so what has not come after a moment is asked
later, by itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from gateway.client import Outcome
from gateway.integrations.framework_calls import FrameworkCall, FrameworkGate

_MOMENT = 0.25
"""How many seconds the first call of a turn waits for those beside it."""

AT_ONCE = 0
"""How many calls a turn has of which that is not known, but that all of them start at once."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn in which a call is made: a name that only its calls share, and how many they are."""

    name: Hashable
    size: int


ALONE = Turn(None, 1)
"""The turn of a call that has none beside it."""


class TurnGate:
    """Asks for calls that are made side by side on one event loop."""

    def __init__(self, gate: FrameworkGate) -> None:
        self._gate = gate
        self._open: dict[Hashable, _Batch] = {}

    async def ask(self, call: FrameworkCall, turn: Turn, session: str | None = None) -> Outcome:
        """Ask for a call together with those of its turn. Raises as `FrameworkGate.ask`."""
        if turn.size == 1:
            [outcome] = await self._gate.ask([call], session)
            return outcome
        batch = self._open.get(turn.name) or self._begin(turn, session)
        batch.calls.append(call)
        number = len(batch.calls) - 1
        if len(batch.calls) == turn.size:
            batch.full.set()
        outcomes = await batch.wait_for_outcomes()
        return outcomes[number]

    def _begin(self, turn: Turn, session: str | None) -> _Batch:
        batch = self._open[turn.name] = _Batch()
        batch.asking = asyncio.ensure_future(self._ask_batch(batch, turn, session))
        batch.asking.add_done_callback(lambda _: self._close(turn, batch))
        return batch

    async def _ask_batch(self, batch: _Batch, turn: Turn, session: str | None) -> list[Outcome]:
        if turn.size == AT_ONCE:
            await asyncio.sleep(0)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(_MOMENT):
                    await batch.full.wait()
        self._close(turn, batch)
        return await self._gate.ask(batch.calls, session)

    def _close(self, turn: Turn, batch: _Batch) -> None:
        if self._open.get(turn.name) is batch:
            del self._open[turn.name]


class ThreadTurnGate:
    """Asks for calls that are made side by side in threads."""

    def __init__(self, gate: FrameworkGate) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        self._open: dict[Hashable, _ThreadBatch] = {}

    def ask(self, call: FrameworkCall, turn: Turn) -> Outcome:
        """Ask as `TurnGate.ask` does, and block this thread."""
        if turn.size == 1:
            [outcome] = self._gate.ask_blocking([call])
            return outcome
        with self._lock:
            batch = self._open.setdefault(turn.name, _ThreadBatch())
            batch.calls.append(call)
            number = len(batch.calls) - 1
            if len(batch.calls) == turn.size:
                batch.full.set()
        if number == 0:
            self._ask_batch(batch, turn)
        return batch.outcomes.result()[number]

    def _ask_batch(self, batch: _ThreadBatch, turn: Turn) -> None:
        batch.full.wait(_MOMENT)
        with self._lock:
            del self._open[turn.name]
        try:
            batch.outcomes.set_result(self._gate.ask_blocking(batch.calls))
        except BaseException as error:  # the threads beside this one end as it does
            batch.outcomes.set_exception(error)


@dataclass(slots=True, eq=False)
class _Batch:
    """Calls that are asked together; who waits for them is counted."""

    calls: list[FrameworkCall] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)
    asking: asyncio.Future[list[Outcome]] = field(init=False)
    waiting: int = 0

    async def wait_for_outcomes(self) -> list[Outcome]:
        """Wait for all; when nobody waits any longer the requests are withdrawn."""
        self.waiting += 1
        try:
            return await asyncio.shield(self.asking)
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.asking.cancel()


@dataclass(slots=True, eq=False)
class _ThreadBatch:
    """Calls of threads that are asked together by the first of them."""

    calls: list[FrameworkCall] = field(default_factory=list)
    full: threading.Event = field(default_factory=threading.Event)
    outcomes: Future[list[Outcome]] = field(default_factory=Future)
