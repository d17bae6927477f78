"""A gateway reads the tables of programs, tools and signs when it starts."""

from __future__ import annotations

from gateway.policy.calls import command_table, roles, shell_words, signs

TABLES = (
    shell_words.read_wrappers,
    command_table.read_commands,
    roles.tools_by_name,
    signs._by_program,
    signs._valued,
)


def test_the_tables_are_read_before_the_first_request() -> None:
    """Each reader of a table has its value."""
    for table in TABLES:
        table.cache_clear()
    signs.load_tables()
    for table in TABLES:
        assert table.cache_info().currsize == 1
        assert table()
