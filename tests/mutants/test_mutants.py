"""The list of guards does not rot, the runner finds what survives, and nothing on the list does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.mutants.__main__ import main
from tests.mutants.guards import find_mistakes, read_guards
from tests.mutants.running import End, Result, run_all

LEAST = 80
CHOSEN = 10


def test_the_list_says_what_stands_in_the_tree() -> None:
    """Each text stands in its file once, each named test is there, no name is given twice."""
    guards = read_guards()
    assert find_mistakes(guards) == []
    assert len(guards) >= LEAST
    assert sum(one.chosen for one in guards) == CHOSEN


def test_a_text_that_is_not_there_once_is_a_mistake() -> None:
    """So that a guard that was rewritten is put on the list anew."""
    first = read_guards()[0]
    gone = replace(first, name="gone", text="nobody wrote this")
    often = replace(first, name="often", text="return")
    untested = replace(first, name="untested", tests=("tests/unit/test_chain.py::test_no_such",))
    found = [one.partition(":")[0] for one in find_mistakes([first, first, gone, often, untested])]
    assert found == [first.name, "gone", "often", "untested"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_survives_and_what_does_not_run_is_told() -> None:
    """A guard that its test does not need survives, and a file that cannot be read is no find."""
    guard = next(one for one in read_guards() if one.name == "json-size")
    unneeded = replace(guard, name="unneeded", text=" than MAX_DEPTH,", instead=" than 64,")
    broken = replace(guard, name="broken", text="def parse(", instead="def parse((")
    told: list[Result] = []
    run_all([guard, unneeded, broken], jobs=1, tell=told.append)
    assert [one.end for one in told] == [End.FOUND, End.SURVIVED, End.BROKEN]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_guard_on_the_list_survives() -> None:
    """The whole list."""
    assert main([]) == 0
