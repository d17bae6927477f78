"""A gateway for each test, and ann's user interface."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.saiki.site import Ui, site, ui
from tests.web.inbox import Inbox


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Inbox]:
    """Yield a running gateway with the contract."""
    async with site(tmp_path) as made:
        yield made


@pytest.fixture
async def ann(box: Inbox) -> AsyncIterator[Ui]:
    """Yield ann's user interface."""
    async with ui(box) as made:
        yield made
