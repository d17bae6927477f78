"""What a request rests on is found once for each submission and each click, and passed on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gateway.domain.policy_document import PolicyDocument, Route
from gateway.policy.calls import call_effects
from tests.world import World, click

MOST_ROUTES = 2  # of one step, and of what people see of it afterwards


async def test_route_and_effects_are_found_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rules, grants, cards and events ask for them."""
    count: Counter[str] = Counter()
    route_for, touch = PolicyDocument.route_for, call_effects.touch

    def find_route(policy: PolicyDocument, agent: str, tool: str) -> Route:
        count["route"] += 1
        return route_for(policy, agent, tool)

    def read_call(call: Any) -> Any:
        count["call"] += 1
        return touch(call)

    monkeypatch.setattr(PolicyDocument, "route_for", find_route)
    monkeypatch.setattr(call_effects, "touch", read_call)
    record = await world.submit(tool="shell", arguments={"command": "git push origin main"})
    assert count == {"route": 1, "call": 1}
    count.clear()
    await world.core.requests.decide(click(record))
    assert count["route"] <= MOST_ROUTES and count["call"] <= 1
