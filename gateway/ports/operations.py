"""Define `Operations`: what an operator must know about all gateways at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.domain.health_and_metrics import StoreFigures
from gateway.domain.records import Paused
from gateway.ports.outgoing import OutboxFigures
from gateway.wire.codec import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Wire):
    """A `Finding` with the name of its check: `result` is ok, warn or fail."""

    name: str
    result: str
    says: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGateway(Wire):
    """One gateway by host and process. It renewed its lease `renewed` seconds ago."""

    name: str
    version: str
    leader: bool
    renewed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterState(Wire):
    """One adapter: `working`, `failing`, or `elsewhere` if it does not run in this process. Only
    adapters that post cards have an `outbox`."""

    name: str
    state: str
    outbox: OutboxFigures | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingShare(Wire):
    """The number of an agent's pending requests, and the most that its budget allows."""

    agent: str
    pending: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations(Wire):
    """The state of all gateways at `at`, in ms since the epoch.

    `status` is the one of `/readyz` in this process. `checks` begin with the problems. `pending`
    requests wait, the oldest for `oldest` seconds. `agents` are the closest to their limit. The
    next webhook to `webhook_host` ("" without webhooks) has waited for `webhook_seconds`.
    """

    at: int
    status: str
    checks: tuple[Check, ...]
    pending: int
    oldest: float
    store: StoreFigures
    gateways: tuple[RunningGateway, ...]
    adapters: tuple[AdapterState, ...]
    agents: tuple[PendingShare, ...]
    paused: tuple[Paused, ...]
    webhook_host: str
    webhook_seconds: float
