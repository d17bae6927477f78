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

from gateway.domain.figures import WAIT_SECONDS, StoreFigures, Tally
from gateway.models import ENDINGS

_LIMITS = (*(f"{seconds:.1f}" for seconds in WAIT_SECONDS), "+Inf")


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
            buckets = list(zip(_LIMITS, map(float, accumulate(waits.counts)), strict=True))
            waited.add_metric([status.value], buckets, waits.seconds)
        yield waited
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
        ):
            yield GaugeMetricFamily(f"gateway_{name}", says, figure)
