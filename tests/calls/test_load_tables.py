"""A gateway reads the tables of programs, tools and signs when it starts."""

from __future__ import annotations

from pathlib import Path

from gateway.policy.calls import argument_roles, danger_patterns, known_commands, shell_words
from gateway.server import app
from gateway.server.settings import Settings

TABLES = (
    shell_words.read_wrappers,
    known_commands.read_commands,
    argument_roles.tools_by_name,
    danger_patterns._by_program,
    danger_patterns._valued,
)


async def test_the_tables_are_read_before_the_first_request(tmp_path: Path) -> None:
    """Each reader of a table has its value once a gateway runs that nobody has asked."""
    for table in TABLES:
        table.cache_clear()
    async with app.run_gateway(Settings(data_dir=tmp_path / "data", port=0)):
        assert [table.cache_info().currsize for table in TABLES] == [1] * len(TABLES)
    assert all(table() for table in TABLES)
