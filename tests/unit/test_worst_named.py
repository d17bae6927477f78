"""Whatever stands around a harmful command, the head names the harm."""

from __future__ import annotations

import pytest

from tests.unit.compounds import draw_compounds
from tests.unit.test_heads import said

SEED = 20261127


def _look(count: int, depth: int) -> list[str]:
    wrong = []
    for one, text in draw_compounds(SEED, count, depth):
        head = said(command=text)
        low = head.lower()
        if not any(v in low for v in one.verbs) or not any(o in low for o in one.objects):
            wrong.append(f"{one.text!r} in {text!r}: {head}")
    return wrong


def test_the_worst_is_named() -> None:
    """Some hundred scripts."""
    assert _look(600, 3) == []


@pytest.mark.thorough
def test_the_worst_is_named_at_length() -> None:
    """Many scripts, nested deeper."""
    assert _look(12_000, 4) == []
