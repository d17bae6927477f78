"""Metrics for Prometheus. Each replica counts all events, by following the event stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0

from gateway.domain.health import Health
from gateway.domain.records import AuditEvent
from gateway.errors import Unreachable
from gateway.models import Reason, Status
from gateway.ports import Feed
from gateway.ports.outgoing import UNTRUE

log = logging.getLogger("gateway.api")

CONTENT_TYPE = CONTENT_TYPE_PLAIN_1_0_0

_ENDINGS = frozenset(Status) - {Status.PENDING}
_REASONS = frozenset(Reason)
_CARDS = UNTRUE | {"delivered"}
_DECIDE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """The gateway's figures, in a registry of their own.

    `pending` returns how many requests wait for an answer now; it is asked at each scrape, and so
    is what `health` says is wrong.
    """

    def __init__(self, pending: Callable[[], Awaitable[int]], health: Health) -> None:
        self._pending_now = pending
        self._health = health
        self._registry = registry = CollectorRegistry()
        self._submitted = Counter(
            "gateway_submitted", "Requests taken in, on all replicas.", registry=registry
        )
        self._ended = Counter(
            "gateway_requests",
            "Requests that ended, on all replicas.",
            ["status", "reason"],
            registry=registry,
        )
        self._refused = Counter(
            "gateway_refused", "Messages and clicks refused, on all replicas.", registry=registry
        )
        self._dead = Counter(
            "gateway_dead_letters",
            "Messages that could not be handled, on all replicas.",
            registry=registry,
        )
        self._cards = Counter(
            "gateway_cards",
            "What became of cards that were posted or edited, on all replicas.",
            ["outcome"],
            registry=registry,
        )
        self._pending = Gauge(
            "gateway_pending_requests", "Requests that wait for an answer.", registry=registry
        )
        self._troubles = Gauge(
            "gateway_troubles",
            "What is wrong here just now: `down` keeps everybody from answering.",
            ["severity"],
            registry=registry,
        )
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

    def count(self, event: AuditEvent) -> None:
        """Count one event."""
        if event.type == "submitted":
            self._submitted.inc()
        elif event.type == "refused":
            self._refused.inc()
        elif event.type == "dead_letter":
            self._dead.inc()
        elif event.type in _CARDS:
            self._cards.labels(event.type).inc()
        elif event.type in _ENDINGS:
            reason = event.data.get("reason")
            # A label's values must be few, whatever stands in the stream.
            known = reason if reason in _REASONS else "unknown"
            self._ended.labels(event.type, known).inc()

    async def follow(self, feed: Feed) -> None:
        """Count events until cancelled."""
        while True:
            async with feed.changes() as events:
                try:
                    async for event in events:
                        self.count(event)
                except Unreachable:
                    log.warning("metrics missed events", extra={"event": "metrics_behind"})
            await asyncio.sleep(0)

    async def page(self) -> bytes:
        """Return the figures in Prometheus' text format."""
        self._pending.set(await self._pending_now())
        found = self._health.readiness
        self._troubles.labels("down").set(len(found.down))
        self._troubles.labels("degraded").set(len(found.degraded))
        return generate_latest(self._registry)
