"""Puts web push together: the key, what sends, what works through the queue, and the desks of
adapters whose people have devices."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from gateway.approvals.services import Core
from gateway.delivery.outbox_worker import TIMINGS
from gateway.domain.time_and_tasks import SystemClock
from gateway.ports.devices import PUSH
from gateway.push.notifications import Notifications
from gateway.push.sending import MISSING, PushKey, PushQueue, PushSender, is_installed
from gateway.push.service import PushDesk
from gateway.server.background import run_worker
from gateway.server.connections import Backend
from gateway.server.settings import BadSettings, Settings
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.devices import RedisDevices
from gateway.stores.outbox import RedisAdapterStorage
from gateway.wire.local_discovery import write_private

KEY_FILE = "push.key"
_KEY_BYTES = 32
_TIMINGS = replace(TIMINGS, idle=30.0)
"""All that changes rings the bell; what is put off for longer may come so much later."""
_CONTACT = "mailto:approval-gateway@localhost"
NO_KEY = (
    "nothing is pushed: with REDIS_URL set, all gateways need the same GATEWAY_PUSH_KEY, base64 of "
    "32 random bytes"
)
NOT_INSTALLED = f"nothing is pushed: {MISSING}"


class PushParts:
    """Web push over one namespace; `missing` says why there is none, "" where there is."""

    def __init__(self, settings: Settings, core: Core, backend: Backend) -> None:
        self._core = core
        self._store = backend.store
        self._devices = RedisDevices(backend.store)
        self._clock = SystemClock()
        key, self.missing = push_key_of(settings, make=True)
        self._sender = self._telling = None
        if key is None:
            return
        self._sender = PushSender(
            key,
            self._clock,
            hosts=settings.push_hosts,
            production=settings.production,
            contact=_contact(settings),
        )
        self._telling = Notifications(
            core,
            backend.store,
            self._devices,
            backend.logins.holder,
            self._sender,
            RedisAdapterStorage(backend.store, PUSH),
            self._clock,
        )

    def desk_for(self, place: str) -> PushDesk:
        """Return the desk of an adapter's people's devices."""
        return PushDesk(
            place,
            self._core,
            self._store,
            self._devices,
            self._clock,
            sender=self._sender,
            telling=self._telling,
            missing=self.missing,
        )

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work through the queue until left."""
        if self._telling is None:
            yield
            return
        queue = PushQueue(
            self._core.feed,
            self._core.requests,
            self._core.outbox,
            self._devices,
            tidy=self._telling.tidy,
            store_errors=REDIS_ERRORS,
        )
        look = self._telling.look
        async with run_worker(PUSH, look, self._core, _TIMINGS, changes=queue.changes):
            yield


def push_key_of(settings: Settings, *, make: bool = False) -> tuple[PushKey | None, str]:
    """Return the key that pushes are signed with, and why there is none: it is the setting's, or
    that of the data folder, which is made there if `make` says so. Raises BadSettings."""
    if not is_installed():
        return None, NOT_INSTALLED
    if settings.push_key is not None:
        try:
            return PushKey(settings.push_key.get_secret_value()), ""
        except ValueError as error:
            raise BadSettings(f"GATEWAY_PUSH_KEY: {error}") from error
    if settings.redis_url is not None:
        return None, NO_KEY
    path = settings.data_dir / KEY_FILE
    if not path.exists():
        if not make:
            return None, "no key was made yet"
        _make_key(path)
    try:
        return PushKey(path.read_text(encoding="utf-8").strip()), ""
    except ValueError:
        raise BadSettings(
            f"{path} holds no push key: put it back from a backup, or remove it to have a new one "
            "made; then notifications must be turned off and on again on each device"
        ) from None


def _make_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode())


def _contact(settings: Settings) -> str:
    """Return how push services reach whoever runs this gateway: its own address."""
    parts = urlsplit(settings.public_url or "")
    return f"https://{parts.hostname}" if parts.scheme == "https" else _CONTACT
