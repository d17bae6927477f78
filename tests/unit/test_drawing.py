"""What is large is drawn beside the event loop."""

from __future__ import annotations

import threading

import pytest

from gateway.drawing import HEAVY_CHARS, heavy, made


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
    assert (await made(threading.get_ident, *values) != threading.get_ident()) == beside
