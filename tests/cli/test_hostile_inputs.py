"""Rows of the table of hostile inputs, at the command line."""

from __future__ import annotations

import pytest

from gateway.client.http_connection import HttpPool
from gateway.models import new_id
from tests.cli.shell import Shell
from tests.cli.test_answering import agent, ask

pytestmark = pytest.mark.thorough

__all__ = ["agent"]

SHOWN = {
    "p\u0430ypal.example": "U+0430",
    "<!here> *b* `c`": "<!here> *b* `c`",
    "@everyone ||x|| **b**": "@everyone ||x|| **b**",
}


def test_rows_39_to_41_nothing_passes_for_something_else(up: Shell, agent: HttpPool) -> None:
    """Letters of another script are named in the list; what a chat would parse is text here."""
    for text, shown in SHOWN.items():
        asked = ask(agent, new_id(), command=f"open {text}")
        assert shown in up.run("pending"), text
        up.run("deny", asked)


def test_rows_47_and_53_one_answer_counts_and_a_guessed_id_is_nobodys(
    up: Shell, agent: HttpPool
) -> None:
    """The second answer is told who was first; an id that is not there decides nothing."""
    asked = ask(agent, new_id(), command="ls")
    up.run("approve", asked)
    code, said = up.call("deny", asked)
    assert code != 0
    assert "decided already" in said
    code, _ = up.call("approve", new_id())
    assert code != 0
