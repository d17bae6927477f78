"""The kill switch and approvals from before it: what was not handed out yet stays here."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict
from gateway.models import State, Status
from tests.world import PROCESS, World, click, over_http


async def test_no_approval_is_handed_out_while_it_is_on(world: World) -> None:
    """Not to a look, a sync, a repeated submit or a consume, over either way; later it is."""
    record = await world.submit()
    detached, _ = await world.approvals.submit(record.request, over_http(None))
    assert detached.id == record.id
    await world.core.requests.decide(click(record))
    mine = over_http(PROCESS)

    async def seen() -> list[State]:
        await world.approvals.submit(record.request, mine)
        return [
            await world.approvals.state(record.id, mine),
            *await world.approvals.sync([record.id], mine),
        ]

    assert all(state.decision for state in await seen())
    await world.store.set_stopped(True, by="test")
    assert [(state.status, state.decision) for state in await seen()] == [
        (Status.APPROVED, None),
        (Status.APPROVED, None),
    ]
    for process in (PROCESS, "q" * 16):
        with pytest.raises(Conflict, match="kill switch"):
            await world.approvals.consume(record.id, over_http(process))
    for verb, body in (("sync", {"ids": [record.id]}), ("consume", {"id": record.id})):
        await world.send(verb, body)
        await world.handled()
        told = await world.reply()
        assert "decision" not in told.get("state", {}), verb
    await world.store.set_stopped(False, by="test")
    assert all(state.decision for state in await seen())
    assert (await world.approvals.consume(record.id, mine)).decision is not None


async def test_denials_are_told_all_the_same(world: World) -> None:
    """Whoever waits hears at once why they may not."""
    record = await world.submit()
    await world.store.set_stopped(True, by="test")
    await world.sweeper.sweep()
    state = await world.approvals.state(record.id, over_http(PROCESS))
    assert state.status is Status.DENIED
    assert state.decision is not None
