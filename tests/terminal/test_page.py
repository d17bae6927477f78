"""docs/guides/answer.md names every key."""

from __future__ import annotations

import re
from pathlib import Path

from textual.binding import Binding

from adapters.terminal import prompts
from adapters.terminal import prompts as questions
from adapters.terminal import screen as answering

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "answer.md").read_text(encoding="utf-8")
NAMES = {
    "left": "←", "right": "→", "up": "↑", "down": "↓", "question_mark": "?", "ctrl+s": "Ctrl+S",
    "escape": "Esc", "space": "Space", "enter": "Enter",
}  # fmt: skip


def test_every_key_stands_in_the_table() -> None:
    """Of the queue, of forms, and of what is shown whole."""
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE)
    named = {key for row in rows for key in re.findall(r"`([^`]+)`", row)}
    own = [
        one
        for module in (answering, prompts, questions)
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == module.__name__
    ]
    bound = [binding for one in own for binding in vars(one).get("BINDINGS", ())]
    keys = {
        key for one in bound for key in (one.key if isinstance(one, Binding) else one[0]).split(",")
    }
    assert NAMES.keys() <= keys
    assert {NAMES.get(key, key) for key in keys} <= named
