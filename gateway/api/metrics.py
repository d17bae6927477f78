"""Collect metrics for Prometheus, the same on every gateway; start at `Metrics`."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from prometheus_client.registry import Collector

from gateway import __version__
from gateway.domain.audit import CARD, DEAD_LETTER, ENDED, REFUSED, SUBMITTED
from gateway.domain.health_and_metrics import SHORT_SECONDS, Health, StoreFigures, Tally, Waits
from gateway.domain.store import Store
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import Unreachable
from gateway.models import ENDINGS
from gateway.ports.outgoing import OutboxFigures

# Metric families that are made at each scrape.

_PLAIN = (
    ("gateway_submitted", SUBMITTED, "Number of requests submitted, on all replicas."),
    ("gateway_refused", REFUSED, "Number of messages and clicks refused, on all replicas."),
    (
        "gateway_dead_letters",
        DEAD_LETTER,
        "Number of messages that could not be handled, on all replicas.",
    ),
)
_LABELLED = (
    (
        "gateway_requests",
        ENDED,
        ["status", "reason"],
        "Number of requests decided, on all replicas.",
    ),
    (
        "gateway_cards",
        CARD,
        ["outcome"],
        "Number of cards posted and edited, by outcome, on all replicas.",
    ),
)


class CountsCollector(Collector):
    """Counters over all replicas."""

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
    """Metrics that this process counted."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[HistogramMetricFamily | CounterMetricFamily]:
        """Yield how long requests were pending, and the failures of webhooks."""
        waited = HistogramMetricFamily(
            "gateway_waited_seconds",
            "Time from submission to decision, for requests decided on this replica.",
            labels=["status"],
        )
        for status in sorted(ENDINGS):
            waits = self._tally.waits[status]
            waited.add_metric([status.value], _buckets_of(waits), waits.seconds)
        yield waited
        for name, says, waits in (
            ("unasked", "Time to decide a request without a person", self._tally.unasked),
            ("loop_lag", "Delay of this replica's event loop", self._tally.lags),
        ):
            yield HistogramMetricFamily(
                f"gateway_{name}_seconds", f"{says}, here.", _buckets_of(waits), waits.seconds
            )
        yield CounterMetricFamily(
            "gateway_webhook_failures",
            "Number of webhook calls from this replica that failed.",
            self._tally.webhook_failures,
        )
        yield CounterMetricFamily(
            "gateway_webhooks_lost",
            "Number of webhooks that this replica stopped retrying.",
            self._tally.webhooks_lost,
        )


