"""Reading a command: both readers must take it."""

import pytest

from gateway.policy.calls.shell_words import plain_words, simple_command


@pytest.mark.parametrize(
    "text",
    ["export A", "unset x", "declare a", "readonly a", "local x", "if", "for", "case", "select x"],
)
def test_what_only_the_scanner_takes_is_not_read(text: str) -> None:
    """These are plain words to the scanner, and something else to the shell's grammar."""
    assert simple_command(text) is None


@pytest.mark.parametrize("text", ["ls ~", "ls {a,b}", "=ls x", "ls *", "ls @(a)", "! ls", "ls &"])
def test_what_only_the_grammar_takes_is_not_read(text: str) -> None:
    """These are words, or one command, to the grammar; no scanner that is honest takes them."""
    assert simple_command(text) is None


def test_words_are_those_of_the_program() -> None:
    """Quotes are gone, and it is remembered what stood without them."""
    words = simple_command("git log --format='%h %s' \"a b\" 'c\\d' HEAD~1")
    assert words is not None
    assert [word.text for word in words] == [
        "git", "log", "--format=%h %s", "a b", "c\\d", "HEAD~1",
    ]  # fmt: skip
    assert [word.head for word in words][2:4] == ["--format=", ""]
    assert [word.plain for word in words] == [True, True, False, False, False, True]


def test_a_list_is_taken_where_no_word_needs_quotes() -> None:
    """Whoever joins it with spaces runs the same."""
    assert plain_words(["ls", "-la"]) is not None
    for parts in ([], ["a b"], [""], ["A=1", "ls"], ["ls"] * 65, ["ls", "a" * 5000]):
        assert plain_words(parts) is None
