"""A gateway whose clock is wrong: deadlines are the server's."""

from __future__ import annotations

import pytest

from gateway.domain.policy_document import Mode, Route
from gateway.errors import InvalidRequest
from gateway.models import Reason, Status
from gateway.policy.chain import ModeDecider
from gateway.policy.policy_file_reader import read_policy
from gateway.server.connections import core_over
from tests.clocks import ShiftedClock
from tests.world import World, over_http, policy, request


@pytest.mark.parametrize("ahead_ms", [-3_600_000, -1500, 5, 3_600_000])
async def test_a_rules_approval_expires_by_the_servers_clock(world: World, ahead_ms: int) -> None:
    """However wrong the gateway's clock is, what it signed is what the server goes by."""
    await policy(world.store, Route(mode=Mode.AUTO_APPROVE, timeout=60))
    core = core_over(
        world.store, world.feed, [ModeDecider()], ShiftedClock(ahead_ms / 1000), world.signer
    )
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


@pytest.mark.parametrize(
    ("asked", "most", "lives"),
    [
        (None, None, 300),
        (9_000.0, None, 9_000),
        (0.0, None, 30 * 24 * 3600),
        (9_000.0, 600.0, 600),
        (0.0, 600.0, 600),
        (60.0, 600.0, 60),
        (None, 600.0, 300),
        (None, 120.0, 120),
    ],
)
async def test_a_route_says_how_long_a_request_lives(
    world: World, asked: float | None, most: float | None, lives: int
) -> None:
    """The route's time holds where the agent names none; its bound holds whatever is asked."""
    await policy(world.store, Route(timeout=300, max_timeout=most))
    record = await world.submit(timeout=asked)
    assert lives - 1 <= (record.deadline - record.created) / 1000 <= lives


@pytest.mark.parametrize("most", [0, -1])
def test_a_bound_on_the_time_is_more_than_nothing(most: int) -> None:
    """A bound of 0 could mean none or at once, so the policy file refuses it."""
    with pytest.raises(InvalidRequest, match="max_timeout"):
        read_policy(f'[[routes]]\nname = "r"\nmax_timeout = {most}\n')