class StoreCollector(Collector):
    """Gauges measured in the store at this scrape."""

    def __init__(self) -> None:
        self.found: StoreFigures | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; none before the first measurement."""
        if self.found is None:
            return
        found = self.found
        for name, says, figure in (
            ("stopped", "1 while the kill switch is on.", found.stopped),
            (
                "paused_agents",
                "Number of agents in a cool-down after many denials.",
                found.paused_agents,
            ),
            ("replicas", "Number of running replicas.", found.replicas),
            (
                "redis_memory_bytes",
                "Memory in use on the Redis server that is nearest to its limit.",
                found.memory,
            ),
            (
                "redis_room_bytes",
                "Memory limit of that Redis server; 0 if it has no limit.",
                found.room,
            ),
            ("unsealed_seconds", "Age of the oldest event that is not sealed.", found.unsealed),
            ("intake_seconds", "Age of the oldest unhandled message.", found.intake),
            (
                "intake_messages",
                "Number of unhandled messages in Redis streams.",
                found.intake_messages,
            ),
            (
                "lease_seconds",
                "Age of the leader's lease; at 6 or more there is no leader.",
                found.lease,
            ),
            (
                "unarchived_seconds",
                "Age of the oldest event that is not archived.",
                found.unarchived,
            ),
            ("archive_bytes", "Size of the archive.", found.archive_bytes),
        ):
            yield GaugeMetricFamily(f"gateway_{name}", says, figure)


def _buckets_of(waits: Waits) -> list[tuple[str, float]]:
    limits = (*map(str, map(float, waits.limits)), "+Inf")
    return [*zip(limits, map(float, accumulate(waits.counts)), strict=True)]


CONTENT_TYPE = CONTENT_TYPE_PLAIN_1_0_0

_ASK_SECONDS = 2.0


_OF_CARDS = {
    "stale_cards": "Number of posted cards that still have buttons though their request has ended.",
    "stale_card_age_seconds": "Time since the request of the oldest such card ended.",
    "outbox_requests": "Number of requests and grants whose cards are due for an update.",
    "outbox_age_seconds": "Time for which the oldest card update has been due.",
}
Outboxes = Callable[[], Awaitable[Sequence[OutboxFigures]]]
"""Returns how current the cards of each posting adapter are."""


Measure = Callable[[], Awaitable[StoreFigures]]
"""Measures the store."""
AdapterProblems = Callable[[], Mapping[str, Sequence[str]]]
"""Returns the problems of each adapter that reports them."""


async def no_outboxes() -> Sequence[OutboxFigures]:
    """Return no figures, because no adapter posts cards."""
    return ()


class Metrics:
    """The gateway's metrics, in separate registries.

    Pending requests, outdated cards and problems are read at each scrape. If the store does not
    answer (`store_errors`, or too late), the page has only the metrics of this process.
    """

    def __init__(
        self,
        waits: Store,
        measure: Measure | None,
        outboxes: Outboxes,
        adapters: AdapterProblems,
        health: Health,
        tally: Tally,
        *,
        store_errors: tuple[type[Exception], ...],
    ) -> None:
        self._waits = waits
        self._measure = measure
        self._health = health
        self._outboxes = outboxes
        self._adapters = adapters
        errors: tuple[type[Exception], ...] = (TimeoutError, Unreachable, *store_errors)
        self._store_errors = errors
        self._own, self._asked = CollectorRegistry(), CollectorRegistry()
        self._make_own(self._own, tally)
        self._make_asked(self._asked)

    def _make_own(self, own: CollectorRegistry, tally: Tally) -> None:
        """Make the metrics of this process, which do not need the store."""
        own.register(TallyCollector(tally))
        ProcessCollector(registry=own)
        build = Gauge(
            "gateway_build_info",
            "Version of the gateway and of Python.",
            ["version", "python"],
            registry=own,
        )
        build.labels(__version__, platform.python_version()).set(1)
        self._redis_up = Gauge(
            "gateway_redis_up", "1 while Redis responds to this replica.", registry=own
        )
        self._adapter_up = Gauge(
            "gateway_adapter_up",
            "1 while people can decide through this adapter on this replica.",
            ["adapter"],
            registry=own,
        )
        self._troubles = Gauge(
            "gateway_troubles",
            "1 for each current problem of this replica; with `down` nobody can decide.",
            ["severity"],
            registry=own,
        )
        self.responses = Counter(
            "gateway_http_responses",
            "Number of HTTP responses from this replica.",
            ["status"],
            registry=own,
        )
        self.http_seconds = Histogram(
            "gateway_http_seconds",
            "Time until this replica began the response to a call.",
            ["method", "route", "status"],
            buckets=SHORT_SECONDS[::3],
            registry=own,
        )
        self.auth_failures = Counter(
            "gateway_auth_failures",
            "Number of calls to this replica without a valid credential.",
            registry=own,
        )
        self.waiters = Gauge(
            "gateway_http_waiters",
            "Number of calls on this replica that wait for a request to change.",
            registry=own,
        )
        self.decide_seconds = Histogram(
            "gateway_decide_seconds",
            "Time that this replica needs to apply a decision sent over HTTP.",
            buckets=SHORT_SECONDS,
            registry=own,
        )

    def _make_asked(self, registry: CollectorRegistry) -> None:
        """Make the metrics that are read from the store at each scrape."""
        self._store, self._counted = StoreCollector(), CountsCollector()
        registry.register(self._store)
        registry.register(self._counted)
        self._pending = Gauge("gateway_pending_requests", "Pending requests.", registry=registry)
        self._oldest = Gauge(
            "gateway_oldest_pending_seconds",
            "Age of the oldest pending request; 0 if none is pending.",
            registry=registry,
        )
        self._of_cards = {
            name: Gauge(f"gateway_{name}", says, ["adapter"], registry=registry)
            for name, says in _OF_CARDS.items()
        }

    async def page(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                await self._ask()
        except self._store_errors:
            self._redis_up.set(0)
            asked = b""
        else:
            self._redis_up.set(1)
            asked = generate_latest(self._asked)
        wrong = self._health.readiness
        self._troubles.labels("down").set(len(wrong.down))
        self._troubles.labels("degraded").set(len(wrong.degraded))
        for name, problems in self._adapters().items():
            self._adapter_up.labels(name).set(not problems)
        return generate_latest(self._own) + asked

    async def _ask(self) -> None:
        self._counted.counts = await self._waits.event_counts()
        if self._measure is not None:
            self._store.found = await self._measure()
        self._pending.set(await self._waits.count_pending())
        oldest = await self._waits.oldest_pending()
        waited = 0 if oldest is None else SystemClock().now_ms() - oldest
        self._oldest.set(max(0, waited) / 1000)
        for found in await self._outboxes():
            figures = (found.stale, found.oldest_stale, found.waiting, found.overdue)
            for gauge, figure in zip(self._of_cards.values(), figures, strict=True):
                gauge.labels(found.adapter).set(figure)
