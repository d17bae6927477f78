"""Figures for operators: what this process counted, and what is measured in the store."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from gateway.domain.records import Record
from gateway.models import Status

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

    def end(self, before: Record, after: Record) -> None:
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
