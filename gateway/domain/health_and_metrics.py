"""Collect this process's current problems, and the figures for the operator's metrics."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from gateway.domain.records import StoredRequest
from gateway.models import Status
from gateway.wire.codec import Wire

DISK_FULL = "the disk of the gateway's own Redis is full: nothing can be recorded"

log = logging.getLogger("gateway.domain")


@dataclass(frozen=True, slots=True)
class Readiness:
    """Sentences that describe current problems. Only those in `down` stop decisions or
    recording."""

    down: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """The status as a word: `ready`, `degraded` or `not ready`."""
        return "not ready" if self.down else "degraded" if self.degraded else "ready"

    @property
    def problems(self) -> tuple[str, ...]:
        """All sentences, `down` ones first."""
        return self.down + self.degraded


class Health:
    """Keeps the current problems by the place where they occur, and logs when each problem begins
    and ends."""

    def __init__(self) -> None:
        self._down: dict[str, str] = {}
        self._degraded: dict[str, str] = {}

    @property
    def readiness(self) -> Readiness:
        """The current problems."""
        return Readiness(tuple(self._down.values()), tuple(self._degraded.values()))

    @property
    def problems(self) -> list[tuple[str, str, bool]]:
        """The current problems: place, sentence, and whether it stops decisions or recording."""
        down = [(place, sentence, True) for place, sentence in self._down.items()]
        return down + [(place, sentence, False) for place, sentence in self._degraded.items()]

    def note(self, where: str, sentence: str | None, *, down: bool = False) -> None:
        """Set the problem of one place; None clears it."""
        before = self._down.pop(where, None) or self._degraded.pop(where, None)
        if sentence is not None:
            (self._down if down else self._degraded)[where] = sentence
        if sentence == before:
            return
        if sentence is None:
            log.warning("resolved: %s", before, extra={"event": "trouble_ended"})
        else:
            level = logging.ERROR if down else logging.WARNING
            log.log(level, "%s", sentence, extra={"event": "trouble"})

    def note_all(self, where: str, sentences: dict[str, str], *, down: bool = False) -> None:
        """Set all problems of one place, each by a name. Problems that are not named are
        cleared."""
        start = f"{where} "
        known = {*self._down, *self._degraded}
        for name in {one for one in known if one.startswith(start)}:
            if name.removeprefix(start) not in sentences:
                self.note(name, None)
        for name, sentence in sentences.items():
            self.note(start + name, sentence, down=down)


# Figures for operators: this process's counters, and measurements from the store.

WAIT_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 14_400, 86_400)
"""Histogram limits for the time from submission to decision."""
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Histogram limits for short operations of this process."""


@dataclass(slots=True)
class Waits:
    """A histogram of durations: one count for each of `limits`, one for longer durations, and the
    sum in seconds."""

    limits: tuple[float, ...] = WAIT_SECONDS
    seconds: float = 0.0
    counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Start all counts at 0."""
        self.counts = [0] * (len(self.limits) + 1)

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.limits, seconds)] += 1
        self.seconds += seconds


class Tally:
    """Counters of this process since it started."""

    def __init__(self) -> None:
        self.waits: defaultdict[Status, Waits] = defaultdict(Waits)
        self.unasked = Waits(SHORT_SECONDS)
        self.lags = Waits(SHORT_SECONDS)
        self.webhook_failures = 0
        self.webhooks_lost = 0

    def end(self, before: StoredRequest, after: StoredRequest) -> None:
        """Count a request if this process ended it; ignore other requests."""
        if after.decision is not None and not before.final:
            waited = after.decision.decided_at - before.created
            self.waits[after.status].add(max(0, waited) / 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures(Wire):
    """Measurements of the store.

    `memory` and `room` are the bytes used and available on the fullest server; `room` is 0 without
    a limit. All other times are ages in seconds. `unsealed` is the age of the oldest event without
    a seal, `unarchived` of the oldest event that is not in the archive. `intake` is the age of the
    oldest unhandled message, and `lease` of the leader's lease.
    """

    stopped: bool
    paused_agents: int
    replicas: int
    memory: int
    room: int
    unsealed: float
    intake: float
    intake_messages: int
    lease: float
    unarchived: float
    archive_bytes: int
