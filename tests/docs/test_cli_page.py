"""docs/reference/cli.md: its commands are those of the parsers, each with words for a person."""

from __future__ import annotations

from tests.docs import cli_page


def test_the_page_is_what_the_parsers_say() -> None:
    """`python -m tests.docs.cli_page` writes it again after a help text changes."""
    assert cli_page.PAGE.read_text(encoding="utf-8") == cli_page.page()


def test_every_command_and_argument_has_help() -> None:
    """Nobody has to guess what an argument does."""
    for command, parser in cli_page.commands().items():
        assert parser.description, command
        for typed, words in cli_page.arguments(parser).items():
            assert words, f"{command} {typed}"
