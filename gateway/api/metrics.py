"""Metrics for Prometheus. What happened is counted in the store as it is sealed: the same on every
replica, each event once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from prometheus_client.registry import Collector

from gateway.domain.clock import SystemClock
from gateway.domain.event_counts import CARD, DEAD_LETTER, ENDED, REFUSED, SUBMITTED
from gateway.domain.health import Health
from gateway.ports.outgoing import OutboxFigures

CONTENT_TYPE = CONTENT_TYPE_PLAIN_1_0_0

_DECIDE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Waits(Protocol):
    """What is known of the requests that wait."""

    async def count_pending(self) -> int:
        """Return how many requests wait."""

    async def oldest_pending(self) -> int | None:
        """Return when the oldest of them was asked, in ms; None when none waits."""

    async def event_counts(self) -> dict[str, int]:
        """Return how often each thing happened, see `gateway.domain.event_counts`."""


_OF_CARDS = {
    "stale_cards": "Posted cards with buttons whose request has ended.",
    "stale_card_age_seconds": "How long ago the request of the oldest stale card ended.",
    "outbox_requests": "Requests and grants whose cards are to be looked at.",
    "outbox_age_seconds": "For how long the first of them has been due.",
}
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
Outboxes = Callable[[], Awaitable[Sequence[OutboxFigures]]]
"""Returns how true the cards of each adapter that posts are."""


async def no_outboxes() -> Sequence[OutboxFigures]:
    """Return nothing: no adapter posts cards."""
    return ()


class _Counted(Collector):
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


class Metrics:
    """The gateway's figures, in a registry of their own.

    What waits, how true the cards are and what is wrong is asked at each scrape.
    """

    def __init__(self, waits: Waits, outboxes: Outboxes, health: Health) -> None:
        self._waits = waits
        self._health = health
        self._outboxes = outboxes
        self._registry = registry = CollectorRegistry()
        self._counted = _Counted()
        registry.register(self._counted)
        self._pending = Gauge(
            "gateway_pending_requests", "Requests that wait for an answer.", registry=registry
        )
        self._troubles = Gauge(
            "gateway_troubles",
            "What is wrong here just now: `down` keeps everybody from answering.",
            ["severity"],
            registry=registry,
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
        self.auth_failures = Counter(
            "gateway_auth_failures", "Calls without a good credential, here.", registry=registry
        )
        self.waiters = Gauge(
            "gateway_http_waiters",
            "Calls that wait for news of a request, here.",
            registry=registry,
        )
        self.decide_seconds = Histogram(
            "gateway_decide_seconds",
            "How long it took to apply a decision that came over HTTP, here.",
            buckets=_DECIDE_BUCKETS,
            registry=registry,
        )

    async def page(self) -> bytes:
        """Return the figures in Prometheus' text format."""
        self._counted.counts = await self._waits.event_counts()
        wrong = self._health.readiness
        self._troubles.labels("down").set(len(wrong.down))
        self._troubles.labels("degraded").set(len(wrong.degraded))
        self._pending.set(await self._waits.count_pending())
        oldest = await self._waits.oldest_pending()
        waited = 0 if oldest is None else SystemClock().now_ms() - oldest
        self._oldest.set(max(0, waited) / 1000)
        for found in await self._outboxes():
            figures = (found.stale, found.oldest_stale, found.waiting, found.overdue)
            for gauge, figure in zip(self._of_cards.values(), figures, strict=True):
                gauge.labels(found.adapter).set(figure)
        return generate_latest(self._registry)
