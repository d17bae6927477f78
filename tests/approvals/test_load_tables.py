"""The tables of programs, tools and signs are read when a gateway starts."""

from __future__ import annotations

from gateway.policy.calls import command_table, known_tools
from tests.world import World


async def test_the_tables_are_read_before_the_first_request(world: World) -> None:
    """Also where guardrails are off; nothing is stored for it."""
    command_table._table.cache_clear()
    known_tools._by_name.cache_clear()
    await world.core.load_tables()
    assert command_table._table.cache_info().currsize == 1
    assert known_tools._by_name.cache_info().currsize == 1
    assert await world.store.pending_of("gateway") == []
