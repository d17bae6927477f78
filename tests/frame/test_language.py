"""Plain English: each kind of text keeps to the limits of `language.toml`."""

from __future__ import annotations

import pytest

from tests.frame.language import (
    RULES,
    faults_of,
    pages_and_code,
    read,
    sentences_in,
    shares,
    texts_in,
)

FOUND = list(read(pages_and_code()))


@pytest.mark.parametrize("kind", sorted(RULES["most"]))
def test_a_kind_of_text_keeps_to_its_limits(kind: str) -> None:
    """No kind of text has a larger share of faults than permitted."""
    row = shares(FOUND)[kind]
    over = {fault: row[fault] for fault, most in RULES["most"][kind].items() if row[fault] > most}
    assert not over, f"{over} % of the {kind}: run python -m tests.frame.language FILE"


def test_each_exception_is_needed_and_has_a_reason() -> None:
    """An exception names a sentence with a fault, and says why it stays."""
    for one in RULES.get("exception", ()):
        hits = [each for each in FOUND
                if each.file == one["file"] and each.text.startswith(one["begins"])]  # fmt: skip
        assert hits, f"{one['file']} has no sentence that begins: {one['begins']}"
        assert all(faults_of(each.text) for each in hits), f"not needed: {one['begins']}"
        assert len(one["reason"].split()) > 2, f"no reason: {one['begins']}"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("The gateway stores the request.", []),
        ("What was denied stays denied.", ["clause"]),
        ("What does it cost?", []),
        ("The policy stands in a file.", ["stiff"]),
        (" ".join(["word"] * 26) + ".", ["long"]),
        (" ".join(["word"] * 25) + ".", []),
    ],
)
def test_the_rules_find_what_they_are_for(text: str, faults: list[str]) -> None:
    """Each rule finds its fault, and nothing else."""
    assert faults_of(text) == faults


def test_code_tables_and_headings_are_no_sentences() -> None:
    """Only prose counts, across line ends."""
    page = "# What it is for you\n\n| What | is | in | tables |\n\n```\nWhat is in code here\n```\n"
    assert not list(sentences_in(page))
    assert list(sentences_in("It reads one file. It\nwrites two other files.")) == [
        "It reads one file.", "It writes two other files."]  # fmt: skip


def test_docstrings_errors_and_help_are_read() -> None:
    """The reader of code finds all three kinds of text."""
    source = (
        '"""Read it all."""\nraise ValueError(f"no {name} is here")\nadd("--x", help="read it")\n'
    )
    wanted = [("docstrings", "Read it all."), ("errors", "no … is here"), ("help", "read it")]
    assert sorted(texts_in(source)) == wanted
