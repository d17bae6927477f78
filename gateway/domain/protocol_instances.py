"""Instances of the Agent Approval Protocol, where they hear of decisions, and what is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from gateway.domain.records import place_of
from gateway.errors import GatewayError
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, Wire

WINDOW_MS = 7 * 24 * 3600 * 1000
"""How long after a decision it is told of."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnsafeAddress(GatewayError):
    """The gateway does not call this address."""


class ReceiverUnverified(GatewayError):
    """A receiver did not prove that it expects to hear of an instance."""


class TooManyRegistrations(GatewayError):
    """More receivers are registered than the gateway verifies in a minute."""

    status = 429

    def __init__(self, words: str, seconds: int) -> None:
        super().__init__(words)
        self.headers = {"Retry-After": str(seconds)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverAddress(Wire):
    """Where an instance hears of decisions. `secret` signs; `since` is the last event that the
    receiver hears nothing of, and it stays when another receiver takes its place."""

    url: str
    registration_id: str
    secret: str = field(repr=False)
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance(Wire):
    """One instance, as it is kept. `agent` is the agent that it is here, `made_by` the admin whose
    token made it; `submitted` is the digest of what was asked for. `updates` has, by the digest of
    its key, what an update submitted, what it was answered, and when."""

    id: str
    name: str
    agent: str
    made_by: str
    submitted: str
    deleted: bool = False
    receiver: ReceiverAddress | None = None
    updates: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolNotice(Wire):
    """What an instance is told of the end of a request: the same words at every attempt."""

    id: str
    event: str
    instance: str
    body: str
    decided_at: int
    attempts: int = 0
    ended: bool = False

    @property
    def deadline(self) -> int:
        """Until when it is sent, in ms since the epoch."""
        return self.decided_at + WINDOW_MS


def hears_of(instance: Instance | None, event: str) -> ReceiverAddress | None:
    """Return the receiver that is told of an event, None where nobody is."""
    if instance is None or instance.deleted or instance.receiver is None:
        return None
    receiver = instance.receiver
    return receiver if place_of(event) > place_of(receiver.since) else None


def notice_of(instance_id: str, request_id: str, event: str, decided_at: int) -> ProtocolNotice:
    """Return the notice of an end: made twice, it is the same."""
    made = sha256_hex(canonical(["notice", instance_id, request_id]))[:32]
    notice_id = str(UUID(made, version=5))
    body = {
        "id": notice_id,
        "type": "request.resolved",
        "instance_id": str(UUID(instance_id)),
        "request_id": str(UUID(request_id)),
        "created_at": format_time(decided_at),
    }
    return ProtocolNotice(
        id=notice_id,
        event=event,
        instance=instance_id,
        body=canonical(body).decode(),
        decided_at=decided_at,
    )


def format_time(ms: int) -> str:
    """Return a moment in UTC as the protocol writes it."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
