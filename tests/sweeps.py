"""Sweeps: one rule over many rows. `make test` tries a few rows of each, `make test-thorough` the
others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy


def sweep(
    names: str | Sequence[str],
    rows: Iterable[Any],
    *,
    few: int,
    ids: Callable[[Any], str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Parametrize a test over all rows; mark all but `few` as thorough.

    The few are spread evenly over the rows and begin with the first."""
    every = list(rows)
    chosen = {number * len(every) // few for number in range(few)}
    single = isinstance(names, str) and "," not in names
    return pytest.mark.parametrize(
        names,
        [
            row
            if at in chosen
            else pytest.param(*((row,) if single else row), marks=pytest.mark.thorough)
            for at, row in enumerate(every)
        ],
        ids=ids,
    )


def tried(
    *strategies: SearchStrategy[Any], few: int, many: int
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Try a property with drawn values: `few` times in `make test`, `many` times in `make
    test-thorough`."""

    def decorate(check: Callable[..., None]) -> Callable[[int], None]:
        @sweep("examples", (few, many), few=1)
        def test(examples: int) -> None:
            settings(max_examples=examples, deadline=None)(given(*strategies)(check))()

        test.__name__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__doc__,
            check.__module__,
        )
        return test

    return decorate
