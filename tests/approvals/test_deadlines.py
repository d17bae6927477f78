"""A gateway whose clock is wrong: deadlines are the server's."""

from __future__ import annotations

import pytest

from gateway.domain.clock import SystemClock
from gateway.domain.policy_document import Mode, Route
from gateway.models import Reason, Status
from gateway.policy.chain import ModeDecider
from gateway.server.connections import core_over
from tests.world import World, over_http, policy, request


class Skewed:
    """A host whose clock is wrong by so many ms."""

    def __init__(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.ahead_ms


@pytest.mark.parametrize("ahead_ms", [-3_600_000, -1500, 5, 3_600_000])
async def test_a_rules_approval_expires_by_the_servers_clock(world: World, ahead_ms: int) -> None:
    """However wrong the gateway's clock is, what it signed is what the server goes by."""
    await policy(world.store, Route(mode=Mode.AUTO_APPROVE, timeout=60))
    core = core_over(world.store, world.feed, [ModeDecider()], Skewed(ahead_ms), world.signer)
    for _ in range(2):
        record, _ = await core.approvals.submit(request(), over_http())
        assert record.decision is not None
        stored = await world.core.requests.get(record.id)
        assert stored.decision == record.decision
        assert record.decision.expires_at == stored.deadline
        assert 59_000 <= stored.deadline - stored.created <= 60_000
    cancelled = await core.approvals.cancel(
        "ab" * 16, over_http(), reason=Reason.CANCELLED_BY_AGENT
    )
    assert cancelled.status is Status.CANCELLED
