"""The stages of the adapters, as fixtures."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.stages import FAULTY, GRANTING, STAGES, Stage


@pytest.fixture(params=list(STAGES))
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Yield each adapter's stage."""
    async with STAGES[request.param](tmp_path) as made:
        yield made


@pytest.fixture(params=FAULTY)
async def faulty(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Yield the stage of each adapter whose platform can be made to fail."""
    async with STAGES[request.param](tmp_path) as made:
        yield made


@pytest.fixture(params=GRANTING)
async def granting(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Yield the stage of each adapter that posts the cards of remembered decisions."""
    async with STAGES[request.param](tmp_path) as made:
        yield made
