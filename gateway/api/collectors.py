"""Families of figures for Prometheus that are made at each scrape."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from gateway.domain.event_counts import CARD, DEAD_LETTER, ENDED, REFUSED, SUBMITTED
from gateway.domain.figures import StoreFigures, Tally, Waits
from gateway.models import ENDINGS

_PLAIN = (
    ("gateway_submitted", SUBMITTED, "Requests taken in, on all replicas."),
    ("gateway_refused", REFUSED, "Messages and clicks refused, on all replicas."),
    ("gateway_dead_letters", DEAD_LETTER, "Messages that could not be handled, on all replicas."),
)
_LABELLED = (
    ("gateway_requests", ENDED, ["status", "reason"], "Requests that ended, on all replicas."),
    (
        "gateway_cards",
        CARD,
        ["outcome"],
        "What became of cards that were posted or edited, on all replicas.",
    ),
)


class CountsCollector(Collector):
    """What was counted on all replicas."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counters."""
        for name, counted, says in _PLAIN:
            yield CounterMetricFamily(name, says, self.counts.get(counted, 0))
        for name, counted, labels, says in _LABELLED:
            family = CounterMetricFamily(name, says, labels=labels)
            for what, count in sorted(self.counts.items()):
                kind, *values = what.split()
                if kind == counted:
                    family.add_metric(values, count)
            yield family


class TallyCollector(Collector):
    """What this process counted."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[HistogramMetricFamily | CounterMetricFamily]:
        """Yield how long requests waited, and what became of webhooks."""
        waited = HistogramMetricFamily(
            "gateway_waited_seconds",
            "How long requests waited that ended here, from asking to the end.",
            labels=["status"],
        )
        for status in sorted(ENDINGS):
            waits = self._tally.waits[status]
            waited.add_metric([status.value], _buckets_of(waits), waits.seconds)
        yield waited
        for name, says, waits in (
            ("unasked", "How long answers took that no person was asked for", self._tally.unasked),
            ("loop_lag", "How late the event loop came to what was due", self._tally.lags),
        ):
            yield HistogramMetricFamily(
                f"gateway_{name}_seconds", f"{says}, here.", _buckets_of(waits), waits.seconds
            )
        yield CounterMetricFamily(
            "gateway_webhook_failures",
            "Webhook calls that were not taken, here.",
            self._tally.webhook_failures,
        )
        yield CounterMetricFamily(
            "gateway_webhooks_lost",
            "Webhooks that were given up, here.",
            self._tally.webhooks_lost,
        )


class StoreCollector(Collector):
    """What was measured in the store at this scrape."""

    def __init__(self) -> None:
        self.found: StoreFigures | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; none before anything was measured."""
        if self.found is None:
            return
        found = self.found
        for name, says, figure in (
            ("stopped", "1 while the kill switch is on.", found.stopped),
            ("paused_agents", "Agents that ask nobody for now.", found.paused_agents),
            ("replicas", "Gateways that share the work.", found.replicas),
            ("redis_memory_bytes", "Memory in use on the fullest server.", found.memory),
            ("redis_room_bytes", "What it may use, 0 where nothing bounds it.", found.room),
            ("unsealed_seconds", "Age of the first event without a seal.", found.unsealed),
            ("intake_seconds", "Age of the first message that is not handled.", found.intake),
            ("intake_messages", "Messages over Redis not handled yet.", found.intake_messages),
            ("lease_seconds", "Age of the leader's lease; from 6 on nobody leads.", found.lease),
            ("unarchived_seconds", "Age of the first event to archive.", found.unarchived),
            ("archive_bytes", "Size of the archive.", found.archive_bytes),
        ):
            yield GaugeMetricFamily(f"gateway_{name}", says, figure)


def _buckets_of(waits: Waits) -> list[tuple[str, float]]:
    limits = (*map(str, map(float, waits.limits)), "+Inf")
    return [*zip(limits, map(float, accumulate(waits.counts)), strict=True)]
