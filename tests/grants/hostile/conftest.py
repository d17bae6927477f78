"""The cell that the tests of this package share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.grants.hostile.cell import Cell, NoCellError


@pytest.fixture(scope="package")
def cell() -> Iterator[Cell]:
    """Return a cell, or skip where the machine gives no namespaces."""
    try:
        made = Cell()
    except NoCellError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("this machine gives no user namespaces")
    with made:
        yield made
