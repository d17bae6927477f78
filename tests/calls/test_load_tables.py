"""A gateway reads the tables of programs, tools and signs when it starts."""

from __future__ import annotations

from gateway.policy.calls import argument_roles, danger_patterns, known_commands, shell_words

TABLES = (
    shell_words.read_wrappers,
    known_commands.read_commands,
    argument_roles.tools_by_name,
    danger_patterns._by_program,
    danger_patterns._valued,
)


def test_the_tables_are_read_before_the_first_request() -> None:
    """Each reader of a table has its value."""
    for table in TABLES:
        table.cache_clear()
    danger_patterns.load_tables()
    for table in TABLES:
        assert table.cache_info().currsize == 1
        assert table()
