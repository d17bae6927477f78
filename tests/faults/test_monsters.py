"""Entries of any size: no agent fills the gateway's memory, or keeps the others waiting."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from gateway.stores.ingress import MOST_BYTES
from gateway.wire.codec import plain
from tests.world import AGENT, World, request

pytestmark = pytest.mark.thorough

MEGABYTE = 1_048_576
MONSTERS: dict[str, dict[Any, Any]] = {
    "one huge field": {"v": "1", "verb": "submit", "body": "x" * (40 * MEGABYTE)},
    "many large fields": {f"field{number}": "x" * MEGABYTE for number in range(40)},
    "very many small fields": {f"{number:050}": f"{number:050}" for number in range(90_000)},
}


@pytest.mark.parametrize("monster", MONSTERS)
async def test_an_entry_that_fits_no_memory_is_dropped_unread(world: World, monster: str) -> None:
    """Dropped with an event; what stands around it is taken in, from this agent and another."""
    await world.credentials.add_agent("other")
    before, behind, others = request(), request(), request(agent="other")
    queue = world.store.keys.ingress(AGENT)
    await world.send("submit", plain(before))
    await world.store.redis.xadd(queue, MONSTERS[monster])
    await world.send("submit", plain(behind))
    await world.send("submit", plain(others), agent="other")
    tracemalloc.start()
    try:
        async with world.ingress().running():
            assert {(await world.reply())["id"] for _ in range(2)} == {before.id, behind.id}
            assert (await world.reply(agent="other"))["id"] == others.id
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 4 * MOST_BYTES
    refused = [event for event in await world.events() if event.type == "refused"]
    assert [(event.agent, event.data["code"]) for event in refused] == [(AGENT, "too_large")]
    assert not await world.store.redis.exists(queue)


async def test_more_large_messages_than_fit_at_once_are_all_answered(world: World) -> None:
    """Each fits by itself: those within the limit are taken in, those beyond it are refused."""
    good = [request(arguments={"text": "x" * 900_000}) for _ in range(20)]
    for one in good:
        await world.send("submit", plain(one))
        await world.send("submit", {"text": "x" * (2 * MEGABYTE)})
    async with world.ingress().running():
        replies = [await world.reply() for _ in range(40)]
    assert {reply["id"] for reply in replies if "state" in reply} == {one.id for one in good}
    refused = [reply["error"] for reply in replies if "error" in reply]
    assert len(refused) == 20
    assert all("more than 1048576" in one["detail"] for one in refused)
