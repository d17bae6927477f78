"""A gateway with hooks, whose puppet does what the request's arguments tell it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import StoredRequest
from gateway.policy.hooks import Hook, HookHost
from gateway.stores.requests import RedisGroups
from tests.world import World

PUPPET = Path(__file__).with_name("puppet.py")
QUICK = 2.0


def hook(name: str = "puppet", notes: Path | None = None, **more: Any) -> Hook:
    """Return a hook that runs the puppet."""
    env = {"PUPPET": name, **({"PUPPET_NOTES": str(notes)} if notes else {}), **more.pop("env", {})}
    values: dict[str, Any] = {"intercept": ("before_tool", "approve_tool"), **more}
    return Hook(command=(sys.executable, str(PUPPET)), env=env, **values)


async def reviewed_in(world: World, request_id: str) -> None:
    """Have hooks asked about a request, as the worker of a gateway does."""
    await world.core.reviews.look(request_id, RedisGroups(world.store))


@dataclass
class Stage:
    """A gateway with hooks."""

    world: World
    host: HookHost

    async def asked(self, arguments: dict[str, Any], **more: Any) -> StoredRequest:
        """Submit a call whose arguments tell the hooks what to do; return what they make of it."""
        record = await self.world.submit(tool="thing", arguments=arguments, **more)
        await reviewed_in(self.world, record.id)
        return await self.world.core.requests.get(record.id)

    async def auto_approve(self) -> None:
        """Have the route approve what nothing above refuses."""
        routes = (Route(approvers=("ann",), mode=Mode.AUTO_APPROVE),)
        await self.world.put(routes=routes)


Staged = Callable[..., Any]
