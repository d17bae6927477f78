"""Pages: put together they are the text, and each is as full as its platform has it."""

from __future__ import annotations

from random import Random

import pytest

from gateway.cards.blocks import paginate
from gateway.cards.card import full_view
from tests.unit.test_cards import record

MARK = "── "
PICTURES = ("👩\u200d💻", "🇩🇪", "e\u0301", "⟨U+202E⟩", "👍🏽", "#\ufe0f\u20e3")
ENDLESS = ("⟨U+202E⟩" * 3, "abc", "a" + "\u0301" * 90, "👩\u200d" * 90, "\n\n")


def pages_of(text: str, room: int) -> list[str]:
    """Return a text in pages of at most so many characters."""
    made = paginate([(text, False)], {}, lambda page: len(page) <= room)
    return ["".join(part for part, _ in page) for page in made]


def test_pages_are_the_text_and_none_is_blank_or_half_empty() -> None:
    """Whatever the lengths of lines: only the last page may be short."""
    for seed in range(60):
        random = Random(seed)
        lines = ["x" * random.choice((0, 1, 5, 30, 99, 100, 101, 250)) for _ in range(40)]
        text, room = "\n".join([*lines, "end"]), 100
        made = pages_of(text, room)
        assert "".join(made) == text
        assert all(page.strip() and len(page) <= room for page in made)
        assert all(2 * len(page) >= room - 2 for page in made[:-2])


def test_lines_stay_whole_where_they_fit() -> None:
    """A page ends after a line, unless that line is longer than half of it."""
    made = pages_of("".join(f"line number {number}\n" for number in range(50)), 100)
    assert all(page.endswith("\n") for page in made)


def test_no_heading_stands_at_the_end_of_a_page() -> None:
    """What it is the heading of begins below it; also where one page is full just then."""
    for size in range(0, 200, 7):
        asked = {"arguments": {"command": "x\n" * size + "y" * 60, "script": "z" * 150}}
        view = full_view(record(ask=asked), fits=lambda page: len(page) <= 100)
        assert view.text == full_view(record(ask=asked)).text
        for page in view.pages:
            assert not page.text.rstrip("\n").split("\n")[-1].startswith(MARK)


@pytest.mark.parametrize("unit", PICTURES)
def test_what_is_drawn_as_one_is_not_cut_in_two(unit: str) -> None:
    """Wherever the end of a page falls."""
    for room in range(len(unit), 40):
        for page in pages_of(unit * 50, room):
            assert page == unit * (len(page) // len(unit))


@pytest.mark.parametrize("text", ENDLESS)
def test_what_fits_nowhere_still_ends(text: str) -> None:
    """Nothing is lost and nothing loops; who shows such a page finds that it does not fit."""
    for room in (0, 1, 3):
        made = pages_of(text, room)
        assert "".join(made) == text
        assert all(made)


def test_the_last_page_is_not_only_line_ends() -> None:
    """Some ink is kept for it."""
    assert pages_of("x" * 100 + "\n\n", 100) == ["x" * 99, "x\n\n"]
