"""Runs one adapter as a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from gateway.api.adapter_pages import build_pages
from gateway.policy.hooks.host import host_hooks
from gateway.ports import HasRoutes
from gateway.ports.outgoing import Posts
from gateway.server.app import listen, site_of
from gateway.server.background import (
    desk_of,
    follow_policy,
    run_in_background,
    serve_adapters,
)
from gateway.server.connections import build_core, open_backend, signer_of, url_of
from gateway.server.health import NOT_FOLLOWING, HealthWatch
from gateway.server.plugins import adapter_class
from gateway.server.production_checks import refuse_unsafe
from gateway.server.push import PushParts
from gateway.server.settings import Settings
from gateway.stores.connect import connect, disconnect
from gateway.stores.event_feed import RedisFeed


@asynccontextmanager
async def run_adapter(settings: Settings, name: str) -> AsyncIterator[str]:
    """Run one adapter on the Redis of a gateway that runs elsewhere; yield the URL of its health
    endpoint and pages, empty for an adapter that has none.

    Without `REDIS_URL` it uses the embedded server of the data folder. It listens on the address of
    the settings, which must differ from that gateway's.
    """
    url = url_of(settings)
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(open_backend(settings, url))
        await refuse_unsafe(settings, backend.store)
        blocking = connect(url, blocking=True)
        stack.push_async_callback(disconnect, blocking)
        hooks = host_hooks(settings.hooks_file)
        await stack.enter_async_context(hooks.running())
        feed = RedisFeed(blocking, backend.store.keys)
        core = build_core(settings, backend.store, feed, hooks, signer_of(settings))
        await stack.enter_async_context(feed.running())
        await stack.enter_async_context(
            run_in_background("policy", partial(follow_policy, core, backend.store))
        )
        devices = PushParts(settings, core, backend).desk_for(name)
        desk = desk_of(name, core, backend.store, inbox=settings.inbox_url, devices=devices)
        adapter = adapter_class(name)()
        await stack.enter_async_context(serve_adapters(adapter, desk, core))
        if not isinstance(adapter, Posts | HasRoutes):  # the terminal has no health endpoint
            yield ""
            return
        site = site_of(settings, {name: adapter}, {name: desk}, backend.logins)
        readers = {NOT_FOLLOWING: feed}
        watch = HealthWatch(core.health, backend.store, (adapter,), readers, serves_api=False)
        await stack.enter_async_context(run_in_background("health", watch.run))
        yield await listen(build_pages(site, watch.look), settings, stack)
