"""Metrics for Prometheus: the same on every gateway, as events are counted when sealed."""

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

# Families of figures for Prometheus that are made at each scrape.

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


CONTENT_TYPE = CONTENT_TYPE_PLAIN_1_0_0

_ASK_SECONDS = 2.0


_OF_CARDS = {
    "stale_cards": "Posted cards with buttons whose request has ended.",
    "stale_card_age_seconds": "How long ago the request of the oldest stale card ended.",
    "outbox_requests": "Requests and grants whose cards are to be looked at.",
    "outbox_age_seconds": "For how long the first of them has been due.",
}
Outboxes = Callable[[], Awaitable[Sequence[OutboxFigures]]]
"""Returns how true the cards of each adapter that posts are."""


Measure = Callable[[], Awaitable[StoreFigures]]
"""Measures the store."""
AdapterProblems = Callable[[], Mapping[str, Sequence[str]]]
"""Returns what is wrong with each adapter that can tell."""


async def no_outboxes() -> Sequence[OutboxFigures]:
    """Return nothing: no adapter posts cards."""
    return ()


class Metrics:
    """The gateway's figures, in registries of their own.

    What waits, how true the cards are and what is wrong is asked at each scrape; where the store
    does not answer (`store_errors`, or too late), the page has what is known without it.
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
        """Make what is known here, whether the store answers or not."""
        own.register(TallyCollector(tally))
        ProcessCollector(registry=own)
        build = Gauge("gateway_build_info", "What runs here.", ["version", "python"], registry=own)
        build.labels(__version__, platform.python_version()).set(1)
        self._redis_up = Gauge("gateway_redis_up", "1 while Redis answers here.", registry=own)
        self._adapter_up = Gauge(
            "gateway_adapter_up",
            "1 while people can answer through this adapter here.",
            ["adapter"],
            registry=own,
        )
        self._troubles = Gauge(
            "gateway_troubles",
            "What is wrong here just now: `down` keeps everybody from answering.",
            ["severity"],
            registry=own,
        )
        self.responses = Counter(
            "gateway_http_responses", "Answers to calls, here.", ["status"], registry=own
        )
        self.http_seconds = Histogram(
            "gateway_http_seconds",
            "How long calls took until their answer began, here.",
            ["method", "route", "status"],
            buckets=SHORT_SECONDS[::3],
            registry=own,
        )
        self.auth_failures = Counter(
            "gateway_auth_failures", "Calls without a good credential, here.", registry=own
        )
        self.waiters = Gauge(
            "gateway_http_waiters",
            "Calls that wait for news of a request, here.",
            registry=own,
        )
        self.decide_seconds = Histogram(
            "gateway_decide_seconds",
            "How long it took to apply a decision that came over HTTP, here.",
            buckets=SHORT_SECONDS,
            registry=own,
        )

    def _make_asked(self, registry: CollectorRegistry) -> None:
        """Make what the store is asked for at each scrape."""
        self._store, self._counted = StoreCollector(), CountsCollector()
        registry.register(self._store)
        registry.register(self._counted)
        self._pending = Gauge(
            "gateway_pending_requests", "Requests that wait for an answer.", registry=registry
        )
        self._oldest = Gauge(
            "gateway_oldest_pending_seconds",
            "For how long the oldest request has waited, 0 when none waits.",
            registry=registry,
        )
        self._of_cards = {
            name: Gauge(f"gateway_{name}", says, ["adapter"], registry=registry)
            for name, says in _OF_CARDS.items()
        }

    async def page(self) -> bytes:
        """Return the figures in Prometheus' text format."""
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
