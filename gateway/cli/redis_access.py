"""How operators' commands reach the gateway's state: straight through Redis.

Whoever can reach Redis as the gateway does may run them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.approvals.core import Core
from gateway.policy.hooks.host import HookHost, host_hooks
from gateway.server.connections import Backend, build_core, open_backend, url_of
from gateway.server.settings import Settings
from gateway.stores.event_feed import RedisFeed


@asynccontextmanager
async def connect_backend() -> AsyncIterator[Backend]:
    """Connect to the configured Redis, or to the running embedded server of the data folder."""
    settings = Settings()
    async with open_backend(settings, url_of(settings)) as found:
        yield found


def operator_core(found: Backend, hooks: HookHost | None = None) -> Core:
    """Return the core for one command. `hooks` must be running where the command
    evaluates a request."""
    feed = RedisFeed(found.store.redis, found.store.keys)
    return build_core(Settings(), found.store, feed, hooks or host_hooks(None), None)
