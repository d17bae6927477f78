"""No re-spelling of a command gets through where the command itself does not."""

from __future__ import annotations

import pytest

from gateway.policy.calls.script import read_script
from gateway.policy.grants.grant import Shape
from gateway.policy.guardrails import find_dangers
from tests.grants.harmless import NEVER
from tests.grants.making import command
from tests.grants.respelling import respell
from tests.grants.test_guardrails import DESTRUCTIVE
from tests.grants.test_session_passes import passes

SEED = 20261127
# What cmd and PowerShell run is no word of a POSIX shell; a function has no first word to spell.
_FOREIGN = ("rd ", "del ", "Remove-Item", ":()", "terraform\n")


def _look(depth: int) -> list[str]:
    rows = [one for one in DESTRUCTIVE if not one.startswith(_FOREIGN)]
    return [
        f"{name}: {text!r}"
        for row in rows
        for name, text in respell(row, SEED, depth)
        if not find_dangers(command(text))
    ]


def test_guardrails_see_every_spelling() -> None:
    """Each row of their own table, in each spelling, and in some pairs of two."""
    assert _look(2) == []


@pytest.mark.thorough
@pytest.mark.timeout(600)  # it computes for long, and never waits
def test_guardrails_see_every_spelling_at_length() -> None:
    """Many pairs of spellings for each row."""
    assert _look(40) == []


def _let_through(depth: int) -> list[str]:
    return [
        f"{name}: {text!r}"
        for row in NEVER
        for name, text in respell(row, SEED, depth)
        if passes(Shape.SCRIPTS, command(text))
    ]


def test_no_pass_lets_a_spelling_through() -> None:
    """Each command that no pass is for, in each spelling."""
    assert _let_through(2) == []


@pytest.mark.thorough
@pytest.mark.timeout(600)  # it computes for long, and never waits
def test_no_pass_lets_a_spelling_through_at_length() -> None:
    """Many pairs of spellings for each command."""
    assert _let_through(40) == []


def test_a_script_is_read_alike_in_every_spelling() -> None:
    """The reader finds the same program, with the same words, in each spelling of a command."""
    for name, text in respell("git reset --hard HEAD", SEED):
        found = [" ".join((one.name, *one.words[1:])) for one in read_script(text).steps]
        assert "git reset --hard HEAD" in found, (name, text)
