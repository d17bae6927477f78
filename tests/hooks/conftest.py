"""Gateways with hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from gateway.policy.hooks import Hook, HookHost, HookLink
from tests.hooks.stage import Stage, Staged, hook
from tests.world import assembled


@pytest.fixture
async def staged(server_url: str, namespace: str) -> AsyncIterator[Staged]:
    """Yield a function that runs a gateway with the hooks given."""
    async with AsyncExitStack() as stack:

        async def stage(**hooks: Hook) -> Stage:
            host = HookHost(hooks or {"puppet": hook()})
            await stack.enter_async_context(host.running())
            link = (HookLink(host),)
            world = await stack.enter_async_context(assembled(server_url, namespace, link))
            return Stage(world, host)

        yield stage
