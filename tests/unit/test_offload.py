"""What is large is drawn beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gateway.api.requests import render_records
from gateway.cards.blocks import HEAVY_CHARS, draw, heavy, weight_of
from gateway.models import FieldKind, Kind, Question
from tests.unit.test_cards import record


@pytest.mark.parametrize(
    ("values", "beside"),
    [
        (("x" * HEAVY_CHARS,), True),
        (({"a": ["x"] * HEAVY_CHARS},), True),
        (({"x" * HEAVY_CHARS: None},), True),
        (("x" * 1000, {"a": [1, None]}), False),
    ],
)
async def test_only_what_is_large_goes_to_a_thread(
    values: tuple[object, ...], beside: bool
) -> None:
    """A thread costs more than a small card, and the loop must not stand still for a large one."""
    assert heavy(*values) == beside
    assert (await draw(threading.get_ident, *values) != threading.get_ident()) == beside


@pytest.mark.parametrize(
    "ask",
    [
        {"arguments": {"text": "x" * HEAVY_CHARS}},
        {"schema": {"description": "x" * HEAVY_CHARS}},
        {
            "kind": Kind.QUESTION,
            "arguments": {},
            "questions": (Question(id="q", text="x" * HEAVY_CHARS, kind=FieldKind.TEXT),),
        },
    ],
)
def test_every_part_that_an_agent_writes_at_length_counts(ask: dict[str, Any]) -> None:
    """Whatever is drawn or masked of it."""
    assert heavy(*weight_of(record(ask=ask)))


@pytest.mark.parametrize(("chars", "beside"), [(HEAVY_CHARS // 4, True), (100, False)])
async def test_a_page_is_masked_beside_the_loop_when_it_is_large_together(
    chars: int, beside: bool
) -> None:
    """Also when each of its requests is small: nothing else would run until the last is done."""
    turns: list[None] = []
    asyncio.get_running_loop().call_soon(turns.append, None)
    page = [record(ask={"arguments": {"text": "x" * chars}}) for _ in range(5)]
    assert len(await render_records(page)) == 5
    assert bool(turns) == beside
