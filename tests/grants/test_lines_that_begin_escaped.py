"""A line that begins with a backslash is a command of its own, and `echo` is read as each shell
prints it."""

from __future__ import annotations

import pytest

from gateway.policy.calls.script import read_script
from gateway.policy.grants.grant import Shape
from gateway.policy.guardrails import find_dangers
from tests.grants.making import command
from tests.grants.test_session_passes import passes

BEFORE = [
    "ls\n",
    "ls\n\n",
    "X=1\n",
    "ls > f\n",
    "ls # c\n",
    "echo 'a\n\\b'\n",
    "cat <<E\n\\b\nE\n",
    "if true\nthen\n\\ls\nfi\n",
]


@pytest.mark.parametrize("before", BEFORE)
def test_escaped_line_is_a_command(before: str) -> None:
    """The grammar would take it for a word of the line before."""
    text = f"{before}\\rm -rf /srv"
    call = command(text)
    assert read_script(text).steps[-1].words == ("rm", "-rf", "/srv")
    assert find_dangers(call)
    assert not passes(Shape.SCRIPTS, call)


def test_quoted_lines_stay_as_they_are() -> None:
    """A text in quotes keeps its line breaks and backslashes."""
    steps = read_script("echo 'a\n\\b'\n\\ls").steps
    assert [one.words for one in steps] == [("echo", "a\n\\b"), ("ls",)]


@pytest.mark.parametrize(
    "program", ["rm -rf /srv", "truncate -s 0 x", "aws ec2 terminate-instances"]
)
def test_echo_is_read_both_ways(program: str) -> None:
    """Where dash prints a tab, bash prints a backslash."""
    assert find_dangers(command(f"echo '\\{program}' | sh"))
    assert find_dangers(command(f"printf '%s' '\\{program}' | sh"))
