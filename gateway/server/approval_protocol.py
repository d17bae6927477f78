"""Puts the Agent Approval Protocol together: what answers its clients, and what tells instances
that their requests ended."""

from __future__ import annotations

import logging
from functools import partial

from gateway.api.app import RoutesOf
from gateway.approval_protocol.instances import RedisInstances, RedisNotices, RedisProtocolNotes
from gateway.approval_protocol.provisioning import Provisioning, ReceiverRegistration
from gateway.approval_protocol.requests import ProtocolRequests
from gateway.approval_protocol.routes import protocol_routes
from gateway.approval_protocol.webhooks import PollInterval, ProtocolNotices, ProtocolReceivers
from gateway.approvals.deadlines import dismiss
from gateway.approvals.services import Core
from gateway.domain.records import Identity
from gateway.domain.time_and_tasks import Clock, SystemClock
from gateway.server.connections import Backend
from gateway.server.settings import Settings
from gateway.stores.credentials import REDIS_ERRORS, RedisCredentials
from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.signatures import Signer

log = logging.getLogger("gateway.protocol")

KEPT_DAYS = 8
"""The week for which the protocol promises what ended to its clients, and a day for the clocks."""
_INSTANCES = b"tokens of the instances of the Agent Approval Protocol"


def receivers_of(settings: Settings) -> ProtocolReceivers:
    """Return what calls the receivers of instances."""
    return ProtocolReceivers(
        SystemClock(), hosts=settings.webhook_hosts, production=settings.production
    )


def serve_protocol(
    settings: Settings, core: Core, backend: Backend, signer: Signer
) -> RoutesOf | None:
    """Return the routes of the Agent Approval Protocol; nothing where requests are
    forgotten before the protocol's week is over, since its clients could not tell."""
    if settings.retention_days < KEPT_DAYS:
        log.warning(
            "/aap is not served: GATEWAY_RETENTION_DAYS is %g, and the Agent Approval Protocol "
            "needs %d",
            settings.retention_days,
            KEPT_DAYS,
            extra={"event": "protocol_not_served"},
        )
        return None
    receivers = receivers_of(settings)
    return protocol_of(core, backend.store, backend.credentials, signer, receivers)


def protocol_of(
    core: Core,
    store: RedisStore,
    credentials: RedisCredentials,
    signer: Signer,
    receivers: ProtocolReceivers,
) -> RoutesOf:
    """Return the routes of the Agent Approval Protocol."""

    async def is_admin(name: str) -> bool:
        return (await store.policy()).is_admin(Identity(platform="token", id=name))

    secret = sha256_hex(signer.sign(_INSTANCES).encode()).encode()  # a signature nobody is given
    provisioning = Provisioning(
        RedisInstances(store, credentials, secret),
        SystemClock(),
        ReceiverRegistration(check=receivers.check, verify=receivers.verify),
        is_admin=is_admin,
        dismiss=partial(dismiss, core, store),
    )
    requests = ProtocolRequests(RedisProtocolNotes(store), SystemClock())
    return partial(protocol_routes, requests, provisioning)


def notices_of(
    core: Core,
    store: RedisStore,
    receivers: ProtocolReceivers,
    *,
    clock: Clock | None = None,
    rhythm: PollInterval | None = None,
) -> ProtocolNotices:
    """Return what tells instances that their requests ended."""
    return ProtocolNotices(
        RedisNotices(store),
        store,
        core.feed,
        receivers,
        clock or SystemClock(),
        core.tally,
        store_errors=REDIS_ERRORS,
        rhythm=rhythm,
    )
