"""What is wrong just now, and what this process counted or measured, for operators."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from gateway.domain.records import StoredRequest
from gateway.models import Status

DISK_FULL = "the disk of the gateway's own Redis is full: nothing can be recorded"

log = logging.getLogger("gateway.domain")


@dataclass(frozen=True, slots=True)
class Readiness:
    """Sentences on why nobody can answer here or nothing is recorded, and on what else is wrong."""

    down: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`ready`, `degraded` or `not ready`."""
        return "not ready" if self.down else "degraded" if self.degraded else "ready"

    @property
    def problems(self) -> tuple[str, ...]:
        """All sentences, the worst first."""
        return self.down + self.degraded


class Health:
    """Collects troubles by where they were noticed, and logs each when it begins and has ended."""

    def __init__(self) -> None:
        self._down: dict[str, str] = {}
        self._degraded: dict[str, str] = {}

    @property
    def readiness(self) -> Readiness:
        """What is wrong now."""
        return Readiness(tuple(self._down.values()), tuple(self._degraded.values()))

    def note(self, where: str, sentence: str | None, *, down: bool = False) -> None:
        """Say what is wrong somewhere, or with None that all is well again."""
        before = self._down.pop(where, None) or self._degraded.pop(where, None)
        if sentence is not None:
            (self._down if down else self._degraded)[where] = sentence
        if sentence == before:
            return
        if sentence is None:
            log.warning("no more: %s", before, extra={"event": "trouble_ended"})
        else:
            level = logging.ERROR if down else logging.WARNING
            log.log(level, "%s", sentence, extra={"event": "trouble"})

    def note_all(self, where: str, sentences: dict[str, str], *, down: bool = False) -> None:
        """Say everything that is wrong in one place, by name; what is not named is well again."""
        start = f"{where} "
        known = {*self._down, *self._degraded}
        for name in {one for one in known if one.startswith(start)}:
            if name.removeprefix(start) not in sentences:
                self.note(name, None)
        for name, sentence in sentences.items():
            self.note(start + name, sentence, down=down)


# Figures for operators: what this process counted, and what is measured in the store.

WAIT_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 14_400, 86_400)
"""What the times from asking to the end are told apart by."""
SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""What the times are told apart by that this process takes for something."""


@dataclass(slots=True)
class Waits:
    """How long something took: how often up to each of `limits` and above, and in all."""

    limits: tuple[float, ...] = WAIT_SECONDS
    seconds: float = 0.0
    counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with none."""
        self.counts = [0] * (len(self.limits) + 1)

    def add(self, seconds: float) -> None:
        """Count one time."""
        self.counts[bisect_left(self.limits, seconds)] += 1
        self.seconds += seconds


class Tally:
    """What this process counted since it began."""

    def __init__(self) -> None:
        self.waits: defaultdict[Status, Waits] = defaultdict(Waits)
        self.unasked = Waits(SHORT_SECONDS)
        self.lags = Waits(SHORT_SECONDS)
        self.webhook_failures = 0
        self.webhooks_lost = 0

    def end(self, before: StoredRequest, after: StoredRequest) -> None:
        """Count a request that this process ended; one that had ended already, or goes on, is
        none."""
        if after.decision is not None and not before.final:
            waited = after.decision.decided_at - before.created
            self.waits[after.status].add(max(0, waited) / 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    """What is measured in the store. `memory` and its `room` are those of the fullest server, in
    bytes; no room means that nothing bounds it. `unsealed`, `unarchived` and `intake` are the ages
    in seconds of the first event without a seal, of the first one outside the archive, and of the
    first message that no replica has handled; `lease` is that of the leader's lease."""

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
